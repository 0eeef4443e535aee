// Products with decoded rows of a CSR matrix: kernels of our own.
#include "flagstone/cuda/sparse.hpp"

#include <cstdint>
#include <optional>

#include "flagstone/algorithms/kernels/sparse.hpp"
#include "flagstone/cuda/kernels.hpp"
#include "flagstone/cuda/strided.hpp"

namespace flagstone::cuda {
namespace {

double* numbers(Workspace& space, Index count) {
  return reinterpret_cast<double*>(space.take(static_cast<std::size_t>(count) * sizeof(double)));
}

}  // namespace

bool has_sparse_product(const Call& call) {
  const auto& p = call.value_as<call::CsrProduct>();
  return !p.symmetric && p.moments < 0 && (p.sum < 0 || p.cols < Index{UINT32_MAX});
}

void run_sparse_product(Work& work) {
  const auto& p = work.call.value_as<call::CsrProduct>();
  const auto tile = [&](int number) { return number >= 0 ? work.tiles[static_cast<std::size_t>(number)] : Tile{}; };
  const Tile values = tile(p.values), columns = tile(p.columns), x = tile(p.x), kept = tile(p.kept);
  const SparseRows a{p.dtype,     columns.dtype, p.rows,         p.cols, tile(p.pointers).as<const std::int64_t>(),
                     values.data, columns.data,  values.shape[0]};
  const bool keeps = p.kept >= 0, makes = p.x >= 0, sums_up = p.sum >= 0;
  const Tile kept_rows = keeps ? subtile(kept, {{0, 0}, {p.rows, p.width}}) : Tile{};
  const bool aside = makes && !(keeps && kept.dtype == p.dtype);
  // By rows: the transposed of what is made by columns.
  const Tile t = !makes ? tile(p.given) : aside ? transposed(work.space.matrix(p.dtype, p.width, p.rows)) : kept_rows;
  double* const s = p.shift >= 0 && makes ? numbers(work.space, p.width) : nullptr;
  double* const sums = p.shift >= 0 && sums_up ? numbers(work.space, p.width) : nullptr;
  const auto order = sums_up ? std::optional<ByColumns>(std::in_place, work.space, a) : std::nullopt;
  if (!work.runs() || p.rows == 0 || p.cols == 0) return;
  const double* const mu = p.shift >= 0 ? tile(p.shift).as<const double>() : nullptr;
  if (s) sums_of_columns(work.stream(), mu, x, s);
  if (makes) sparse_multiply(work.stream(), a, x, s, p.accumulates, t);
  if (keeps && aside) convert(work.stream(), t, kept_rows);
  if (!sums_up) return;
  if (sums) sums_of_columns(work.stream(), nullptr, t, sums);
  order->sort(work.stream(), a);
  order->add(work.stream(), a, t, makes, mu, sums, tile(p.sum));
}

}  // namespace flagstone::cuda
