#include "flagstone/kernel/random/philox.hpp"

#include "flagstone/kernel/random/philox_blocks.hpp"

namespace flagstone::kernel {
namespace {

PhiloxBlocks chosen() {
#ifdef FLAGSTONE_WIDE_KERNELS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw"))
    return philox_blocks_avx512;
  if (__builtin_cpu_supports("avx2")) return philox_blocks_avx2;
#endif
  return philox_blocks_baseline;
}

}  // namespace

PhiloxCounter philox(PhiloxCounter c, PhiloxKey key) {
  for (int r = 0; r < rounds; ++r) {
    const std::uint64_t p0 = std::uint64_t{multiply_0} * c[0], p1 = std::uint64_t{multiply_1} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += weyl_0, key[1] += weyl_1;
  }
  return c;
}

void philox_blocks_baseline(const Stream& stream, std::uint64_t first, std::int64_t n, std::uint64_t* to) {
  blocks(stream, first, n, to);
}

void random_words(const Stream& stream, std::uint64_t first, std::int64_t n, std::uint64_t* to) {
  static const PhiloxBlocks fill = chosen();
  std::uint64_t pair[2];
  if (n > 0 && first % 2 != 0) {
    fill(stream, first / 2, 1, pair);
    *to++ = pair[1], ++first, --n;
  }
  fill(stream, first / 2, n / 2, to);
  if (n % 2 != 0) {
    fill(stream, (first + static_cast<std::uint64_t>(n)) / 2, 1, pair);
    to[n - 1] = pair[0];
  }
}

std::uint64_t FurtherWords::next() {
  if (has_second_) {
    has_second_ = false;
    return second_;
  }
  const PhiloxCounter made =
      philox({static_cast<std::uint32_t>(place_), static_cast<std::uint32_t>(place_ >> 32), ++attempt_, stream_.call},
             stream_.key);
  second_ = made[2] | std::uint64_t{made[3]} << 32, has_second_ = true;
  return made[0] | std::uint64_t{made[1]} << 32;
}

}  // namespace flagstone::kernel
