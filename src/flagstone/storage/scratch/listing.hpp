#pragma once
// What lies in scratch: imports, results, what dead processes left; and who may delete what.
#include <cstdint>
#include <string>
#include <vector>

namespace flagstone {

struct ScratchEntry {
  enum class Kind { imported, result, left_behind };
  std::string path;
  Kind kind;
  std::uint64_t bytes = 0;  // on the disk
  std::string source;       // of an import its file, of a result its process
  /// Whether clear_scratch() removes it: imports, and what dead processes left.
  bool clearable = false;
};

/// "import", "result", "left behind".
const char* name_of(ScratchEntry::Kind kind);

/// Built and being built. Cost: a look at each file.
std::vector<ScratchEntry> scratch_entries(const std::string& scratch);
/// What clear_scratch() would free.
std::uint64_t clearable_scratch(const std::string& scratch);

struct ScratchCleared {
  std::size_t entries = 0;
  std::uint64_t bytes = 0;
};
/// Removes imports and what dead processes left; results in use and what is being built stay.
ScratchCleared clear_scratch(const std::string& scratch);

}  // namespace flagstone
