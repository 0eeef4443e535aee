#include "flagstone/algorithms/kernels/qr.hpp"

#include <utility>

#include "flagstone/kernel/factor/qr.hpp"

namespace flagstone::call {
namespace {

/// The part as the call sees it.
Tile matrix(const Call& call, std::size_t i, std::span<const Tile> tiles) {
  Tile tile = operand(call, i, tiles);
  if (call.operands()[i].transpose)
    std::swap(tile.shape[0], tile.shape[1]), std::swap(tile.strides[0], tile.strides[1]);
  return tile;
}

Call with(Call made, const QrOptions& options) {
  auto value = std::make_shared<Qr>();
  value->options = options;
  made.value = std::move(value);
  return made;
}

void run_geqrt(const Call& call, std::span<const Tile> tiles) {
  const QrOptions& o = call.value_as<Qr>().options;
  kernel::geqrt(o.ib, matrix(call, 1, tiles), matrix(call, 0, tiles), tiles[o.work].data);
}

void run_tpqrt(const Call& call, std::span<const Tile> tiles) {
  const QrOptions& o = call.value_as<Qr>().options;
  kernel::tpqrt(o.ib, o.triangle, matrix(call, 2, tiles), matrix(call, 1, tiles), matrix(call, 0, tiles),
                tiles[o.work].data);
}

void run_gemqrt(const Call& call, std::span<const Tile> tiles) {
  const QrOptions& o = call.value_as<Qr>().options;
  kernel::gemqrt(o.ib, o.adjoint, matrix(call, 0, tiles), matrix(call, 1, tiles), matrix(call, 2, tiles),
                 tiles[o.work].data);
}

void run_tpmqrt(const Call& call, std::span<const Tile> tiles) {
  const QrOptions& o = call.value_as<Qr>().options;
  kernel::tpmqrt(o.ib, o.adjoint, o.triangle, matrix(call, 0, tiles), matrix(call, 1, tiles), matrix(call, 2, tiles),
                 matrix(call, 3, tiles), tiles[o.work].data);
}

void run_identity(const Call& call, std::span<const Tile> tiles) {
  kernel::set_identity(call.value_as<Identity>().row, matrix(call, 0, tiles));
}

constexpr auto blas_dtypes = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};
const bool entered = host_kernels().enter(Kernel::geqrt, blas_dtypes, run_geqrt) &&
                     host_kernels().enter(Kernel::tpqrt, blas_dtypes, run_tpqrt) &&
                     host_kernels().enter(Kernel::gemqrt, blas_dtypes, run_gemqrt) &&
                     host_kernels().enter(Kernel::tpmqrt, blas_dtypes, run_tpmqrt) &&
                     host_kernels().enter(Kernel::identity, blas_dtypes, run_identity);

}  // namespace

Call geqrt(Dtype dtype, const QrOptions& options, TilePart t, TilePart a) {
  return with({Kernel::geqrt, dtype, {std::move(t), std::move(a)}}, options);
}

Call tpqrt(Dtype dtype, const QrOptions& options, TilePart t, TilePart b, TilePart r) {
  return with({Kernel::tpqrt, dtype, {std::move(t), std::move(b), std::move(r)}}, options);
}

Call gemqrt(Dtype dtype, const QrOptions& options, TilePart v, TilePart t, TilePart c) {
  return with({Kernel::gemqrt, dtype, {std::move(v), std::move(t), std::move(c)}}, options);
}

Call tpmqrt(Dtype dtype, const QrOptions& options, TilePart v, TilePart t, TilePart a, TilePart b) {
  return with({Kernel::tpmqrt, dtype, {std::move(v), std::move(t), std::move(a), std::move(b)}}, options);
}

Call identity(Dtype dtype, Index row, TilePart to) {
  Call made(Kernel::identity, dtype, {std::move(to)});
  auto value = std::make_shared<Identity>();
  value->row = row;
  made.value = std::move(value);
  return made;
}

}  // namespace flagstone::call
