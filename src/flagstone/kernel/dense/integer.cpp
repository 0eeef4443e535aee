#include "flagstone/kernel/dense/integer.hpp"

#include <string>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/integer_loops.hpp"

namespace flagstone::kernel {
namespace {

constexpr Index narrow = 16;  // columns below which the transposed product fills vectors better

const IntegerTable& table() {
  static const IntegerTable& chosen = []() -> const IntegerTable& {
#ifdef FLAGSTONE_WIDE_KERNELS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
      return integers_avx512;
    if (__builtin_cpu_supports("avx2")) return integers_avx2;
#endif
    return integers_baseline;
  }();
  return chosen;
}

IntegerProduct product_of(Dtype dtype) {
  if (dtype == Dtype::boolean) return table().truth;
  switch (size_of(dtype)) {
    case 1:
      return table().one;
    case 2:
      return table().two;
    case 4:
      return table().four;
    default:
      return table().eight;
  }
}

IntegerView view(const Tile& t, bool transpose) {
  IntegerView seen{t.data, t.shape[0], t.shape[1], t.strides[0], t.strides[1]};
  if (transpose) std::swap(seen.rows, seen.cols), std::swap(seen.row, seen.col);
  return seen;
}

/// C := beta C, by a product with nothing: one column of zeros times one row of them.
void scale(std::int64_t beta, const IntegerView& c, Dtype dtype) {
  std::uint64_t zero = 0;
  auto* const data = reinterpret_cast<std::byte*>(&zero);
  product_of(dtype)(0, {data, c.rows, 1, 0, 0}, {data, 1, c.cols, 0, 0}, beta, c);
}

}  // namespace

void integer_gemm(std::int64_t alpha, const Tile& a, bool transpose_a, const Tile& b, bool transpose_b,
                  std::int64_t beta, const Tile& c) {
  const bool two = a.shape.size() == 2 && b.shape.size() == 2 && c.shape.size() == 2;
  if (!two || a.dtype != c.dtype || b.dtype != c.dtype || !is_integer(c.dtype))
    throw ShapeError("integer_gemm: tiles are " + std::string(name_of(a.dtype)) + ", " + std::string(name_of(b.dtype)) +
                     " and " + std::string(name_of(c.dtype)) + "; matrices of one integer dtype are needed.");
  const IntegerView left = view(a, transpose_a), right = view(b, transpose_b), to = view(c, false);
  if (left.cols != right.rows || left.rows != to.rows || right.cols != to.cols)
    throw ShapeError("integer_gemm: op(A) is " + to_string({left.rows, left.cols}) + ", op(B) " +
                     to_string({right.rows, right.cols}) + " and C " + to_string(c.shape) + "; they do not conform.");
  if (left.cols == 0) return scale(beta, to, c.dtype);
  if (to.cols < narrow && to.cols < to.rows)  // Cᵀ := op(B)ᵀ op(A)ᵀ
    return product_of(c.dtype)(alpha, view(b, !transpose_b), view(a, !transpose_a), beta, view(c, true));
  product_of(c.dtype)(alpha, left, right, beta, to);
}

}  // namespace flagstone::kernel
