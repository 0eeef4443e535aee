#pragma once
// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): random words
// that are a function of a key and a counter, so of their place alone.
#include <array>
#include <cstdint>

namespace flagstone::kernel {

using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxCounter = std::array<std::uint32_t, 4>;

/// Of one counter.
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

/// Which numbers: those of one call of one generator.
struct Stream {
  PhiloxKey key{};
  std::uint32_t call = 0;
};

/// to[i] := word first + i of 64 bits: counter (w / 2, 0, call), its low or its high half.
void random_words(const Stream& stream, std::uint64_t first, std::int64_t n, std::uint64_t* to);

/// Words beyond the first of one place, for draws that are rejected: counters (place, attempt, call), attempt from 1.
class FurtherWords {
 public:
  FurtherWords(const Stream& stream, std::uint64_t place) : stream_(stream), place_(place) {}
  std::uint64_t next();
  /// In [0, 1), of 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  Stream stream_;
  std::uint64_t place_;
  std::uint32_t attempt_ = 0;
  std::uint64_t second_ = 0;
  bool has_second_ = false;
};

/// Whole counters, two words each, of one instruction set.
using PhiloxBlocks = void (*)(const Stream&, std::uint64_t first, std::int64_t n, std::uint64_t* to);
void philox_blocks_baseline(const Stream& stream, std::uint64_t first, std::int64_t n, std::uint64_t* to);
void philox_blocks_avx2(const Stream& stream, std::uint64_t first, std::int64_t n, std::uint64_t* to);
void philox_blocks_avx512(const Stream& stream, std::uint64_t first, std::int64_t n, std::uint64_t* to);

}  // namespace flagstone::kernel
