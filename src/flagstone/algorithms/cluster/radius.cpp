#include "flagstone/algorithms/cluster/radius.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "flagstone/algorithms/cluster/centre_arrays.hpp"
#include "flagstone/algorithms/cluster/found_pairs.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::cluster {
namespace {

constexpr double bytes_of_value = 40;          // converting and rounding, as the bytes copied meanwhile
constexpr Index least_pairs = Index{1} << 16;  // room for neighbours at least, where there may be as many

/// Some queries of a panel against one panel of points, as the value of a call.
struct Circle final : CallValue {
  PanelPieces queries, points;  // queries: one piece
  Index from = 0, rows = 0;     // of the panel of queries
  kernel::Metric metric;
  double radius = 0;
  bool self = false;
  std::shared_ptr<FoundPairs> found;
  Index slot = 0;  // of the panel among those of this stretch

  std::size_t half_bytes() const {
    return align_up(static_cast<std::size_t>(kernel::scores_width(points.piece)) * 4, 64);
  }
  std::size_t places_bytes() const { return align_up(static_cast<std::size_t>(points.piece) * 8, 64); }
  std::size_t scratch_bytes() const {
    return queries.bytes() + points.bytes() + half_bytes() * static_cast<std::size_t>(1 + queries.piece) +
           2 * places_bytes();
  }
};

/// Tiles: queries, points, shift, whose turn it is, scratch.
void run_circle(const Call& call, std::span<const Tile> tiles) {
  const auto& circle = call.value_as<Circle>();
  FoundPairs& found = *circle.found;
  if (found.full()) return;  // it is begun again
  std::byte* memory = tiles[4].data;
  std::byte* beyond = memory + circle.queries.bytes() + circle.points.bytes();
  auto* places = reinterpret_cast<std::int64_t*>(beyond);
  auto* values = reinterpret_cast<double*>(beyond + circle.places_bytes());
  auto* half = reinterpret_cast<float*>(beyond + 2 * circle.places_bytes());
  auto* scores = half + circle.half_bytes() / 4;
  const double* shift = tiles[2].as<const double>();
  const kernel::Points queries = circle.queries.load(tiles[0], circle.from, circle.rows, shift, memory);
  const kernel::Within within{circle.radius, places, values, [&](Index query, Index n) {
                                found.append(circle.slot, query, {places, static_cast<std::size_t>(n)}, values);
                              }};
  circle.points.each(tiles[1], shift, memory + circle.queries.bytes(), [&](Index at, const kernel::Points& points) {
    if (found.full()) return;
    const kernel::Offered offered{circle.points.first() + at,
                                  circle.self ? circle.queries.first() + circle.from : Index{-1}};
    kernel::take_within(circle.metric, queries, points, offered, half, scores, within);
    found.looked(static_cast<double>(queries.rows) * static_cast<double>(points.rows));
  });
}

const bool entered = host_kernels().enter(Kernel::take_within, {Dtype::float32}, run_circle);

class Circles {
 public:
  Circles(Graph& graph, const RadiusInput& x, RadiusNotes& notes)
      : graph_(graph),
        x_(x),
        notes_(notes),
        queries_(
            panels_in_rows(x.of.queries, x.of.queries_transposed, query_rows(x.of.queries, x.of.queries_transposed))),
        itself_(x.of.queries.id() == x.of.points.id() && x.of.queries_transposed == x.of.points_transposed),
        points_(itself_ ? queries_ : panels_of(x.of.points, x.of.points_transposed)),
        writer_(graph.charge(x.beside)),
        shift_(graph.allocate({1, points_->side}, Dtype::float64)) {
    const double beside = static_cast<double>(graph.workers()) * static_cast<double>(value(0)->scratch_bytes()) +
                          3 * panel_bytes(*points_);
    const double room = std::max(0.0, 0.8 * static_cast<double>(graph.budget()) - beside);
    const double all = static_cast<double>(queries_->extent) * static_cast<double>(points_->extent);
    const double fit = room / 2 / static_cast<double>(FoundPairs::bytes_a_pair);
    const double pairs = std::min(all, std::max(fit, static_cast<double>(least_pairs)));
    const double left = room - pairs * static_cast<double>(FoundPairs::bytes_a_pair);
    const double each = panel_bytes(*queries_) + 8.0 * static_cast<double>(queries_->step);
    panels_ = std::clamp<Index>(static_cast<Index>(left / each), 1, queries_->count());
    found_ = std::make_shared<FoundPairs>(graph, static_cast<Index>(pairs), panels_ + 1, queries_->step);
    turns_ = graph.allocate({panels_ + 1, 1}, Dtype::float64);
  }

  void find(const RowSink& rows) {
    if (x_.of.metric == kernel::Metric::euclidean) find_shift(graph_, points_, asked_of_points(), shift_);
    graph_.trust_order(true);
    const Index m = queries_->extent, most = panels_ * queries_->step;
    Index length = most;
    for (Index at = x_.first; at < m;) {
      const Index end = end_of(at, length);
      search(at, end);
      ++notes_.stretches;
      const Index tried = end - at;
      if (found_->full()) {
        if (tried == 1) {
          notes_.too_many = at, notes_.room = found_->capacity();
          break;
        }
        length = shorter(tried);
        ++notes_.again;
        continue;
      }
      give(at, end, rows);
      at = end;
      length = graph_.planning() ? most : next_length(tried, most);
    }
    graph_.trust_order(false);
  }

 private:
  Asked asked_of_points() const { return {who, itself_ ? "Q" : "X"}; }

  /// Stretches end with panels where they are longer than one.
  Index end_of(Index at, Index length) const {
    const Index step = queries_->step, end = std::min(at + length, queries_->extent);
    return end < queries_->extent && end / step > at / step ? end / step * step : end;
  }

  void search(Index at, Index end) {
    const Index step = queries_->step, first = at / step, last = ceil_div(end, step);
    if (!graph_.planning()) found_->clear();
    for (Index p = 0; p < points_->count(); ++p)
      for (Index q = first; q < last; ++q) add(q, p, at, end, q - first);
    graph_.barrier();
  }

  /// As many queries as would fill two thirds of the room, if those to come have as many neighbours.
  Index next_length(Index tried, Index most) const {
    const double each = static_cast<double>(found_->found()) / static_cast<double>(tried);
    const double fit = static_cast<double>(found_->capacity()) * 2 / 3 / std::max(each, 1e-9);
    return std::clamp<Index>(static_cast<Index>(std::min(fit, static_cast<double>(most))), 1, most);
  }

  /// The same of a stretch that did not fit, by what was looked at until then.
  Index shorter(Index tried) const {
    const double pairs = static_cast<double>(found_->capacity()) / std::max(found_->looked_at(), 1.0);
    const double fit = static_cast<double>(found_->capacity()) * 2 / 3 / (pairs * static_cast<double>(points_->extent));
    return std::clamp<Index>(static_cast<Index>(fit), 1, tried / 2);
  }

  void give(Index at, Index end, const RowSink& rows) {
    const Index step = queries_->step, first = at / step;
    for (Index q = first; !graph_.planning() && q < ceil_div(end, step); ++q) {
      const Index begin = std::max(at, q * step);
      const FoundPairs::Rows made = found_->in_order(q - first, std::min(end, (q + 1) * step) - begin);
      notes_.pairs += static_cast<double>(made.values.size());
      rows(made.pointers, made.columns, made.values);
    }
  }

  std::shared_ptr<Circle> value(Index p) const {
    auto made = std::make_shared<Circle>();
    const bool unit = x_.of.metric == kernel::Metric::cosine;
    made->queries = {queries_, 0, queries_->step, unit, {who, "Q"}};
    made->points = {points_, p, rows_at_a_time(*points_), unit, asked_of_points()};
    made->metric = x_.of.metric, made->radius = x_.radius, made->self = x_.of.exclude_self;
    return made;
  }

  /// Queries [at, end) of panel q.
  void add(Index q, Index p, Index at, Index end, Index slot) {
    const std::shared_ptr<Circle> circle = value(p);
    circle->queries.panel = q, circle->found = found_, circle->slot = slot;
    circle->from = std::max(at, queries_->first(q)) - queries_->first(q);
    circle->rows = std::min(end, queries_->first(q) + queries_->length(q)) - queries_->first(q) - circle->from;
    const auto d = static_cast<double>(points_->side), m = static_cast<double>(circle->rows),
               n = static_cast<double>(points_->length(p));
    TaskSpec task;
    task.name = "radius";
    task.accesses = {read(queries_->region(q)), read(points_->region(p)), read({shift_, whole(shift_.shape())}),
                     update({turns_, {{slot, 0}, {1, 1}}}), scratch(circle->scratch_bytes())};
    task.cost.flops = 2 * m * n * d;
    task.cost.bytes_touched = bytes_of_value * (m + n) * d + 8 * m * n;
    task.calls = {Call(Kernel::take_within, Dtype::float32, {TilePart{0}})};
    task.calls[0].flops = task.cost.flops;
    task.calls[0].value = circle;
    graph_.add(std::move(task));
  }

  static constexpr const char* who = "radius_neighbors";
  Graph& graph_;
  const RadiusInput& x_;
  RadiusNotes& notes_;
  std::shared_ptr<const DensePanels> queries_;
  bool itself_;
  std::shared_ptr<const DensePanels> points_;
  Charge writer_;
  Array shift_;
  Index panels_ = 1;  // of queries, of a stretch at most
  std::shared_ptr<FoundPairs> found_;
  Array turns_;  // panels of points pass a panel of queries one after the other
};

}  // namespace

void check_radius(const RadiusInput& x) {
  check_points("radius_neighbors", x.of);
  const bool products = x.of.metric == kernel::Metric::inner;
  if (!std::isfinite(x.radius) || (!products && x.radius < 0))
    throw ShapeError("radius_neighbors: radius is " + std::to_string(x.radius) + "; a finite " +
                     (products ? "number" : "number of 0 or more") + " is needed.");
}

void radius_neighbours(Graph& graph, const RadiusInput& x, const RowSink& rows, RadiusNotes& notes) {
  check_radius(x);
  notes = {};
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  Circles(graph, x, notes).find(rows);
}

}  // namespace flagstone::cluster
