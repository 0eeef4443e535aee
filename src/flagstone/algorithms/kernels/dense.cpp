#include "flagstone/algorithms/kernels/dense.hpp"

#include <complex>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "flagstone/base/grid.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/integer.hpp"
#include "flagstone/kernel/dense/mirror.hpp"
#include "flagstone/kernel/dense/subnormals_flushed.hpp"

namespace flagstone::call {
namespace {

kernel::Op op_of(const TilePart& part) { return {part.transpose, part.conjugate}; }

/// The matrix of a stack that meets the one of C's at `place`; the last dimensions of both are the same ones.
Tile matrix_of(const Tile& stack, const Shape& place) {
  const std::size_t lead = stack.shape.size() - 2;
  Tile matrix = stack;
  for (std::size_t d = 0; d < lead; ++d)
    if (stack.shape[d] > 1) matrix.data += place[place.size() - lead + d] * stack.strides[d];
  matrix.shape.erase(matrix.shape.begin(), matrix.shape.begin() + static_cast<std::ptrdiff_t>(lead));
  matrix.strides.erase(matrix.strides.begin(), matrix.strides.begin() + static_cast<std::ptrdiff_t>(lead));
  return matrix;
}

/// One product, or one of each matrix of a stack.
template <class Gemm>
void each_product(const Tile& a, const Tile& b, const Tile& c, Gemm&& gemm) {
  if (c.shape.size() == 2) return gemm(a, b, c);
  const Shape lead(c.shape.begin(), c.shape.end() - 2), first(lead.size(), 0);
  if (count(c.shape) == 0) return;
  Shape place = first;
  do gemm(matrix_of(a, place), matrix_of(b, place), matrix_of(c, place));
  while (advance(place, first, lead));
}

/// The value of a product that is to be flushed.
struct Flushed : CallValue {};

void run_gemm(const Call& call, std::span<const Tile> tiles) {
  const auto parts = call.operands();
  std::optional<kernel::SubnormalsFlushed> flushed;
  if (call.value) flushed.emplace();
  std::byte* const scratch = parts.size() > 3 ? tiles[parts[3].access].data : nullptr;
  each_product(operand(call, 0, tiles), operand(call, 1, tiles), operand(call, 2, tiles),
               [&](const Tile& a, const Tile& b, const Tile& c) {
                 kernel::gemm(call.alpha, a, op_of(parts[0]), b, op_of(parts[1]), call.beta, c, scratch);
               });
}

std::int64_t whole_number(std::complex<double> value) { return static_cast<std::int64_t>(value.real()); }

void run_integer_gemm(const Call& call, std::span<const Tile> tiles) {
  const auto parts = call.operands();
  each_product(operand(call, 0, tiles), operand(call, 1, tiles), operand(call, 2, tiles),
               [&](const Tile& a, const Tile& b, const Tile& c) {
                 kernel::integer_gemm(whole_number(call.alpha), a, parts[0].transpose, b, parts[1].transpose,
                                      whole_number(call.beta), c);
               });
}

/// A product without depth.
template <class Gemm>
void scale(const Tile& stack, Gemm&& gemm) {
  each_product({nullptr, stack.dtype, {1, 0}, {1, 1}, 0}, {nullptr, stack.dtype, {0, 1}, {1, 1}, 0}, stack,
               [&](Tile a, Tile b, const Tile& c) {
                 a.shape[0] = c.shape[0], b.shape[1] = c.shape[1];
                 gemm(a, b, c);
               });
}

/// Of a scaling, what elements are clipped to.
struct Bound : CallValue {
  double most = 0;
};

template <class Real>
void clip_run(Real* values, Index n, Real most) {
  for (Index i = 0; i < n; ++i) {
    if (values[i] > most) values[i] = most;  // false of NaN
    if (values[i] < -most) values[i] = -most;
  }
}

void run_clip(double most, const Tile& c) {
  visit_blas_type(c.dtype, [&]<class T>(T) {
    using Real = decltype(std::real(T{}));
    for (Index i = 0; i < c.shape[0]; ++i)
      for (Index j = 0; j < c.shape[1]; ++j)
        clip_run(reinterpret_cast<Real*>(c.data + i * c.strides[0] + j * c.strides[1]), sizeof(T) / sizeof(Real),
                 static_cast<Real>(most));
  });
}

void run_scale(const Call& call, std::span<const Tile> tiles) {
  if (call.value) return run_clip(call.value_as<Bound>().most, operand(call, 0, tiles));
  scale(operand(call, 0, tiles),
        [&](const Tile& a, const Tile& b, const Tile& c) { kernel::gemm(1.0, a, {}, b, {}, call.beta, c, nullptr); });
}

void run_integer_scale(const Call& call, std::span<const Tile> tiles) {
  scale(operand(call, 0, tiles), [&](const Tile& a, const Tile& b, const Tile& c) {
    kernel::integer_gemm(1, a, false, b, false, whole_number(call.beta), c);
  });
}

void run_convert(const Call& call, std::span<const Tile> tiles) {
  kernel::convert(operand(call, 0, tiles), nullptr, operand(call, 1, tiles));
}

void run_copy_lower(const Call& call, std::span<const Tile> tiles) {
  const Tile from = operand(call, 0, tiles), to = operand(call, 1, tiles);
  const std::size_t item = size_of(to.dtype);
  const auto at = [](const Tile& x, Index i, Index j) { return x.data + i * x.strides[0] + j * x.strides[1]; };
  for (Index i = 0; i < to.shape[0]; ++i)
    for (Index j = 0; j <= i; ++j) std::memcpy(at(to, i, j), at(from, i, j), item);
}

void run_mirror(const Call& call, std::span<const Tile> tiles) {
  const Tile from = operand(call, 0, tiles), to = operand(call, 1, tiles);
  const bool conjugate = call.operands()[0].conjugate, transpose = call.operands()[0].transpose;
  if (from.data == to.data)
    kernel::mirror_within(transpose ? turned(to, {1, 0}) : to, conjugate);
  else
    kernel::mirror(from, conjugate, to);
}

constexpr auto blas_dtypes = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};
constexpr auto integer_dtypes = {Dtype::boolean, Dtype::int8,   Dtype::int16,  Dtype::int32, Dtype::int64,
                                 Dtype::uint8,   Dtype::uint16, Dtype::uint32, Dtype::uint64};
constexpr auto real_dtypes = {Dtype::float32, Dtype::float64};
const bool entered = host_kernels().enter(Kernel::gemm, blas_dtypes, run_gemm) &&
                     host_kernels().enter(Kernel::scale, blas_dtypes, run_scale) &&
                     host_kernels().enter(Kernel::gemm, integer_dtypes, run_integer_gemm) &&
                     host_kernels().enter(Kernel::scale, integer_dtypes, run_integer_scale) &&
                     host_kernels().enter(Kernel::convert, real_dtypes, run_convert) &&
                     host_kernels().enter(Kernel::copy_lower, blas_dtypes, run_copy_lower) &&
                     host_kernels().enter(Kernel::mirror, blas_dtypes, run_mirror);

}  // namespace

Call gemm(Dtype dtype, std::complex<double> alpha, TilePart a, TilePart b, std::complex<double> beta, TilePart c,
          std::optional<std::uint32_t> scratch) {
  Call made = scratch ? Call(Kernel::gemm, dtype, {std::move(a), std::move(b), std::move(c), TilePart{*scratch}})
                      : Call(Kernel::gemm, dtype, {std::move(a), std::move(b), std::move(c)});
  made.alpha = alpha, made.beta = beta;
  return made;
}

Call flushed(Call gemm) {
  static const auto value = std::make_shared<const Flushed>();  // one: equal calls go to a device together
  gemm.value = value;
  return gemm;
}

Call scale(Dtype dtype, std::complex<double> beta, TilePart c) {
  Call made(Kernel::scale, dtype, {std::move(c)});
  made.beta = beta;
  return made;
}

Call clip(Dtype dtype, double most, TilePart c) {
  Call made = scale(dtype, 1.0, std::move(c));
  auto bound = std::make_shared<Bound>();
  bound->most = most, made.value = std::move(bound);
  return made;
}

Call convert(Dtype dtype, TilePart from, TilePart to) {
  return {Kernel::convert, dtype, {std::move(from), std::move(to)}};
}

Call copy_lower(Dtype dtype, TilePart from, TilePart to) {
  return {Kernel::copy_lower, dtype, {std::move(from), std::move(to)}};
}

Call mirror(Dtype dtype, bool conjugate, TilePart from, TilePart to) {
  from.conjugate = conjugate;
  return {Kernel::mirror, dtype, {std::move(from), std::move(to)}};
}

Tile turned(const Tile& tile, const std::vector<std::size_t>& axes) {
  Tile seen = tile;
  for (std::size_t d = 0; d < axes.size(); ++d)
    seen.shape[d] = tile.shape[axes[d]], seen.strides[d] = tile.strides[axes[d]];
  return seen;
}

}  // namespace flagstone::call
