#pragma once
// What can be had back of a damaged array.
#include <string>
#include <vector>

#include "flagstone/storage/maintenance/check.hpp"

namespace flagstone {

struct RepairReport {
  std::vector<std::string> repaired;  // sentences
  std::vector<Damage> lost;           // what no copy here holds: these chunks still say so when they are read
};

/// Writes anew what can be derived: an index from the checksums of the slots, checksums from whole chunks.
/// `accept`: chunks that do not match their checksum are right as they are. Touches nothing that is whole.
RepairReport repair_array(const std::string& directory, bool accept);

}  // namespace flagstone
