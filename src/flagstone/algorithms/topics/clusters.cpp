#include "flagstone/algorithms/topics/clusters.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "flagstone/algorithms/centres/stored_kmeans.hpp"
#include "flagstone/algorithms/cluster/lloyd.hpp"
#include "flagstone/algorithms/cluster/seeding.hpp"
#include "flagstone/algorithms/eigenpairs/eigsh.hpp"
#include "flagstone/algorithms/sparse/folds.hpp"
#include "flagstone/algorithms/spectral/gram.hpp"
#include "flagstone/algorithms/topics/panel_pass.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::topics {
namespace {

constexpr double direction_tol = 1e-4;
constexpr Index gram_words = 1024;                    // up to here BᵀB in one read is the cheapest
constexpr std::uint64_t krylov_in_memory = 64 * MiB;  // a larger basis lies on disk
constexpr Index rest_rows = 256;                      // of which coordinates are kept at a time
constexpr std::uint32_t sampling_call = 1U << 20;     // of the generator: k-means counts from 0

/// Of each document the square of what lies beside the directions, and whether there is any of it at all.
struct ProjectRest final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::project_rest;
  static constexpr const char* name = "project_rest";
  static constexpr double seconds = 4e-9;
  Index width = 0;
  int directions = -1, rest = -1, there = -1;

  void rows(std::span<const Tile> tiles, std::byte* own, Index row, const kernel::CsrRows& step) const {
    const Tile& x = tiles[static_cast<std::size_t>(directions)];
    auto* to = at<double>(tiles, rest) + row;
    auto* seen = at<std::uint8_t>(tiles, there) + row;
    for (Index first = 0; first < step.rows; first += rest_rows) {
      kernel::CsrRows some = step;
      const Index skipped = step.pointers[first] - step.pointers[0];
      some.rows = std::min(rest_rows, step.rows - first), some.pointers = step.pointers + first;
      some.values += skipped * 4, some.columns += skipped * static_cast<Index>(size_of(step.column_dtype));
      const Tile t{
          own, Dtype::float32, {some.rows, width}, {width * 4, 4}, static_cast<std::size_t>(some.rows * width) * 4};
      kernel::csr_multiply(some, x, nullptr, t);
      const auto* values = reinterpret_cast<const float*>(some.values);
      for (Index i = 0; i < some.rows; ++i) {
        const float* coordinates = reinterpret_cast<const float*>(own) + i * width;
        double all = 0, inside = 0;
        for (Index p = some.pointers[i]; p < some.pointers[i + 1]; ++p) {
          const auto value = static_cast<double>(values[p - some.pointers[0]]);
          all += value * value;
        }
        for (Index j = 0; j < width; ++j) inside += static_cast<double>(coordinates[j]) * coordinates[j];
        to[first + i] = std::max(0.0, all - inside), seen[first + i] = all > 0;
      }
    }
  }
};

const bool entered = host_kernels().enter(Kernel::project_rest, {Dtype::float32}, run_panel<ProjectRest>);

enum class Solver { gram, krylov, krylov_schur };

Solver solver_of(const std::string& name, Index k, Index words) {
  if (name == "gram") return Solver::gram;
  if (name == "krylov") return Solver::krylov;
  if (name == "krylov-schur") return Solver::krylov_schur;
  if (name != "auto")
    throw ShapeError("topics: solver is '" + name + "'; choose 'auto', 'gram', 'krylov' or 'krylov-schur'.");
  if (words <= gram_words) return Solver::gram;
  const Index block = spectral::krylov_block(k, words);
  const int steps = spectral::krylov_steps(k, block, words, direction_tol);
  const auto bytes = spectral::krylov_bytes(k, block, words, steps, Dtype::float32);
  return bytes <= krylov_in_memory ? Solver::krylov : Solver::krylov_schur;
}

struct Directions {
  Array vectors;               // V x k float64
  std::vector<double> values;  // of BᵀB
  int reads = 0;
};
void list_parts(StateParts& parts, Directions& found) {
  parts.array("vectors", found.vectors);
  parts.values("values", found.values);
  parts.value("reads", found.reads);
}

Directions of_krylov_result(spectral::KrylovResult found, int reads) {
  return {std::move(found.vectors), std::move(found.values), reads};
}

Directions find_directions(Graph& graph, const sparse::CsrOperand& b, const IsleOptions& options, Stages& stages,
                           std::vector<Placed>& places) {
  const Index words = b.matrix.cols, k = options.k;
  const Solver solver = solver_of(options.solver, k, words);
  if (solver == Solver::gram) {
    const Array g = graph.allocate({words, words}, Dtype::float64);
    sparse::gram_matrix(graph, b, g);
    graph.barrier();
    return of_krylov_result(spectral::gram_eigenpairs(graph, g, k, direction_tol, options.seed), 1);
  }
  const spectral::Operator op = spectral::gram_operator(b);
  if (solver == Solver::krylov) {
    spectral::KrylovOptions o;
    o.k = k, o.block = spectral::krylov_block(k, words), o.tol = direction_tol, o.seed = options.seed;
    o.dtype = Dtype::float32, o.steps = spectral::krylov_steps(k, o.block, words, o.tol), o.stages = &stages;
    spectral::KrylovResult found = spectral::block_krylov(graph, op, o);
    const int reads = graph.planning() ? o.steps : found.applications;
    return of_krylov_result(std::move(found), reads);
  }
  spectral::EigshOptions o;
  o.method = "krylov-schur";
  o.solver.who = "topics", o.solver.k = k, o.solver.which = spectral::Which::largest, o.solver.tol = direction_tol;
  o.solver.seed = options.seed, o.solver.symmetry = 1e-8, o.solver.verify = false;
  o.solver.hold_basis = options.where.basis == Place::memory;
  o = spectral::completed(o, words);
  const Shape basis = spectral::PanelBasis::shape(spectral::BlockKrylovSchur::cut_of(o.solver, words));
  places.push_back({"basis", o.solver.hold_basis ? "memory" : "disk", 8 * static_cast<std::uint64_t>(count(basis))});
  spectral::BlockKrylovSchur iteration(graph, op, spectral::saving(o, stages));
  const spectral::SchurPairs pairs = iteration.solve();
  Directions found{graph.allocate({words, k}, Dtype::float64), pairs.values, pairs.applications};
  iteration.vectors(pairs, found.vectors);
  graph.barrier();
  return found;
}

/// −ln u ÷ weight: the largest u^(1/weight) are the least of these.
std::vector<double> sampling_keys(std::uint64_t seed, const double* moments, Index rows) {
  const kernel::Stream stream{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
                              sampling_call};
  std::vector<std::uint64_t> words(static_cast<std::size_t>(rows));
  kernel::random_words(stream, 0, rows, words.data());
  std::vector<double> keys(words.size(), std::numeric_limits<double>::infinity());
  for (std::size_t d = 0; d < words.size(); ++d) {
    const double uniform = (static_cast<double>(words[d] >> 11) + 0.5) * 0x1p-53, weight = moments[2 * d + 1];
    if (weight > 0) keys[d] = -std::log(uniform) / weight;
  }
  return keys;
}

/// The documents of the largest keys u^(1/weight), weight ‖B_d‖² (Efraimidis and Spirakis 2006): the same lengths, of
/// all others infinity.
Array sampled_lengths(Graph& graph, const Corpus& corpus, const sparse::CsrOperand& b, const IsleOptions& options,
                      std::vector<std::uint8_t>& sampled) {
  const Index rows = corpus.rows();
  const Array made = graph.allocate({rows, 1}, Dtype::float64);
  const Array moments = graph.allocate({rows, 2}, Dtype::float64);
  sparse::fold_rows(graph, b, {sparse::Fold::moments}, moments);
  graph.barrier();
  const Charge kept = graph.charge(static_cast<std::uint64_t>(rows) * 25);
  if (graph.planning()) return made;
  const std::vector<double> keys = sampling_keys(options.seed, elements<double>(moments), rows);
  std::vector<Index> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), Index{0});
  const double share = std::ceil(options.sample * static_cast<double>(corpus.documents()));
  const auto stay = std::min(order.size(), static_cast<std::size_t>(share));
  const auto less = [&](Index x, Index y) { return std::pair(keys[x], x) < std::pair(keys[y], y); };
  if (stay < order.size()) std::nth_element(order.begin(), order.begin() + static_cast<Index>(stay), order.end(), less);
  sampled.assign(order.size(), 0);
  for (std::size_t i = 0; i < stay; ++i) sampled[order[i]] = std::isfinite(keys[order[i]]);
  for (Index d = 0; d < rows; ++d)
    elements<double>(made)[d] = sampled[static_cast<std::size_t>(d)] ? elements<double>(corpus.lengths())[d]
                                                                     : std::numeric_limits<double>::infinity();
  return made;
}

/// Where they lie beside the directions; `weights`: 1 of a document that takes part, else 0.
cluster::Subspace subspace_of(Graph& graph, const sparse::CsrOperand& b, const Array& directions, const Array& weights,
                              Place place, std::vector<Placed>& places) {
  const Index words = directions.shape()[0], k = directions.shape()[1], rows = b.matrix.rows;
  const bool held = place == Place::memory || b.rows;  // panels of chosen rows are no boxes of a grid
  cluster::Subspace made{directions, placed(graph, held, {rows, 1}, Dtype::float64, {b.panel_rows(), 1}), held};
  places.push_back({"projection", held ? "memory" : "disk", 24 * static_cast<std::uint64_t>(rows)});
  const Array rounded = graph.allocate({words, k}, Dtype::float32);
  if (!graph.planning())
    std::transform(elements<double>(directions), elements<double>(directions) + words * k, elements<float>(rounded),
                   [](double value) { return static_cast<float>(value); });
  add_pass<ProjectRest>(graph, b, Dtype::float32, 2.0 * static_cast<double>(k), [&](ProjectRest& pass) {
    pass.width = k, pass.directions = pass.add_read(rounded);
    pass.rest = pass.add(write(pass.own(made.beside))), pass.there = pass.add(write(pass.own(weights)));
    pass.own_bytes = static_cast<std::size_t>(rest_rows * k) * 4;
  });
  return made;
}

/// B kept where it is to be, or where there is room.
KeptPattern keep(Graph& graph, sparse::CsrOperand b, Place place, std::vector<Placed>& places) {
  const auto bytes = static_cast<std::uint64_t>(b.panels.empty() ? 0 : b.panels.back().last);
  if (place == Place::automatic && (b.rows || bytes > graph.budget() / 4)) {
    places.push_back({"thresholded", "view", 0});
    return {std::move(b), {}};
  }
  const bool held = place == Place::memory;
  places.push_back({"thresholded", held ? "memory" : "disk", bytes});
  return keep_pattern(graph, b, held);
}

cluster::PointsInput points_of(const sparse::CsrOperand& b, const Array& weights) {
  cluster::PointsInput made;
  made.sparse = b, made.weights = weights;
  made.asked = {"topics", "X"};
  return made;
}

/// Step 4, from centres (k x V float64 in memory). They stay there, because what is saved until step 4 is tells of
/// them.
void move_in_all_words(Graph& graph, const cluster::PointsInput& points, const Array& centres,
                       const IsleOptions& options, Stages& stages, Clusters& made) {
  const bool stored = options.where.centers == Place::disk;
  const cluster::LloydOptions lloyds{options.iterations, 0};
  const std::uint64_t bytes = centres.nbytes();
  if (stored) {
    const centres::StoredMoves moves =
        centres::stored_lloyd(graph, points, lloyds, {.array = centres}, stages, made.labels);
    made.sizes = moves.progress.weights, made.reads += moves.point_reads;
    made.placed.push_back({"centers", "disk", bytes, moves.order});
    return;
  }
  const auto source = cluster::make_source(points);
  cluster::Progress progress = cluster::lloyd(graph, *source, centres, lloyds, stages, "lloyd in all words");
  cluster::label(graph, *source, centres, false, made.labels, progress);
  made.sizes = progress.weights, made.reads += progress.iteration + 1;
  made.placed.push_back({"centers", "memory", bytes});
}

}  // namespace

void list_parts(StateParts& parts, Clusters& clusters) {
  parts.array("labels", clusters.labels);
  parts.values("sizes", clusters.sizes);
  parts.values("singular_values", clusters.singular_values);
  parts.values("sampled", clusters.sampled);
  parts.value("reads", clusters.reads);
}

void check_clusters(const sparse::CsrOperand& x, const IsleOptions& options) {
  const Solver solver = solver_of(options.solver, options.k, x.matrix.cols);
  if (options.where.basis == Place::disk && solver != Solver::krylov_schur)
    throw ShapeError(std::string("topics: where places 'basis' on disk, and the solver of ") +
                     std::to_string(x.matrix.cols) + " words is '" +
                     (solver == Solver::gram ? "gram', which has none" : "krylov', which has it in memory") +
                     "; choose solver='krylov-schur'.");
  if (!x.rows) return;
  if (options.where.thresholded == Place::memory || options.where.thresholded == Place::disk)
    throw ShapeError(
        "topics: where places 'thresholded', and X is some rows of a stored matrix, of which it is a view; copy them "
        "first, or leave that to 'auto'.");
  if (options.where.projection == Place::disk)
    throw ShapeError(
        "topics: where places 'projection' on disk, and X is some rows of a stored matrix, whose panels are no tiles; "
        "copy them first, or leave that to 'auto'.");
}

Clusters find_clusters(Graph& graph, const Corpus& corpus, const Array& thresholds, const IsleOptions& options,
                       Stages& stages) {
  Clusters made;
  sparse::CsrOperand b = corpus.thresholded(graph, thresholds, corpus.lengths());
  if (options.sample < 1) {
    b = corpus.thresholded(graph, thresholds, sampled_lengths(graph, corpus, b, options, made.sampled));
    ++made.reads;
  }
  const KeptPattern kept = keep(graph, std::move(b), options.where.thresholded, made.placed);
  b = kept.operand;
  made.reads += made.placed.back().bytes > 0;
  const Directions found = stages.once(
      "directions", [&] { return find_directions(graph, b, options, stages, made.placed); }, 0.2);
  for (const double value : found.values) made.singular_values.push_back(std::sqrt(std::max(0.0, value)));
  const Array weights = graph.allocate({corpus.rows()}, Dtype::uint8);
  cluster::PointsInput points = points_of(b, weights);
  points.onto = subspace_of(graph, b, found.vectors, weights, options.where.projection, made.placed);
  const cluster::LloydOptions lloyds{options.projected_iterations, 0};
  cluster::Progress progress;
  const Array centres = stages.once(
      "projected",
      [&] {
        const auto source = cluster::make_source(points);
        const Array seeds = cluster::seeds(graph, points, *source, options.k, cluster::Init::parallel, options.seed);
        progress = cluster::lloyd(graph, *source, seeds, lloyds, stages);
        return seeds;
      },
      0.4);
  made.reads += found.reads + 1 + cluster::seeding_passes(cluster::Init::parallel, options.k) + progress.iteration;
  points.onto.reset();
  made.labels = graph.allocate({corpus.rows()}, Dtype::int32);
  move_in_all_words(graph, points, centres, options, stages, made);
  if (graph.planning()) return made;
  for (Index d = 0; d < corpus.rows(); ++d)
    if (elements<std::uint8_t>(weights)[d] == 0) elements<std::int32_t>(made.labels)[d] = -1;
  return made;
}

}  // namespace flagstone::topics
