#pragma once
// Names by which others know what a directory entry is: hidden ones of what is being built, beside the place where it
// will appear, and those of what goes with its process.
#include <cstdint>
#include <set>
#include <string>

namespace flagstone {

/// What every hidden build has in its name, `.<name>.flagstone-tmp-<id>`, and what lies beside it.
inline const std::string build_mark = ".flagstone-tmp-";
inline const std::string lock_suffix = ".lock", old_suffix = ".old", notes_suffix = ".notes";

/// From the root, so that a later chdir does not matter; an empty path, or any where there is no directory, as it is.
std::string from_root(const std::string& path);
bool path_exists(const std::string& path);  // a link counts, wherever it points
/// Everything in a hidden name before its id: `<parent>/.<name>.flagstone-tmp-`.
std::string hidden_prefix(const std::string& path);
/// The builds that begin so, without suffixes.
std::set<std::string> hidden_siblings(const std::string& prefix);
/// The path of the output that a hidden build belongs to; empty for other names.
std::string output_of(const std::string& hidden);
/// "<process>-<8 hex digits>": for what this process makes.
std::string name_of_our_own();
/// Where results lie that nobody named: as `<name>-<process>-<8 hex digits>.zarr`.
inline const std::string results_folder = "results";
/// What lies beside such a result as long as somebody may read it, and beside nothing else: `<...>.lock`.
std::string lock_of_result(const std::string& place);
/// Whether a path is a result of this process that nobody named, built or being built, or lies in one: nobody opens
/// that after a crash (who starts next removes it), so it is not synced. Its name says which process, its lock that it
/// has no other: what is only called so is somebody's own file. So are copies, and what a forked child or another
/// process sees of it.
bool goes_with_us(const std::string& path);
void remove_tree(const std::string& path);
/// As stored (blocks), of a file or a whole directory.
std::uint64_t bytes_on_disk(const std::string& path);

}  // namespace flagstone
