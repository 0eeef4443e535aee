#pragma once
// The loops of integer.hpp, compiled once per instruction set: integer_avx512.cpp, integer_avx2.cpp and
// integer_baseline.cpp. Panels of B and A are packed as in Goto and van de Geijn (ACM TOMS 34(3), 2008): a panel of B
// stays in the second cache, a strip of A in the first, tiles of C in registers.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// op(X): where its elements are, strides in bytes.
struct IntegerView {
  std::byte* data;
  Index rows, cols, row, col;
};
using IntegerProduct = void (*)(std::int64_t alpha, const IntegerView& a, const IntegerView& b, std::int64_t beta,
                                const IntegerView& c);
/// By the bytes of an element; booleans apart.
struct IntegerTable {
  IntegerProduct truth, one, two, four, eight;
};
extern const IntegerTable integers_avx512, integers_avx2, integers_baseline;

#ifdef FLAGSTONE_VECTOR_BYTES
namespace {

constexpr Index depth_block = 64, column_block = 256, row_block = 4;

/// Sums of S modulo 2^bits are those of any wider type, cut off: bytes are multiplied as pairs of bytes, for which
/// there are instructions.
template <class S, bool truth>
using Sum = std::conditional_t<!truth && sizeof(S) == 1, std::uint16_t, S>;

template <class S>
S at(const IntegerView& x, Index i, Index j) {
  S value;
  std::memcpy(&value, x.data + i * x.row + j * x.col, sizeof value);
  return value;
}

template <class S, bool truth>
Sum<S, truth> taken(S value) {
  if constexpr (truth)
    return value != 0;
  else
    return value;
}

/// Vectors of one register; two of them beside each other for each of four rows.
template <class U>
struct Vector {
  typedef U Type __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
  static constexpr Index lanes = FLAGSTONE_VECTOR_BYTES / sizeof(U), width = 2 * lanes;
};

/// sums (4 x width) := strip of A (depth x 4) times columns of a panel of B (depth x column_block).
template <class U, bool truth>
void tile_of_c(const U* a, const U* b, Index depth, U* sums) {
  using V = typename Vector<U>::Type;
  constexpr Index lanes = Vector<U>::lanes, width = Vector<U>::width;
  V sum[row_block][2] = {};
  for (Index k = 0; k < depth; ++k) {
    V left, right;
    std::memcpy(&left, b + k * column_block, sizeof left);
    std::memcpy(&right, b + k * column_block + lanes, sizeof right);
    for (Index r = 0; r < row_block; ++r) {
      const U x = a[k * row_block + r];
      if constexpr (truth)
        sum[r][0] |= left & x, sum[r][1] |= right & x;
      else
        sum[r][0] += left * x, sum[r][1] += right * x;
    }
  }
  for (Index r = 0; r < row_block; ++r)
    for (Index v = 0; v < 2; ++v) std::memcpy(sums + r * width + v * lanes, &sum[r][v], sizeof(V));
}

template <class S, bool truth>
void add_to(const IntegerView& c, Index i, Index j, Index rows, Index cols, const Sum<S, truth>* sums, S alpha,
            S beta) {
  constexpr Index width = Vector<Sum<S, truth>>::width;
  for (Index r = 0; r < rows; ++r)
    for (Index q = 0; q < cols; ++q) {
      const auto sum = static_cast<S>(sums[r * width + q]);
      S value = beta == 0 ? S{0} : at<S>(c, i + r, j + q);
      if constexpr (truth)
        value = (alpha != 0 && sum != 0) || value != 0;
      else
        value = static_cast<S>(std::uint64_t{alpha} * sum + std::uint64_t{beta} * value);
      std::memcpy(c.data + (i + r) * c.row + (j + q) * c.col, &value, sizeof value);
    }
}

template <class S, bool truth>
void product(std::int64_t alpha, const IntegerView& a, const IntegerView& b, std::int64_t beta, const IntegerView& c) {
  using U = Sum<S, truth>;
  constexpr Index width = Vector<U>::width;
  static_assert(column_block % width == 0);
  alignas(64) U panel[depth_block * column_block];  // of B
  alignas(64) U strip[depth_block * row_block];     // of A
  alignas(64) U sums[row_block * width];
  for (Index j = 0; j < c.cols; j += column_block) {
    const Index cols = std::min(column_block, c.cols - j);
    for (Index k = 0; k < a.cols; k += depth_block) {
      const Index depth = std::min(depth_block, a.cols - k), filled = ceil_div(cols, width) * width;
      for (Index p = 0; p < depth; ++p)
        for (Index q = 0; q < filled; ++q)
          panel[p * column_block + q] = q < cols ? taken<S, truth>(at<S>(b, k + p, j + q)) : U{0};
      for (Index i = 0; i < c.rows; i += row_block) {
        const Index rows = std::min(row_block, c.rows - i);
        for (Index r = 0; r < row_block; ++r)
          for (Index p = 0; p < depth; ++p)
            strip[p * row_block + r] = r < rows ? taken<S, truth>(at<S>(a, i + r, k + p)) : U{0};
        for (Index q = 0; q < cols; q += width) {
          tile_of_c<U, truth>(strip, panel + q, depth, sums);
          add_to<S, truth>(c, i, j + q, rows, std::min(width, cols - q), sums, static_cast<S>(alpha),
                           static_cast<S>(k == 0 ? beta : 1));
        }
      }
    }
  }
}

constexpr IntegerTable make_integer_table() {
  return {product<std::uint8_t, true>, product<std::uint8_t, false>, product<std::uint16_t, false>,
          product<std::uint32_t, false>, product<std::uint64_t, false>};
}

}  // namespace
#endif

}  // namespace flagstone::kernel
