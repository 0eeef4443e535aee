#pragma once
// What zarr.json was when it was written: a small private file beside the checksums.
#include <string>

namespace flagstone {

/// Notes, in `stamp`, length, crc32c, inode and time of the metadata `file`, which holds `text` and was just written.
/// Not synced: one that is torn says nothing.
void stamp_metadata(const std::string& file, const std::string& text, const std::string& stamp);
/// Whether `file`, which holds `text`, is what was written by its inode, length and time, and is not by its bytes: then
/// nobody wrote it, and it is damaged. False where another program wrote it since, or nothing is known.
bool metadata_damaged(const std::string& file, const std::string& text, const std::string& stamp);
/// FormatError where it is.
void check_metadata(const std::string& file, const std::string& text, const std::string& stamp);
/// Where the stamp of an array's zarr.json lies, and that of the group that a sparse matrix's values are in.
std::string array_stamp(const std::string& directory);
std::string group_stamp(const std::string& data_directory);

}  // namespace flagstone
