// What is allowed, what is chosen, and why. Costs are stated for one nominal machine, so that the choice, and with it
// the bits, is a function of the matrix and of whether the memory allows it.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "flagstone/algorithms/operator/dense_operator.hpp"
#include "flagstone/algorithms/pca/pca.hpp"
#include "flagstone/algorithms/pca/source.hpp"
#include "flagstone/algorithms/pca/sparse_statistics.hpp"
#include "flagstone/algorithms/spectral/gram.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/sparse/csr.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::spectral {
namespace {

constexpr double cores = 2, read_rate = 1.5e9, flops_float32 = 1e11, flops_float64 = 5e10;
constexpr double convert_seconds = 1e-9;  // a dense value, converted and centred
// A stored value, decoded, and for each float32 column of the block: measured, see the sparse layer.
constexpr double sparse_value_seconds = 2.2e-9, sparse_column_seconds = 0.075e-9;

struct Costs {
  double gram = 0, krylov = 0;
  std::uint64_t gram_bytes = 0;
};

double pass(double bytes, double compute) { return std::max(bytes / read_rate, compute / cores); }

Costs sparse_costs(const sparse::CsrOperand& x, const PcaOptions& o, Index block, int steps, Dtype dtype) {
  const CsrMatrix& a = x.matrix;
  const auto nnz = static_cast<double>(a.nnz), bytes = static_cast<double>(a.stored_bytes);
  const double lanes = static_cast<double>(size_of(dtype)) / 4;
  const auto apply = [&](Index b) {
    return pass(bytes, nnz * (sparse_value_seconds + sparse_column_seconds * lanes * static_cast<double>(b)));
  };
  const auto statistics = sparse::ingest_statistics(x);
  const double row = nnz / std::max(1.0, static_cast<double>(a.rows));
  const double share = nnz / std::max(1.0, static_cast<double>(x.stored.nnz));
  const double pairs = statistics ? statistics->sum_row_nnz_squared * share : 2 * nnz * row;
  Costs costs;
  costs.krylov = steps * apply(block) + apply(o.k);
  costs.gram = pass(bytes, kernel::gram_matrix_cost(a.rows, a.cols, pairs).flops / flops_float64) +
               gram_eigenpairs_seconds(a.cols, o.k, o.tol) + apply(o.k);
  // A small G is summed in private copies: one a worker, and a tree of them.
  const auto g = static_cast<std::uint64_t>(8 * a.cols * a.cols);
  costs.gram_bytes = (a.cols <= 1024 ? 24 * g : g + g / 4) + gram_eigenpairs_bytes(a.cols, o.k, o.tol) + 128 * MiB;
  return costs;
}

Costs dense_costs(const DensePanels& x, const PcaOptions& o, Index block, int steps, Dtype dtype) {
  const double values = static_cast<double>(x.side) * static_cast<double>(x.extent);
  const auto bytes = static_cast<double>(x.array.nbytes());
  const double rate = dtype == Dtype::float32 ? flops_float32 : flops_float64;
  const auto apply = [&](Index b) {
    return pass(bytes, values * (convert_seconds + 4 * static_cast<double>(b) / rate));
  };
  Costs costs;
  costs.krylov = steps * apply(block) + apply(o.k);
  costs.gram = pass(bytes, values * (2 * convert_seconds + static_cast<double>(x.side) / flops_float64)) +
               gram_eigenpairs_seconds(x.side, o.k, o.tol) + apply(o.k);
  costs.gram_bytes = static_cast<std::uint64_t>(8 * x.side * x.side) + dense_gram_matrix_bytes(x) +
                     gram_eigenpairs_bytes(x.side, o.k, o.tol) +
                     4 * static_cast<std::uint64_t>(x.step * x.side) * size_of(x.array.dtype()) + 16 * MiB;
  return costs;
}

Dtype value_dtype(const PcaInput& x) { return x.sparse ? x.sparse->matrix.value_dtype() : x.dense->dtype(); }

}  // namespace

Index PcaInput::rows() const { return sparse ? sparse->matrix.rows : dense->shape()[transpose ? 1 : 0]; }
Index PcaInput::cols() const { return sparse ? sparse->matrix.cols : dense->shape()[transpose ? 0 : 1]; }

double cancellation(Index rows, const std::vector<double>& means, double centred_squares) {
  double squares = 0;
  for (const double mean : means) squares += mean * mean;
  if (centred_squares <= 0) return 0;  // constant columns: nothing is wanted of what cancels
  return static_cast<double>(rows) * squares / centred_squares;
}

/// What ingest learned; unknown (0) for matrices of others, and where steps change the values or rows are chosen.
static double cancellation_of(const PcaInput& x, const PcaOptions& options) {
  if (!x.sparse || !options.center) return 0;
  const auto statistics = sparse::known_statistics(*x.sparse);
  if (!statistics) return 0;
  const auto m = static_cast<double>(std::max<Index>(1, x.rows()));
  std::vector<double> means = statistics->column_sums;
  double centred = statistics->sum_squares;
  for (double& mean : means) mean /= m, centred -= m * mean * mean;
  return cancellation(x.rows(), means, std::max(centred, 0x1p-52 * statistics->sum_squares));
}

/// Of so many columns none was counted when they were stored, though the values were: what cancels may be anything.
static bool nothing_counted(const PcaInput& x) {
  if (!x.sparse || x.cols() == 0) return false;
  const auto statistics = sparse::ingest_statistics(*x.sparse);
  return statistics && statistics->column_sums.empty();
}

Dtype product_dtype(const PcaInput& x, const PcaOptions& options) {
  const double tol = options.tol;
  const Dtype values = x.sparse ? x.sparse->matrix.data.dtype() : x.dense->dtype();  // small integers are exact
  const bool narrow =
      values == Dtype::float32 || values == Dtype::float16 || (is_integer(values) && size_of(values) <= 2);
  // In a small matrix float64 costs nothing, and rounding errors do not average out as they do over many rows.
  const Index count = x.sparse ? x.sparse->matrix.nnz : x.rows() * x.cols();
  // A panel's sums are float32: over r rows of one sign they are off by about 0.3 sqrt(r) 2^-24 (measured: 1e-6 for
  // r = 32768 where one column dominates). A dense panel is summed in pieces of at most 1024 rows.
  const auto rows = static_cast<double>(x.sparse ? x.sparse->panel_rows() : 1024);
  const bool fine = 0.3 * std::sqrt(rows) * 0x1p-24 <= tol / 3;
  if (!narrow || !fine || tol < 1e-6 || count <= (Index{1} << 20)) return Dtype::float64;
  if (options.center && nothing_counted(x)) return Dtype::float64;
  const bool cancels = std::sqrt(cancellation_of(x, options)) * 0x1p-24 > tol / 3;  // X v - mean v
  return cancels ? Dtype::float64 : Dtype::float32;
}

SchurOptions schur_of(const PcaOptions& options, Index side) {
  SchurOptions o{.who = "pca", .k = options.k, .which = Which::largest, .tol = options.tol};
  o.seed = options.seed, o.symmetry = 1e-8, o.most = 1000;
  o.block = schur_block(o.k, side), o.ncv = schur_ncv(o.k, o.block, side);
  return o;
}

void check_pca(const PcaInput& x, const PcaOptions& options) {
  if (!x.sparse && (!x.dense || x.dense->ndim() != 2))
    throw ShapeError("pca: X has " + std::to_string(x.dense ? x.dense->ndim() : 0) +
                     " dimensions; a matrix is needed, index or reshape it.");
  if (is_complex(value_dtype(x)))
    throw ShapeError("pca: X is " + std::string(name_of(value_dtype(x))) +
                     "; real values are needed, use its real or imaginary part.");
  const Index most = std::min(x.rows(), x.cols());
  if (options.k < 1 || options.k > most)
    throw ShapeError("pca: k is " + std::to_string(options.k) + " and X is " + to_string({x.rows(), x.cols()}) +
                     "; k must lie between 1 and " + std::to_string(most) + ".");
  if (!(options.tol > 0 && options.tol < 1))
    throw ShapeError("pca: tol is " + std::to_string(options.tol) + "; a number between 0 and 1 is needed.");
  if (options.method != "auto" && options.method != "gram" && options.method != "krylov" &&
      options.method != "krylov-schur")
    throw ShapeError("pca: method is '" + options.method + "'; choose 'auto', 'gram', 'krylov' or 'krylov-schur'.");
  if (!x.sparse || x.sparse->rows) return;
  if (const auto statistics = sparse::ingest_statistics(*x.sparse)) check_finite(*statistics);
}

PcaChoice choose_pca(const PcaInput& x, const PcaOptions& options, std::uint64_t budget, const MachineProfile&) {
  const std::optional<DensePanels> panels = x.sparse ? std::nullopt : std::optional(DensePanels(*x.dense, x.transpose));
  const Index side = x.sparse ? x.cols() : panels->side;
  const Dtype dtype = product_dtype(x, options);
  const Index block = krylov_block(options.k, side);
  const int steps = krylov_steps(options.k, block, side, options.tol);
  const Costs costs = x.sparse ? sparse_costs(*x.sparse, options, block, steps, dtype)
                               : dense_costs(*panels, options, block, steps, dtype);
  const bool fits = costs.gram_bytes <= budget;
  const bool exact = cancellation_of(x, options) * 0x1p-52 <= options.tol;
  PcaChoice choice;
  // What a dead process had begun with another limit goes on by its method: the bits are one method's.
  choice.method = Stages::begun_before<std::string>(options.checkpoint.get(), "method").value_or(options.method);
  if (choice.method == "auto") choice.method = fits && exact && costs.gram < costs.krylov ? "gram" : "krylov";
  if (choice.method == "krylov-schur") {
    const SchurOptions schur = schur_of(options, side);
    choice.block = schur.block;
    choice.passes = schur_steps(schur, side) + 1;
    choice.least_passes = std::min(choice.passes, 3);
    choice.most_passes = schur.most + 1;
    choice.note = "a basis of " + std::to_string(schur.ncv) + " columns, on disk where it has no room";
    return choice;
  }
  choice.block = choice.method == "krylov" ? block : 0;
  const bool krylov = choice.method == "krylov";
  const int at_most = krylov_steps_of_noise(options.k, block, side, options.tol);
  // A Gram matrix is of known means: what nobody knows a pass finds. The first product finds it as it goes.
  const int ahead = !krylov && x.sparse && !sparse::known_statistics(*x.sparse) ? 1 : 0;
  choice.passes = (krylov ? steps + 1 : 2) + ahead;
  choice.least_passes = std::min(choice.passes, (krylov ? 3 : 2) + ahead);
  choice.most_passes = choice.passes + (krylov ? at_most - steps : 0);
  char text[200];
  // A ratio: seconds of the nominal machine beside those of this one would contradict them.
  std::snprintf(text, sizeof text,
                "Gram matrix of %lld columns: %s%s; block Krylov takes %.2g x its time by nominal rates",
                static_cast<long long>(side), format_bytes(costs.gram_bytes).c_str(),
                !exact ? " (its digits would cancel)"
                : fits ? ""
                       : " (too much here)",
                costs.krylov / costs.gram);
  choice.note = text;
  return choice;
}

Shape scores_chunks(const PcaInput& x, Index k) {
  if (x.sparse) return {std::min(std::max<Index>(1, x.rows()), x.sparse->panel_rows()), k};
  const DensePanels panels(*x.dense, x.transpose);
  return {panels.tall ? panels.step : std::min<Index>(panels.side, 4096), k};
}

Dtype scores_dtype(const PcaInput& x) { return size_of(value_dtype(x)) <= 4 ? Dtype::float32 : Dtype::float64; }

}  // namespace flagstone::spectral
