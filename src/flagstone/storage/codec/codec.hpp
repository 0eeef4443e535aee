#pragma once
// The words of chunk codecs: which there are, and how a chain of them makes stored bytes from elements.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flagstone {

/// One step from a chunk's bytes to its stored bytes. crc32c and fletcher32 append four bytes; shuffle and lzf are
/// HDF5's; bitpacked is of integers, and ours alone.
enum class Codec : std::uint8_t { blosc, zstd, gzip, zlib, bz2, lzf, shuffle, crc32c, fletcher32, bitpacked };

/// What blosc packs with, by its own names: blosclz, lz4, lz4hc, zlib, zstd; and what it does before.
enum class BloscPacker : std::uint8_t { blosclz, lz4, lz4hc, snappy, zlib, zstd };
enum class BloscShuffle : std::uint8_t { noshuffle, shuffle, bitshuffle };

struct CodecStep {
  static constexpr int unknown = -1000;  // reading needs no level
  Codec codec = Codec::blosc;
  std::size_t item = 1;  // shuffle, bitpacked: bytes of an element
  int level = unknown;   // blosc, zstd, gzip: of the writer
  BloscPacker packer = BloscPacker::lz4;
  BloscShuffle shuffle = BloscShuffle::shuffle;
  bool operator==(const CodecStep&) const = default;
};

/// How the bytes of one chunk come from its elements.
struct CodecChain {
  std::vector<std::size_t> order;  // of a transpose codec; empty: C order
  bool big_endian = false;
  std::vector<CodecStep> steps;  // as they are applied when a chunk is written

  bool raw() const { return !big_endian && steps.empty(); }
  /// Zarr's crc32c behind every chunk.
  bool summed_inside() const { return !steps.empty() && steps.back().codec == Codec::crc32c; }
  /// One blosc buffer of elements in C order: what is written here, and what kernels unpack themselves.
  bool blosc_alone() const {
    return order.empty() && !big_endian && steps.size() == 1 && steps[0].codec == Codec::blosc;
  }
};

/// CodecChain::order of arrays of so many dimensions: none for C order, and where there is nothing to turn round.
std::vector<std::size_t> transpose_order(std::size_t dimensions, bool column_major);

/// A chunk as it was read.
struct EncodedChunk {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t skipped = 0;  // bit i: step i was left out when this chunk was written (HDF5's filter mask)
};

std::string_view name_of(Codec codec) noexcept;
/// The inverse; FormatError for a name that is not in the list.
Codec codec_named(std::string_view name);
/// The library that this build lacks for a codec; null where it can be undone.
const char* missing_library(Codec codec) noexcept;

}  // namespace flagstone
