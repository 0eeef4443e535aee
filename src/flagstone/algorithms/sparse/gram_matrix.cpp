// gram_matrix of csr_ops.hpp: strips of rows of G, each summed over the panels in their order.
#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::sparse {
namespace {

constexpr Index whole_up_to = 1024;   // columns: up to here each panel sums into a G of its own, merged in a tree
constexpr Index strip_columns = 512;  // else one strip for every so many columns, and decoding is repeated for each
constexpr Index most_strips = 16;

/// One strip of one panel, as the value of a call; the task's last tiles are the strip of G and scratch.
struct StripTask final : CallValue {
  StripTask(const CsrOperand& a, const CsrPanelRange& panel, Dtype real, Index first)
      : reader(a, panel, real, true), first(first) {}

  PanelReader reader;
  std::size_t reader_bytes = 0;
  Index first;
};

void run_strip(const Call& call, std::span<const Tile> tiles) {
  const auto& strip = call.value_as<StripTask>();
  const Tile &target = tiles[tiles.size() - 2], &memory = tiles[tiles.size() - 1];
  strip.reader.stream(tiles, memory.data, [&](Index, const kernel::CsrRows& rows) {
    kernel::csr_gram_matrix(rows, call.dtype, strip.first, target, memory.data + strip.reader_bytes);
  });
}

const bool entered = host_kernels().enter(Kernel::csr_gram_matrix, {Dtype::float32, Dtype::float64}, run_strip);

/// Strips of equal work: the lower triangle's area grows with the square of the row.
std::vector<Index> strip_bounds(Index n) {
  const Index strips = n <= whole_up_to ? 1 : std::min(most_strips, ceil_div(n, strip_columns));
  std::vector<Index> bounds;
  for (Index k = 0; k <= strips; ++k)
    bounds.push_back(static_cast<Index>(
        std::lround(static_cast<double>(n) * std::sqrt(static_cast<double>(k) / static_cast<double>(strips)))));
  return bounds;
}

/// Flops of BLAS that one strip of one panel is worth; the panel's share of the sum of nnz(row)² is estimated from its
/// mean row where no statistics say more.
double strip_flops(const CsrOperand& a, const PanelReader& panel, double pairs_per_value, std::size_t strips) {
  const double pairs = pairs_per_value * static_cast<double>(panel.nnz());
  return kernel::gram_matrix_cost(panel.rows(), a.matrix.cols, pairs).flops / static_cast<double>(strips);
}

double pairs_per_value(const CsrOperand& a) {
  const auto nnz = static_cast<double>(a.stored.nnz);
  if (nnz == 0) return 0;
  if (const auto statistics = ingest_statistics(a)) return statistics->sum_row_nnz_squared / nnz;
  return static_cast<double>(a.matrix.nnz) / static_cast<double>(std::max<Index>(1, a.matrix.rows));
}

}  // namespace

void gram_matrix(Graph& graph, const CsrOperand& a, const Array& g) {
  const Index n = a.matrix.cols;
  if (g.shape() != Shape{n, n} || g.dtype() != Dtype::float64)
    throw ShapeError("gram_matrix: G is " + to_string(g.shape()) + " " + std::string(name_of(g.dtype())) + "; " +
                     to_string({n, n}) + " float64 is needed.");
  if (n == 0) return;
  const Dtype real = a.matrix.data.dtype() == Dtype::float32 || a.matrix.data.dtype() == Dtype::float16 ||
                             size_of(a.matrix.data.dtype()) <= 2
                         ? Dtype::float32
                         : Dtype::float64;
  const std::vector<Index> bounds = strip_bounds(n);
  const std::size_t strips = bounds.size() - 1;
  const double density = pairs_per_value(a);
  for (const CsrPanelRange& panel : a.panels)
    for (std::size_t k = 0; k < strips; ++k) {
      auto strip = std::make_shared<StripTask>(a, panel, real, bounds[k]);
      strip->reader_bytes = align_up(strip->reader.scratch_bytes(), 64);
      TaskSpec task;
      task.name = "csr_gram_matrix";
      strip->reader.access(task.accesses);
      const Region rows{g, {{bounds[k], 0}, {bounds[k + 1] - bounds[k], n}}};
      task.accesses.push_back(strips == 1 ? reduce(rows) : update(rows));
      task.accesses.push_back(scratch(strip->reader_bytes + kernel::gram_matrix_scratch(n)));
      // Converting is stated as the flops that BLAS would do meanwhile.
      constexpr double flops_per_second = 5e10;
      const double flops = strip_flops(a, strip->reader, density, strips);
      // Scattered sums wait for memory: a third of their time does not follow the rate of BLAS.
      task.cost = {flops + strip->reader.convert_seconds() * flops_per_second,
                   0.4 * flops / flops_per_second * reference_bytes_per_second, true, strip->reader.decoded_bytes()};
      Call& call = task.calls.emplace_back(Kernel::csr_gram_matrix, real, std::initializer_list<TilePart>{});
      call.flops = flops;
      call.value = std::move(strip);
      graph.add(std::move(task));
    }
}

}  // namespace flagstone::sparse
