#include "flagstone/algorithms/kernels/dense.hpp"

#include <utility>

#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/mirror.hpp"

namespace flagstone::call {
namespace {

kernel::Op op_of(const TilePart& part) { return {part.transpose, part.conjugate}; }

void run_gemm(const Call& call, std::span<const Tile> tiles) {
  const auto parts = call.operands();
  std::byte* const scratch = parts.size() > 3 ? tiles[parts[3].access].data : nullptr;
  kernel::gemm(call.alpha, operand(call, 0, tiles), op_of(parts[0]), operand(call, 1, tiles), op_of(parts[1]),
               call.beta, operand(call, 2, tiles), scratch);
}

void run_scale(const Call& call, std::span<const Tile> tiles) {
  const Tile c = operand(call, 0, tiles);
  const Tile a{nullptr, c.dtype, {c.shape[0], 0}, {1, 1}, 0}, b{nullptr, c.dtype, {0, c.shape[1]}, {1, 1}, 0};
  kernel::gemm(1.0, a, {}, b, {}, call.beta, c, nullptr);
}

void run_convert(const Call& call, std::span<const Tile> tiles) {
  kernel::convert(operand(call, 0, tiles), nullptr, operand(call, 1, tiles));
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
constexpr auto real_dtypes = {Dtype::float32, Dtype::float64};
const bool entered = host_kernels().enter(Kernel::gemm, blas_dtypes, run_gemm) &&
                     host_kernels().enter(Kernel::scale, blas_dtypes, run_scale) &&
                     host_kernels().enter(Kernel::convert, real_dtypes, run_convert) &&
                     host_kernels().enter(Kernel::mirror, blas_dtypes, run_mirror);

}  // namespace

Call gemm(Dtype dtype, std::complex<double> alpha, TilePart a, TilePart b, std::complex<double> beta, TilePart c,
          std::optional<std::uint32_t> scratch) {
  Call made = scratch ? Call(Kernel::gemm, dtype, {std::move(a), std::move(b), std::move(c), TilePart{*scratch}})
                      : Call(Kernel::gemm, dtype, {std::move(a), std::move(b), std::move(c)});
  made.alpha = alpha, made.beta = beta;
  return made;
}

Call scale(Dtype dtype, std::complex<double> beta, TilePart c) {
  Call made(Kernel::scale, dtype, {std::move(c)});
  made.beta = beta;
  return made;
}

Call convert(Dtype dtype, TilePart from, TilePart to) {
  return {Kernel::convert, dtype, {std::move(from), std::move(to)}};
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
