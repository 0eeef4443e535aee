#pragma once
// What tests of a table of kernels share: a call on parts of larger tiles, held to its naive twin byte for byte.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/kernel/reference/reference.hpp"

namespace flagstone {

namespace reference = kernel::reference;

struct KernelOfTable {
  Kernel kernel;
  Dtype dtype;
};

/// A tile with memory of its own. Values are small integers: every sum is exact in every dtype.
struct Owned {
  Owned(Dtype dtype, const Shape& shape, unsigned seed)
      : bytes(static_cast<std::size_t>(count(shape)) * size_of(dtype)),
        tile{bytes.data(), dtype, shape, c_strides(shape, size_of(dtype)), bytes.size()} {
    std::mt19937 random(seed);
    const bool sums = is_complex(dtype) || dtype == Dtype::float32 || dtype == Dtype::float64;
    if (!sums)
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 2);
    if (sums)
      for (Index i = 0; i < shape[0]; ++i)
        for (Index j = 0; j < shape[1]; ++j) {
          const auto part = [&] { return static_cast<double>(static_cast<int>(random() % 17) - 8); };
          reference::set(tile, i, j, {part(), is_complex(dtype) ? part() : 0});
        }
  }
  Owned(const Owned& other) : bytes(other.bytes), tile(other.tile) { tile.data = bytes.data(); }

  std::vector<std::byte> bytes;
  Tile tile;
};

class EveryKernel : public testing::TestWithParam<KernelOfTable> {
 protected:
  static constexpr Index m = 13, n = 9, depth = 21, offset = 3;

  /// Larger than the part by some rows and columns on each side.
  std::uint32_t around(Dtype dtype, Shape part) {
    for (Index& extent : part) extent += 2 * offset;
    tiles_.emplace_back(dtype, part, static_cast<unsigned>(tiles_.size() + 1));
    return static_cast<std::uint32_t>(tiles_.size() - 1);
  }
  TilePart part(Dtype dtype, const Shape& shape, bool transpose = false, bool conjugate = false) {
    const Shape stored = transpose ? Shape{shape[1], shape[0]} : shape;
    return {around(dtype, stored), transpose, conjugate, {{offset, offset}, stored}};
  }
  Tile at(const TilePart& part, std::vector<Owned>& tiles) const { return subtile(tiles[part.access].tile, part.part); }

  /// Runs the call on one copy of the tiles and `twin` on another: all bytes are equal, around the parts too.
  template <class Twin>
  void check(const Call& call, Twin twin) {
    std::vector<Owned> expected = tiles_;
    std::vector<Tile> given;
    for (Owned& owned : tiles_) given.push_back(owned.tile);
    if (scratch_ < given.size())  // as the executor gives it
      given[scratch_].data += 64 - reinterpret_cast<std::uintptr_t>(given[scratch_].data) % 64;
    host_kernels().run(call, given);
    twin(expected);
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      if (i == scratch_) continue;
      EXPECT_EQ(tiles_[i].bytes, expected[i].bytes) << "tile " << i;
    }
  }

  void check_products(Dtype dtype);
  void check_copy(Dtype dtype);
  void check_mirror(Dtype dtype);
  void check_evaluation(Dtype dtype);
  void check_accumulators(Kernel kernel, Dtype dtype);
  void check_take(Dtype dtype);
  void check_herk(Dtype dtype);
  void check_trsm(Dtype dtype);
  void check_potrf(Dtype dtype);
  void check_panels(Kernel kernel, Dtype dtype);
  void check_qr(Kernel kernel, Dtype dtype);
  /// A part becomes lower bidiagonal, twos and ones: whatever is computed with it is exact.
  TilePart bidiagonal(Dtype dtype, Index order);

  std::vector<Owned> tiles_;
  std::size_t scratch_ = 1000;  // which tile holds nothing afterwards
};

}  // namespace flagstone
