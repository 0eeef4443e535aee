#pragma once
// A dense copy of an array, to be carried away: chunks one after the other, no slots, no gaps, no private files.
#include <string>

#include "flagstone/storage/maintenance/check.hpp"

namespace flagstone {

class Ring;

struct PackOptions {
  std::string codec;      // codec_name.hpp; empty: as it is stored (raw, where that is not written here)
  bool checksum = false;  // Zarr's crc32c behind every chunk
};

struct PackReport {
  std::uint64_t chunks = 0, stored = 0;  // of the array; of the copy, the others are all fill value
  std::uint64_t bytes_read = 0, bytes_written = 0;
};

/// What pack_array would move: metadata and indexes are read, no chunk is.
struct PackPlan {
  PackReport moved;    // bytes_written: exact where chunks keep their bytes, else with chunks as they are unpacked
  bool again = false;  // chunks are unpacked and packed anew
  std::string codec;   // codec_name.hpp, of the copy
  std::uint64_t unpacked = 0;  // bytes of the stored chunks
  std::uint64_t memory = 0;    // what it holds, beside `staging`
};
PackPlan plan_pack(const std::string& source, const PackOptions& options);

/// Writes the array in `source`, of any Zarr that is read here, as sharded Zarr v3 to the new directory `destination`,
/// synced. Chunks keep their stored bytes where the codec stays, else they are unpacked and packed again; all of them
/// are verified. FormatError names a damaged one. Cost: the stored bytes once in and once out; memory: about three
/// chunks and `staging`.
PackReport pack_array(Ring& ring, const std::string& source, const std::string& destination, const PackOptions& options,
                      std::size_t staging, const Progress& progress = {});

}  // namespace flagstone
