#pragma once
// Whether an array on disk is what was written, and what can be had back where it is not.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone {

class Ring;

struct Damage {
  std::string file;
  Shape chunk;  // empty: the shard's index, or the file of checksums
  std::string what;
};

struct CheckReport {
  std::uint64_t chunks = 0;    // of the array
  std::uint64_t stored = 0;    // the others are absent: all fill value
  std::uint64_t verified = 0;  // equal to a checksum: ours, or one inside the chunk
  std::uint64_t bytes = 0;     // read
  std::vector<Damage> damages;
  std::vector<std::string> notes;  // what is no damage and worth knowing
};

/// Called with the bytes read so far; what it throws ends the check.
using Progress = std::function<void(std::uint64_t)>;

/// Reads all of a Zarr array: metadata, the index of every shard, every chunk, the file of checksums. Damage is
/// listed, not thrown; FormatError where the metadata cannot be read. Cost: all stored bytes, once; memory: about
/// `staging` bytes and one chunk.
CheckReport check_array(Ring& ring, const std::string& directory, std::size_t staging, const Progress& progress = {});

struct RepairReport {
  std::vector<std::string> repaired;  // sentences
  std::vector<Damage> lost;           // what no copy here holds: these chunks still say so when they are read
};

/// Writes anew what can be derived: an index from the checksums of the slots, checksums from whole chunks.
/// `accept`: chunks that do not match their checksum are right as they are. Touches nothing that is whole.
RepairReport repair_array(const std::string& directory, bool accept);

}  // namespace flagstone
