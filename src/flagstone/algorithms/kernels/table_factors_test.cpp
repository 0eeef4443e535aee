// The kernels of factorizations, each against its naive twin (table_test.cpp).
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/kernel/factor/getrf.hpp"
#include "flagstone/kernel/factor/qr.hpp"
#include "flagstone/testing/every_kernel.hpp"

namespace flagstone {

void EveryKernel::check_herk(Dtype dtype) {
  for (const bool transpose : {false, true})
    for (const bool turned : {false, true}) {
      tiles_.clear();
      TilePart a = part(dtype, {n, depth}, transpose, transpose), c = part(dtype, {n, n});
      c.transpose = turned;
      scratch_ = tiles_.size();
      tiles_.emplace_back(Dtype::uint8, Shape{1, 16 * n * depth + 4096}, 0);
      check(call::herk(dtype, kernel::Uplo::lower, 3, a, 2, c, static_cast<std::uint32_t>(scratch_)),
            [&](std::vector<Owned>& t) {
              const Tile x = at(a, t), target = at(c, t);
              for (Index i = 0; i < n; ++i)
                for (Index j = 0; j <= i; ++j) {
                  reference::Wide sum = 0;
                  for (Index k = 0; k < depth; ++k)
                    sum += reference::get(x, transpose, transpose, i, k) *
                           std::conj(reference::get(x, transpose, transpose, j, k));
                  const Index row = turned ? j : i, col = turned ? i : j;
                  const reference::Wide value = 3.0 * sum + 2.0 * reference::get(target, row, col);
                  reference::set(target, row, col, i == j ? value.real() : value);
                }
            });
    }
}

TilePart EveryKernel::bidiagonal(Dtype dtype, Index order) {
  const TilePart made = part(dtype, {order, order});
  const Tile tile = at(made, tiles_);
  for (Index i = 0; i < order; ++i)
    for (Index j = 0; j < order; ++j) reference::set(tile, i, j, i == j ? 2 : i == j + 1 ? 1 : 0);
  return made;
}

void EveryKernel::check_trsm(Dtype dtype) {
  for (const bool adjoint : {false, true}) {
    tiles_.clear();
    TilePart a = bidiagonal(dtype, m);
    const TilePart b = part(dtype, {m, n});
    a.transpose = a.conjugate = adjoint;
    const auto uplo = adjoint ? kernel::Uplo::upper : kernel::Uplo::lower;
    check(call::trsm(dtype, kernel::Side::left, uplo, false, 2.0, a, b),
          [&](std::vector<Owned>& t) { reference::solve(!adjoint, false, 2.0, at(a, t), adjoint, adjoint, at(b, t)); });
    const auto kept = static_cast<std::uint32_t>(tiles_.size());
    tiles_.emplace_back(dtype, Shape{m}, 0);
    check(call::trsm(dtype, kernel::Side::left, uplo, false, 2.0, a, b, {}, TilePart{kept}),
          [&](std::vector<Owned>& t) {
            reference::solve(!adjoint, false, 2.0, at(a, t), adjoint, adjoint, at(b, t));
            for (Index i = 0; i < m; ++i)
              std::memcpy(t[kept].tile.data + i * static_cast<Index>(size_of(dtype)),
                          at(a, t).data + i * (at(a, t).strides[0] + at(a, t).strides[1]), size_of(dtype));
          });
  }
}

void EveryKernel::check_potrf(Dtype dtype) {
  const TilePart a = bidiagonal(dtype, m);
  const Tile tile = at(a, tiles_);
  for (Index i = 0; i < m; ++i) reference::set(tile, i, i, i == 0 ? 4 : 5);  // of L with twos and ones: its products
  for (Index i = 1; i < m; ++i) reference::set(tile, i, i - 1, 2);
  check(call::potrf(dtype, kernel::Uplo::lower, a, {"test", 0, 0}),
        [&](std::vector<Owned>& t) { ASSERT_EQ(reference::cholesky(at(a, t), true), 0); });
  std::vector<Tile> given{tiles_[0].tile};
  reference::set(tile, 4, 4, -100);
  try {
    host_kernels().run(call::potrf(dtype, kernel::Uplo::lower, a, {"test", 1000, 1000}), given);
    FAIL();
  } catch (const PivotError& error) {
    EXPECT_EQ(error.index, 1005);
  }
}

/// A panel whose pivots are the rows below the diagonal: U is a diagonal, and L has nothing below its own.
void EveryKernel::check_panels(Kernel kernel, Dtype dtype) {
  const TilePart a = part(dtype, {m, n});
  tiles_.emplace_back(Dtype::int64, Shape{1, n}, 0);
  const Tile tile = at(a, tiles_);
  std::int64_t* const pivots = tiles_[1].tile.as<std::int64_t>();
  if (kernel == Kernel::laswp) {
    for (Index j = 0; j < n; ++j) pivots[j] = 100 + std::min(j + 2, m - 1);
    return check(call::laswp(dtype, 100, 100, false, {1}, a), [&](std::vector<Owned>& t) {
      for (Index i = 0; i < n; ++i)
        for (Index j = 0, other = std::min(i + 2, m - 1); j < n; ++j) {
          const reference::Wide x = reference::get(at(a, t), i, j);
          reference::set(at(a, t), i, j, reference::get(at(a, t), other, j));
          reference::set(at(a, t), other, j, x);
        }
    });
  }
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) reference::set(tile, i, j, i == j + 1 ? 4 : 0);
  scratch_ = tiles_.size();
  tiles_.emplace_back(Dtype::uint8, Shape{1, static_cast<Index>(kernel::getrf_work_bytes(dtype, m)) + 64}, 0);
  check(call::getrf(dtype, 100, a, {1}, static_cast<std::uint32_t>(scratch_)), [&](std::vector<Owned>& t) {
    for (Index j = 0; j < n; ++j) {
      t[1].tile.as<std::int64_t>()[j] = 100 + j + 1;
      reference::set(at(a, t), j, j, 4), reference::set(at(a, t), j + 1, j, 0);
    }
  });
}

/// The kernel itself is held to its promises beside it (kernel/factor/qr_test.cpp); here, that a call names its parts.
void EveryKernel::check_qr(Kernel kernel, Dtype dtype) {
  constexpr Index ib = 4;
  const auto matrix = [this](const TilePart& part, std::vector<Owned>& tiles) {
    Tile tile = at(part, tiles);
    std::swap(tile.shape[0], tile.shape[1]), std::swap(tile.strides[0], tile.strides[1]);
    return tile;
  };
  const TilePart v = part(dtype, {m, n}, true), t = part(dtype, {ib, n}, true), a = part(dtype, {n, depth}, true),
                 b = part(dtype, {m, depth}, true), r = part(dtype, {n, n}, true);
  scratch_ = tiles_.size();
  tiles_.emplace_back(Dtype::uint8, Shape{1, 16 * ib * depth + 4096}, 0);
  const call::QrOptions options{ib, true, false, static_cast<std::uint32_t>(scratch_)};
  std::vector<std::byte> work(16 * ib * depth);
  if (kernel == Kernel::geqrt)
    check(call::geqrt(dtype, options, t, v),
          [&](auto& x) { kernel::geqrt(ib, matrix(v, x), matrix(t, x), work.data()); });
  if (kernel == Kernel::tpqrt)
    check(call::tpqrt(dtype, options, t, v, r),
          [&](auto& x) { kernel::tpqrt(ib, false, matrix(r, x), matrix(v, x), matrix(t, x), work.data()); });
  if (kernel == Kernel::gemqrt)
    check(call::gemqrt(dtype, options, v, t, b),
          [&](auto& x) { kernel::gemqrt(ib, true, matrix(v, x), matrix(t, x), matrix(b, x), work.data()); });
  if (kernel == Kernel::tpmqrt)
    check(call::tpmqrt(dtype, options, v, t, a, b), [&](auto& x) {
      kernel::tpmqrt(ib, true, false, matrix(v, x), matrix(t, x), matrix(a, x), matrix(b, x), work.data());
    });
}

}  // namespace flagstone
