#pragma once
// Hidden names of what is being built, beside the place where it will appear.
#include <cstdint>
#include <set>
#include <string>

namespace flagstone {

/// What every hidden build has in its name, `.<name>.flagstone-tmp-<id>`, and what lies beside it.
inline const std::string build_mark = ".flagstone-tmp-";
inline const std::string lock_suffix = ".lock", old_suffix = ".old", notes_suffix = ".notes";

bool path_exists(const std::string& path);  // a link counts, wherever it points
/// Everything in a hidden name before its id: `<parent>/.<name>.flagstone-tmp-`.
std::string hidden_prefix(const std::string& path);
/// The builds that begin so, without suffixes.
std::set<std::string> hidden_siblings(const std::string& prefix);
/// The path of the output that a hidden build belongs to; empty for other names.
std::string output_of(const std::string& hidden);
void remove_tree(const std::string& path);
/// As stored (blocks), of a file or a whole directory.
std::uint64_t bytes_on_disk(const std::string& path);

}  // namespace flagstone
