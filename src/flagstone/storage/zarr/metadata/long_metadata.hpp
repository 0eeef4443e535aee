#pragma once
// Metadata that are long take many times their text when they are parsed: counted before (decision 84).
#include <cstdint>
#include <string>

namespace flagstone {

/// The file of metadata that takes most, and what it takes: eight times its text (read, parsed, written again,
/// compared) and 80 bytes for every comma or bracket, which bounds the values in it.
struct LongMetadata {
  std::string file;
  std::uint64_t text = 0, parsed = 0;  // bytes; 0: none is longer than 256 KiB
};

/// Of a directory and so many levels of members below it. A look at each file; a longer one is read once, in pieces.
LongMetadata longest_metadata(const std::string& directory, int levels);

}  // namespace flagstone
