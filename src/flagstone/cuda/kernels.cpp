// Which kernels there are, and those that are a line or two.
#include "flagstone/cuda/kernels.hpp"

#include <array>
#include <complex>

#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"

namespace flagstone::cuda {
namespace {

void run_zero(Work& work) {
  if (!work.runs()) return;
  const TilePart& to = work.call.operands()[0];
  const Tile& tile = work.tiles[to.access];
  constexpr std::byte nothing[16]{};
  if (to.part.shape.empty())  // all of its memory, padding too, as the host's kernel
    check(cudaMemsetAsync(tile.data, 0, tile.bytes, work.stream()), "a kernel");
  else
    fill(work.stream(), work.at(0), nothing);
}

void run_fill(Work& work) {
  if (work.runs()) fill(work.stream(), work.at(0), Scalar(work.at(0).dtype, work.call.alpha).bytes);
}

void run_copy(Work& work) {
  if (work.runs()) copy(work.stream(), work.at(0), work.at(1));
}

void run_add(Work& work) {
  if (work.runs()) add(work.stream(), work.at(0), work.at(1));
}

void run_convert(Work& work) {
  if (work.runs()) convert(work.stream(), work.at(0), work.at(1));
}

void run_mirror(Work& work) {
  const Tile from = work.at(0), to = work.at(1);
  const kernel::Op op = work.op(0);
  if (!work.runs()) return;
  if (from.data == to.data)
    mirror_within(work.stream(), op.transpose ? transposed(to) : to, op.conjugate);
  else
    copy(work.stream(), transposed(from), to, op.conjugate);
}

/// In which order the host looks at what is taken.
bool by_rows(const Tile& to) { return kernel::blas_layout(to).column_ld == 0; }

void run_take(Work& work) {
  if (!work.runs()) return;
  const auto& form = work.call.value_as<call::Factor>();
  const Tile from = work.turned(0), to = work.turned(1);
  Found* const bad = form.place.who.empty() ? nullptr : work.slot->word();
  take(work.stream(), form.part, from, work.op(0).conjugate, work.call.alpha.real(), to, by_rows(to), bad);
}

void take_verdict(const Call& call, std::span<const Tile> tiles, Found found) {
  if (found == nothing_found) return;
  const Tile part = operand(call, 1, tiles), to = call.operands()[1].transpose ? transposed(part) : part;
  const auto at = static_cast<Index>(found);
  const Index inner = to.shape[by_rows(to) ? 1 : 0];
  call::refuse_not_finite(call.value_as<call::Factor>().place, by_rows(to) ? at / inner : at % inner,
                          by_rows(to) ? at % inner : at / inner);
}

void run_identity(Work& work) {
  if (work.runs()) set_identity(work.stream(), work.call.value_as<call::Identity>().row, work.turned(0));
}

Entry entry_of(Kernel kernel) noexcept {
  switch (kernel) {
    case Kernel::fill:
      return {run_fill};
    case Kernel::add:
      return {run_add};
    case Kernel::scale:
      return {run_scale};
    case Kernel::gemm:
      return {run_gemm};
    case Kernel::mirror:
      return {run_mirror};
    case Kernel::take:
      return {run_take, take_verdict};
    case Kernel::herk:
      return {run_herk};
    case Kernel::trsm:
      return {run_trsm, trsm_verdict};
    case Kernel::potrf:
      return {run_potrf, potrf_verdict};
    case Kernel::getrf:
      return {run_getrf};
    case Kernel::laswp:
      return {run_laswp};
    case Kernel::geqrt:
      return {run_geqrt};
    case Kernel::tpqrt:
      return {run_tpqrt};
    case Kernel::gemqrt:
      return {run_gemqrt};
    case Kernel::tpmqrt:
      return {run_tpmqrt};
    case Kernel::identity:
      return {run_identity};
    default:
      return {};
  }
}

}  // namespace

Entry find(const Call& call) noexcept {
  if (call.semiring != Semiring::plus_times) return {};
  if (call.kernel == Kernel::scale && call.value) return {};                  // with a bound (call::clip)
  if (call.kernel == Kernel::take && call.operands().size() == 1) return {};  // call::look: the host has the tile
  if (call.kernel == Kernel::zero) return {run_zero};
  if (call.kernel == Kernel::copy) return {run_copy};
  if (call.kernel >= Kernel::csr_rows_multiply && call.kernel <= Kernel::csr_rows_gram)
    return has_sparse_product(call) ? Entry{run_sparse_product} : Entry{};
  const bool real = call.dtype == Dtype::float32 || call.dtype == Dtype::float64;
  if (call.kernel == Kernel::convert) return real ? Entry{run_convert} : Entry{};
  return real || is_complex(call.dtype) ? entry_of(call.kernel) : Entry{};
}

}  // namespace flagstone::cuda
