#include "flagstone/algorithms/kernels/factor.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "flagstone/kernel/dense/subnormals_flushed.hpp"
#include "flagstone/kernel/factor/getrf.hpp"
#include "flagstone/kernel/factor/herk.hpp"
#include "flagstone/kernel/factor/potrf.hpp"
#include "flagstone/kernel/factor/take.hpp"

namespace flagstone::call {
namespace {

using kernel::Op;
using kernel::Part;
using kernel::Side;
using kernel::Uplo;

Op op_of(const TilePart& part) { return {part.transpose, part.conjugate}; }

/// An operand seen as its part says, but not conjugated: what is changed, and what is looked at.
Tile turned_operand(const Call& call, std::size_t i, std::span<const Tile> tiles) {
  Tile tile = operand(call, i, tiles);
  if (!call.operands()[i].transpose) return tile;
  std::swap(tile.shape[0], tile.shape[1]);
  std::swap(tile.strides[0], tile.strides[1]);
  return tile;
}

void run_take(const Call& call, std::span<const Tile> tiles) {
  const Factor& form = call.value_as<Factor>();
  const auto found = call.operands().size() == 1
                         ? kernel::look(form.part, form.unit, turned_operand(call, 0, tiles))
                         : kernel::take(form.part, operand(call, 0, tiles), op_of(call.operands()[0]),
                                        call.alpha.real(), turned_operand(call, 1, tiles));
  if (!found || form.place.who.empty()) return;
  refuse_not_finite(form.place, found->row, found->col);
}

void run_herk(const Call& call, std::span<const Tile> tiles) {
  const auto parts = call.operands();
  std::optional<kernel::SubnormalsFlushed> flushed;
  if (call.value_as<Factor>().flushed) flushed.emplace();
  std::byte* const scratch = parts.size() > 2 ? tiles[parts[2].access].data : nullptr;
  kernel::herk(call.value_as<Factor>().uplo, call.alpha.real(), operand(call, 0, tiles), op_of(parts[0]),
               call.beta.real(), turned_operand(call, 1, tiles), scratch);
}

void look_at_diagonal(const Place& place, const Tile& a) {
  for (Index i = 0; i < a.shape[0]; ++i) {
    const std::byte* at = a.data + i * (a.strides[0] + a.strides[1]);
    visit_blas_type(a.dtype, [&]<class T>(T) {
      const T value = *reinterpret_cast<const T*>(at);
      if (value == T{}) refuse_zero_pivot(place, i);
      if (!std::isfinite(std::real(value)) || !std::isfinite(std::imag(value))) refuse_not_finite(place, i, i);
    });
  }
}

void copy_diagonal(const Tile& a, const Tile& to) {
  const auto item = static_cast<Index>(size_of(a.dtype));
  for (Index i = 0; i < to.shape[0]; ++i)
    std::copy_n(a.data + i * (a.strides[0] + a.strides[1]), item, to.data + i * to.strides[0]);
}

void run_trsm(const Call& call, std::span<const Tile> tiles) {
  const kernel::SubnormalsFlushed flushed;
  const Factor& form = call.value_as<Factor>();
  if (!form.place.who.empty() && !form.unit) look_at_diagonal(form.place, operand(call, 0, tiles));
  if (call.operands().size() > 2) copy_diagonal(operand(call, 0, tiles), operand(call, 2, tiles));
  const Op op = op_of(call.operands()[0]);
  const Uplo stored = op.transpose ? flipped(form.uplo) : form.uplo;
  kernel::trsm(form.side, {stored, op, form.unit}, call.alpha, operand(call, 0, tiles), turned_operand(call, 1, tiles));
}

void run_potrf(const Call& call, std::span<const Tile> tiles) {
  const kernel::SubnormalsFlushed flushed;
  const Factor& form = call.value_as<Factor>();
  const int info = kernel::potrf(form.uplo, turned_operand(call, 0, tiles));
  if (info != 0) refuse_minor(form.place, info);
}

void run_getrf(const Call& call, std::span<const Tile> tiles) {
  const kernel::SubnormalsFlushed flushed;
  const Tile pivots = operand(call, 1, tiles);
  const std::span<std::int64_t> chosen(pivots.as<std::int64_t>(), static_cast<std::size_t>(count(pivots.shape)));
  kernel::getrf(operand(call, 0, tiles), chosen, tiles[call.operands()[2].access].data);
  for (std::int64_t& pivot : chosen) pivot += call.value_as<Factor>().place.row;
}

void run_laswp(const Call& call, std::span<const Tile> tiles) {
  const Factor& form = call.value_as<Factor>();
  const Tile pivots = operand(call, 0, tiles), lower = operand(call, 1, tiles);
  const Tile none{nullptr, lower.dtype, {0, lower.shape[1]}, lower.strides, 0};
  kernel::laswp(call.operands().size() > 2 ? operand(call, 2, tiles) : none, lower, form.place.row, form.place.col,
                {pivots.as<std::int64_t>(), static_cast<std::size_t>(count(pivots.shape))}, form.unit);
}

constexpr auto blas_dtypes = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};
const bool entered = host_kernels().enter(Kernel::take, blas_dtypes, run_take) &&
                     host_kernels().enter(Kernel::herk, blas_dtypes, run_herk) &&
                     host_kernels().enter(Kernel::trsm, blas_dtypes, run_trsm) &&
                     host_kernels().enter(Kernel::potrf, blas_dtypes, run_potrf) &&
                     host_kernels().enter(Kernel::getrf, blas_dtypes, run_getrf) &&
                     host_kernels().enter(Kernel::laswp, blas_dtypes, run_laswp);

}  // namespace

Call take(Dtype dtype, Part part, TilePart from, double shift, TilePart to, Place place) {
  Call made(Kernel::take, dtype, {std::move(from), std::move(to)});
  auto form = std::make_shared<Factor>();
  form->part = part, form->place = std::move(place);
  made.alpha = shift, made.value = std::move(form);
  return made;
}

Call look(Dtype dtype, Part part, bool unit, TilePart from, Place place) {
  Call made(Kernel::take, dtype, {std::move(from)});
  auto form = std::make_shared<Factor>();
  form->part = part, form->unit = unit, form->place = std::move(place);
  made.value = std::move(form);
  return made;
}

Call herk(Dtype dtype, Uplo uplo, double alpha, TilePart a, double beta, TilePart c,
          std::optional<std::uint32_t> scratch, bool flushed) {
  Call made = scratch ? Call(Kernel::herk, dtype, {std::move(a), std::move(c), TilePart{*scratch}})
                      : Call(Kernel::herk, dtype, {std::move(a), std::move(c)});
  auto form = std::make_shared<Factor>();
  form->uplo = uplo, form->flushed = flushed;
  made.alpha = alpha, made.beta = beta, made.value = std::move(form);
  return made;
}

Call trsm(Dtype dtype, Side side, Uplo uplo, bool unit, std::complex<double> alpha, TilePart a, TilePart b, Place place,
          std::optional<TilePart> diagonal) {
  Call made = diagonal ? Call(Kernel::trsm, dtype, {std::move(a), std::move(b), std::move(*diagonal)})
                       : Call(Kernel::trsm, dtype, {std::move(a), std::move(b)});
  auto form = std::make_shared<Factor>();
  form->side = side, form->uplo = uplo, form->unit = unit, form->place = std::move(place);
  made.alpha = alpha, made.value = std::move(form);
  return made;
}

Call potrf(Dtype dtype, Uplo uplo, TilePart a, Place place) {
  Call made(Kernel::potrf, dtype, {std::move(a)});
  auto form = std::make_shared<Factor>();
  form->uplo = uplo, form->place = std::move(place);
  made.value = std::move(form);
  return made;
}

Call getrf(Dtype dtype, Index first, TilePart a, TilePart pivots, std::uint32_t work) {
  Call made(Kernel::getrf, dtype, {std::move(a), std::move(pivots), TilePart{work}});
  auto form = std::make_shared<Factor>();
  form->place.row = first;
  made.value = std::move(form);
  return made;
}

Call laswp(Dtype dtype, Index origin, Index first, bool backwards, TilePart pivots, TilePart lower,
           std::optional<TilePart> upper) {
  Call made = upper ? Call(Kernel::laswp, dtype, {std::move(pivots), std::move(lower), std::move(*upper)})
                    : Call(Kernel::laswp, dtype, {std::move(pivots), std::move(lower)});
  auto form = std::make_shared<Factor>();
  form->unit = backwards, form->place.row = origin, form->place.col = first;
  made.value = std::move(form);
  return made;
}

}  // namespace flagstone::call
