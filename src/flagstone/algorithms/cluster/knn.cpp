#include "flagstone/algorithms/cluster/knn.hpp"

#include <algorithm>
#include <array>

#include "flagstone/algorithms/cluster/centre_arrays.hpp"
#include "flagstone/algorithms/cluster/panel_work.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::cluster {
namespace {

constexpr Index most_queries = 1024, least_queries = 64;  // of a task: enough for gemm's rate
constexpr Index enough_tasks = 8;                         // side by side, where there are few queries
constexpr double bytes_of_value = 40;                     // converting and rounding, as the bytes copied meanwhile

/// One panel of queries against one of points, as the value of a call.
struct Search final : CallValue {
  PanelPieces queries, points;  // queries: one piece
  kernel::Metric metric;
  bool self = false, first = false, last = false;
  bool turned = false, turned_first = false;  // the points are queries too: their lists are tiles 6 and 7

  std::size_t queries_half_bytes() const {
    return turned ? align_up(static_cast<std::size_t>(queries.piece) * 4, 64) + half_bytes() : 0;
  }
  std::size_t half_bytes() const {
    return align_up(static_cast<std::size_t>(kernel::scores_width(points.piece)) * 4, 64);
  }
  std::size_t scratch_bytes() const {
    return queries.bytes() + points.bytes() + half_bytes() * static_cast<std::size_t>(1 + queries.piece) +
           queries_half_bytes();
  }
};

kernel::Best best_in(const Tile& keys, const Tile& places) {
  return {keys.as<double>(), places.as<std::int64_t>(), keys.shape[1], keys.strides[0] / 8, places.strides[0] / 8};
}

/// Rows from `at` on.
kernel::Best from_row(kernel::Best best, Index at) {
  best.keys += at * best.key_step, best.places += at * best.place_step;
  return best;
}

/// Tiles: queries, points, shift, distances, indices, scratch; distances and indices of the points.
void run_search(const Call& call, std::span<const Tile> tiles) {
  const auto& search = call.value_as<Search>();
  std::byte* memory = tiles[5].data;
  auto* half = reinterpret_cast<float*>(memory + search.queries.bytes() + search.points.bytes());
  auto* scores = half + search.half_bytes() / 4;
  auto* bounds = scores + static_cast<std::size_t>(search.queries.piece) * search.half_bytes() / 4;
  auto* queries_half = bounds + search.half_bytes() / 4;
  const double* shift = tiles[2].as<const double>();
  const Index m = search.queries.rows();
  const kernel::Best best = best_in(tiles[3], tiles[4]);
  const kernel::Best others = search.turned ? best_in(tiles[6], tiles[7]) : kernel::Best{};
  if (search.first) kernel::clear(best, m);
  if (search.turned_first) kernel::clear(others, search.points.rows());
  const kernel::Points queries = search.queries.load(tiles[0], 0, m, shift, memory);
  search.points.each(tiles[1], shift, memory + search.queries.bytes(), [&](Index at, const kernel::Points& points) {
    const kernel::Offered offered{search.points.first() + at, search.self ? search.queries.first() : -1};
    kernel::take_best(search.metric, queries, points, offered, half, scores, best);
    if (search.turned)
      kernel::take_best_turned(search.metric, queries, points, search.queries.first(), scores, queries_half, bounds,
                               from_row(others, at));
  });
  if (search.last) kernel::finish(search.metric, best, m);
}

const bool entered = host_kernels().enter(Kernel::take_nearest, {Dtype::float32}, run_search);

class Searches {
 public:
  Searches(Graph& graph, const KnnInput& x, const Array& distances, const Array& indices)
      : graph_(graph),
        x_(x),
        distances_(distances),
        indices_(indices),
        queries_(panels_in_rows(x.queries, x.queries_transposed, query_rows(x.queries, x.queries_transposed))),
        itself_(x.queries.id() == x.points.id() && x.queries_transposed == x.points_transposed),
        points_(itself_ ? queries_ : panels_of(x.points, x.points_transposed)),
        shift_(graph.allocate({1, points_->side}, Dtype::float64)) {}

  void add(KnnNotes& notes) {
    Stages stages(graph_, x_.checkpoint);
    FinishedTiles distances(stages, distances_, {queries_->step, x_.k}, "distances"),
        indices(stages, indices_, {queries_->step, x_.k}, "indices");
    if (x_.metric == kernel::Metric::euclidean) find_shift(graph_, points_, asked_of_points(), shift_);
    const Index panels = queries_->count();
    Index first = 0;  // blocks end in order
    while (first < panels && distances.holds(lists(first)) && indices.holds(lists(first))) ++first;
    const Index blocks = ceil_div(panels - first, block()), each = blocks > 0 ? ceil_div(panels - first, blocks) : 0;
    notes.blocks = blocks;
    begun_.assign(static_cast<std::size_t>(panels), false);
    graph_.trust_order(true);
    for (Index b = 0; b < blocks; ++b) {
      const Index from = first + b * each, end = std::min(panels, from + each);
      if (itself_)
        add_pairs(first, from, end);
      else
        add_block(from, end, b % 2 == 1);
      for (Index q = from; q < end; ++q) distances.finish(lists(q)), indices.finish(lists(q));
      if (b + 1 < blocks) stages.offer(static_cast<double>(end) / static_cast<double>(panels));
    }
    graph_.barrier();
    graph_.trust_order(false);
  }

 private:
  Box lists(Index panel) const { return {{queries_->first(panel), 0}, {queries_->length(panel), x_.k}}; }

  /// There and back: what was read last is read first.
  void add_block(Index from, Index end, bool backwards) {
    const Index count = points_->count();
    for (Index i = 0; i < count; ++i)
      for (Index q = from; q < end; ++q) add(q, backwards ? count - 1 - i : i, i == count - 1);
  }

  /// Of points with themselves each pair of panels once: it serves the lists of both. Panels of a block stay while
  /// those from there on stream past; lists of one are complete when the last panel has passed it. Panels before
  /// `first` are complete, and serve those of the block.
  void add_pairs(Index first, Index from, Index end) {
    for (Index p = 0; p < first; ++p)
      for (Index q = from; q < end; ++q) add(q, p, false);
    for (Index p = from; p < queries_->count(); ++p)
      for (Index q = from; q < std::min(p + 1, end); ++q) add_pair(q, p);
  }

  /// Whether nothing has met the lists of a panel yet; something has, from now on.
  bool begins(Index panel) {
    const bool first = !begun_[static_cast<std::size_t>(panel)];
    begun_[static_cast<std::size_t>(panel)] = true;
    return first;
  }

  /// q <= p. Lists are complete behind the last one.
  void add_pair(Index q, Index p) {
    const std::shared_ptr<Search> search = value(q, p);
    search->first = begins(q), search->last = p == points_->count() - 1;
    search->turned = q != p, search->turned_first = search->turned && begins(p);
    TaskSpec task = begin(*search, q, p, search->first, search->last);
    if (search->turned)
      for (const Array& array : {distances_, indices_}) {
        const Region region{array, {{points_->first(p), 0}, {points_->length(p), x_.k}}};
        task.accesses.push_back(again(search->turned_first ? write(region) : update(region)));
      }
    finish(task, search, q, p);
  }

  /// Panels of queries that stay while the points stream past.
  Index block() const {
    const std::shared_ptr<Search> search = value(0, 0);
    const double beside = static_cast<double>(graph_.workers()) * static_cast<double>(search->scratch_bytes()) +
                          3 * panel_bytes(*points_);
    const double each = panel_bytes(*queries_) + 16.0 * static_cast<double>(queries_->step * x_.k);
    const double room = 0.8 * static_cast<double>(graph_.budget()) - beside;
    return std::clamp<Index>(static_cast<Index>(room / each), 1, most_of_block());
  }

  /// Blocks of what is noted end now and then, so that a killed run goes on behind the last one: a panel of points is
  /// multiplied with 8,192 queries each time that it is read, which takes fifty times as long as reading it.
  Index most_of_block() const {
    const Index panels = queries_->count();
    return x_.noted ? std::max(ceil_div(panels, Index{8}), ceil_div(Index{8192}, queries_->step)) : panels;
  }

  Asked asked_of_points() const { return {"knn", itself_ ? "Q" : "X"}; }

  std::shared_ptr<Search> value(Index q, Index p) const {
    auto made = std::make_shared<Search>();
    const bool unit = x_.metric == kernel::Metric::cosine;
    made->queries = {queries_, q, queries_->step, unit, {"knn", "Q"}};
    made->points = {points_, p, rows_at_a_time(*points_), unit, asked_of_points()};
    made->metric = x_.metric, made->self = x_.exclude_self;
    return made;
  }

  void add(Index q, Index p, bool last) {
    const std::shared_ptr<Search> search = value(q, p);
    search->first = begins(q), search->last = last;
    TaskSpec task = begin(*search, q, p, search->first, search->last);
    finish(task, search, q, p);
  }

  TaskSpec begin(const Search& search, Index q, Index p, bool first, bool last) const {
    const Box box{{queries_->first(q), 0}, {queries_->length(q), x_.k}};
    const auto state = [&](const Array& array) {
      const Access access = first ? write({array, box}) : update({array, box});
      return last ? once(access) : again(access);
    };
    TaskSpec task;
    task.name = "knn";
    task.accesses = {read(queries_->region(q)), read(points_->region(p)), read({shift_, whole(shift_.shape())}),
                     state(distances_),         state(indices_),          scratch(search.scratch_bytes())};
    return task;
  }

  void finish(TaskSpec& task, const std::shared_ptr<Search>& search, Index q, Index p) {
    const auto d = static_cast<double>(points_->side), m = static_cast<double>(queries_->length(q)),
               n = static_cast<double>(points_->length(p));
    task.cost.flops = 2 * m * n * d;
    task.cost.bytes_touched = bytes_of_value * (m + n) * d + (search->turned ? 16 : 8) * m * n;
    task.calls = {Call(Kernel::take_nearest, Dtype::float32, {TilePart{0}})};
    task.calls[0].flops = task.cost.flops;
    task.calls[0].value = search;
    graph_.add(std::move(task));
  }

  Graph& graph_;
  const KnnInput& x_;
  const Array &distances_, &indices_;
  std::shared_ptr<const DensePanels> queries_;
  bool itself_;
  std::shared_ptr<const DensePanels> points_;
  Array shift_;
  std::vector<bool> begun_;  // lists of panels
};

}  // namespace

kernel::Metric metric_from_name(const std::string& who, const std::string& name) {
  constexpr std::array names = {"euclidean", "cosine", "inner"};
  const auto* found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw ShapeError(who + ": metric is '" + name + "'; choose 'euclidean', 'cosine' or 'inner'.");
  return static_cast<kernel::Metric>(found - names.begin());
}

Index rows_at_a_time(const DensePanels& points) {
  return std::min<Index>(points.step, 12 * points.side < 2048 ? 512 : 256);
}

Index query_rows(const Array& queries, bool transposed) {
  const DensePanels panels(queries, transposed, spectral::Along::rows);
  const Index fit = std::max<Index>(least_queries, static_cast<Index>(4 * MiB) / std::max<Index>(1, 12 * panels.side));
  Index rows = panels.step;
  while (rows % 2 == 0 &&
         (rows > std::min(most_queries, fit) || (rows > least_queries && ceil_div(panels.extent, rows) < enough_tasks)))
    rows /= 2;
  rows = std::min({rows, most_queries, fit, panels.extent});  // chunks of odd numbers of rows are cut across
  return std::max<Index>(1, rows);
}

void check_points(const std::string& who, const KnnInput& x) {
  const Array &q = x.queries, &p = x.points;
  if (q.ndim() != 2 || p.ndim() != 2 || is_complex(q.dtype()) || is_complex(p.dtype()))
    throw ShapeError(who + ": Q is " + to_string(q.shape()) + " " + std::string(name_of(q.dtype())) + " and X " +
                     to_string(p.shape()) + " " + std::string(name_of(p.dtype())) + "; real matrices are needed.");
  const Index d = q.shape()[x.queries_transposed ? 0 : 1], cols = p.shape()[x.points_transposed ? 0 : 1];
  if (d != cols)
    throw ShapeError(who + ": Q has " + std::to_string(d) + " columns and X " + std::to_string(cols) +
                     "; points of one space are needed.");
}

void check_knn(const KnnInput& x) {
  check_points("knn", x);
  const Index others = x.points.shape()[x.points_transposed ? 1 : 0] - (x.exclude_self ? 1 : 0);
  if (x.k < 1 || x.k > others)
    throw ShapeError("knn: k is " + std::to_string(x.k) + " and there are " + std::to_string(others) +
                     " points to choose from; k must lie between 1 and that.");
}

void knn(Graph& graph, const KnnInput& x, const Array& distances, const Array& indices, KnnNotes& notes) {
  check_knn(x);
  if (distances.shape()[0] == 0) return;
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  Searches(graph, x, distances, indices).add(notes);
}

}  // namespace flagstone::cluster
