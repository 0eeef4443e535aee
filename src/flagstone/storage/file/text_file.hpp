#pragma once
// Small files of text: metadata, records.
#include <cstddef>
#include <string>

namespace flagstone {

/// The text of a small file. StorageError (ENOENT among them), FormatError where it is larger than `most` bytes.
std::string read_text(const std::string& path, std::size_t most = 256u << 20);
/// Writes and fsyncs a small file; an existing one is replaced by rename.
void write_text(const std::string& path, const std::string& text);

}  // namespace flagstone
