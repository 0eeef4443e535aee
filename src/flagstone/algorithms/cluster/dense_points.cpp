#include "flagstone/algorithms/cluster/dense_points.hpp"

#include <algorithm>
#include <limits>

#include "flagstone/algorithms/cluster/panel_work.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::cluster {

std::shared_ptr<const DensePanels> panels_of(const Array& array, bool transpose) {
  return std::make_shared<const DensePanels>(array, transpose, spectral::Along::rows);
}

std::shared_ptr<const DensePanels> panels_in_rows(const Array& array, bool transpose, Index rows) {
  auto made = std::make_shared<DensePanels>(array, transpose, spectral::Along::rows);
  made->step = rows;
  return made;
}

Index piece_rows(const DensePanels& x, Index scores) {
  const Index row = 12 * x.side + 4 * scores + 32;
  return std::min(x.step, std::clamp<Index>(static_cast<Index>(MiB) / row / 16 * 16, 32, 1024));
}

kernel::Points PanelPieces::load(const Tile& stored, Index at, Index n, const double* shift, std::byte* memory) const {
  const Tile part = subtile(x->view(stored), {{at, 0}, {n, x->side}});
  const kernel::Points points = kernel::points_at(memory, n, x->side);
  const Index bad = kernel::load_points(part, unit, shift, points);
  if (bad >= 0) refuse_bad(asked, first() + at + bad, kernel::first_bad(points.row(bad), x->side));
  return points;
}

double panel_bytes(const DensePanels& panels) {
  const Region region = panels.region(0);
  return static_cast<double>(count(region.box.shape)) * static_cast<double>(size_of(region.array.dtype()));
}

void find_shift(Graph& graph, const std::shared_ptr<const DensePanels>& points, const Asked& asked,
                const Array& shift) {
  constexpr Index enough = 1024;
  const PanelPieces pieces{points, 0, 1, false, asked};
  graph.await({read(points->region(0)), scratch(pieces.bytes())}, [&](std::span<const Tile> tiles) {
    const std::vector<double> zero(static_cast<std::size_t>(points->side), 0.0);
    double* to = numbers(shift);
    const Index rows = std::min(pieces.rows(), enough);
    for (Index i = 0; i < rows; ++i) {
      const kernel::Points point = pieces.load(tiles[0], i, 1, zero.data(), tiles[1].data);
      for (Index l = 0; l < point.d; ++l) to[l] += point.exact[l] / static_cast<double>(rows);
    }
  });
}

namespace {

constexpr double bytes_of_value = 40;  // converting, rounding, distances and sums, as the bytes copied meanwhile

/// Where a task's tiles are; -1: it has none.
struct Places {
  int weights = -1, labels = -1, sums = -1, totals = -1, farthest = -1, state = -1, counts = -1, offers = -1;
  std::uint32_t centres = 0;
};

double* numbers_at(std::span<const Tile> tiles, int place) {
  return place < 0 ? nullptr : tiles[static_cast<std::size_t>(place)].as<double>();
}

/// One panel of one pass, as the value of a call.
struct PanelPass final : CallValue {
  PanelPieces pieces;
  Places at;
  Index k = 0, base = 0, most = 0;
  kernel::Stream stream;

  std::size_t scores_bytes() const {
    return align_up(static_cast<std::size_t>(pieces.piece * kernel::scores_width(k)) * 4, 64);
  }
  std::size_t scratch_bytes() const {
    return pieces.bytes() + scores_bytes() + align_up(static_cast<std::size_t>(pieces.piece) * 4, 64) +
           align_up(static_cast<std::size_t>(pieces.piece) * 8, 64) +
           (most > 0 ? static_cast<std::size_t>(pieces.rows()) * 8 : 0);
  }
  Weights weights(std::span<const Tile> tiles) const {
    return {at.weights < 0 ? nullptr : &tiles[static_cast<std::size_t>(at.weights)], pieces.asked.who, pieces.first()};
  }
};

/// A task's scratch memory in its parts.
struct Scratch {
  Scratch(const PanelPass& pass, std::byte* memory)
      : points(memory),
        scores(reinterpret_cast<float*>(memory + pass.pieces.bytes())),
        labels(reinterpret_cast<std::int32_t*>(memory + pass.pieces.bytes() + pass.scores_bytes())),
        squares(reinterpret_cast<double*>(reinterpret_cast<std::byte*>(labels) +
                                          align_up(static_cast<std::size_t>(pass.pieces.piece) * 4, 64))),
        keys(squares + align_up(static_cast<std::size_t>(pass.pieces.piece) * 8, 64) / 8) {}
  std::byte* points;
  float* scores;
  std::int32_t* labels;
  double *squares, *keys;
};

void run_assign(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<PanelPass>();
  const Scratch scratch(pass, tiles.back().data);
  const kernel::Centres centres = CentreArrays::seen(tiles.subspan(pass.at.centres), pass.k, pass.pieces.unit);
  const Weights weights = pass.weights(tiles);
  PassTiles to{.totals = numbers_at(tiles, pass.at.totals), .k = pass.k, .d = centres.d};
  to.sums = numbers_at(tiles, pass.at.sums);
  if (pass.at.farthest >= 0) {
    to.farthest = reinterpret_cast<Far*>(numbers_at(tiles, pass.at.farthest));
    to.few = tiles[static_cast<std::size_t>(pass.at.farthest)].shape[1] / 4;
    std::fill_n(to.farthest, to.few, Far{0, -1, 0, 0});
  }
  const kernel::RowTable& loops = kernel::row_loops();
  pass.pieces.each(tiles[0], centres.shift, scratch.points, [&](Index at, const kernel::Points& points) {
    const Index decided = kernel::assign(points, centres, scratch.scores, scratch.labels, scratch.squares);
    to.total(Total::decided) += static_cast<double>(decided);
    for (Index i = 0; i < points.rows; ++i) {
      const Index label = scratch.labels[i];
      const double weight = weights.at(at + i);
      count_point(to, pass.pieces.first() + at + i, weight, label, scratch.squares[i], points.squares[i]);
      if (to.sums) loops.add(points.row(i), weight * points.scales[i], centres.d, to.sums + label * centres.d);
    }
    if (pass.at.labels < 0) return;
    const Tile& labels = tiles[static_cast<std::size_t>(pass.at.labels)];
    for (Index i = 0; i < points.rows; ++i)
      *reinterpret_cast<std::int32_t*>(labels.data + (at + i) * labels.strides[0]) = scratch.labels[i];
  });
}

/// The rows with the least keys, and what stands in them.
void write_offers(const PanelPass& pass, const Tile& stored, const Scratch& scratch, const Tile& offers) {
  const Index d = pass.pieces.x->side, width = d + 2;
  auto* to = offers.as<double>();
  for (Index i = 0; i < pass.most; ++i) to[i * width] = std::numeric_limits<double>::infinity(), to[i * width + 1] = -1;
  const std::vector<double> zero(static_cast<std::size_t>(d), 0.0);
  for (const Index place : least_keys(scratch.keys, pass.pieces.rows(), pass.most)) {
    const kernel::Points point = pass.pieces.load(stored, place, 1, zero.data(), scratch.points);
    to[0] = scratch.keys[place], to[1] = static_cast<double>(pass.pieces.first() + place);
    for (Index l = 0; l < d; ++l) to[2 + l] = point.scales[0] * point.exact[l];
    to += width;
  }
}

void run_draw(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<PanelPass>();
  const Scratch scratch(pass, tiles.back().data);
  const Weights weights = pass.weights(tiles);
  const bool fresh = pass.k > 0;
  const kernel::Centres centres =
      fresh ? CentreArrays::seen(tiles.subspan(pass.at.centres), pass.k, pass.pieces.unit) : kernel::Centres{};
  const std::vector<double> zero(static_cast<std::size_t>(pass.pieces.x->side), 0.0);
  pass.pieces.each(tiles[0], fresh ? centres.shift : zero.data(), scratch.points,
                   [&](Index at, const kernel::Points& points) {
                     if (fresh) kernel::assign(points, centres, scratch.scores, scratch.labels, scratch.squares);
                     draw_points({numbers_at(tiles, pass.at.state) + 2 * at, numbers_at(tiles, pass.at.counts),
                                  pass.most > 0 ? scratch.keys + at : nullptr},
                                 points.rows, fresh ? scratch.labels : nullptr, scratch.squares, pass.base, weights, at,
                                 pass.stream, static_cast<std::uint64_t>(pass.pieces.first() + at));
                   });
  if (pass.most > 0) write_offers(pass, tiles[0], scratch, tiles[static_cast<std::size_t>(pass.at.offers)]);
}

const bool entered = host_kernels().enter(Kernel::assign_points, {Dtype::float32}, run_assign) &&
                     host_kernels().enter(Kernel::draw_points, {Dtype::float32}, run_draw);

class DenseSource final : public Source {
 public:
  DenseSource(const PointsInput& x, std::shared_ptr<const DensePanels> cut) : x_(x), panels_(std::move(cut)) {
    rows = panels_->rows(), cols = panels_->cols(), panels = panels_->count(), step = panels_->step;
    asked = x.asked;
  }

  void assign(Graph& graph, const Assignment& pass) const override {
    for (const Index p : order_of(pass, panels)) {
      TaskSpec task;
      task.name = "kmeans_assign";
      auto value = begin(task, p, pass.centres->k());
      value->at.centres = static_cast<std::uint32_t>(task.accesses.size());
      pass.centres->access(task.accesses);
      if (pass.labels) value->at.labels = add(task, write({pass.labels, {{first(p)}, {length(p)}}}));
      if (pass.sums) value->at.sums = add(task, reduce({pass.sums, whole(pass.sums.shape())}));
      value->at.totals = add(task, reduce({pass.totals, whole(pass.totals.shape())}));
      if (pass.farthest)
        value->at.farthest = add(task, write({pass.farthest, {{p, 0}, {1, pass.farthest.shape()[1]}}}));
      finish(graph, task, Kernel::assign_points, std::move(value));
    }
  }

  void fetch(Graph& graph, const std::vector<Index>& wanted) const override {
    for (const Index p : wanted) add_fetch(graph, {read(panels_->region(p))});
  }

  void draw(Graph& graph, const Drawing& pass) const override {
    for (Index p = 0; p < panels; ++p) {
      TaskSpec task;
      task.name = "kmeans_draw";
      auto value = begin(task, p, pass.fresh ? pass.fresh->k() : 0);
      value->base = pass.base, value->stream = pass.stream;
      value->at.centres = static_cast<std::uint32_t>(task.accesses.size());
      if (pass.fresh) pass.fresh->access(task.accesses);
      const Region state{pass.state, {{first(p), 0}, {length(p), 2}}};
      value->at.state = add(task, again(pass.fresh ? update(state) : write(state)));
      if (pass.counts) value->at.counts = add(task, reduce({pass.counts, whole(pass.counts.shape())}));
      Array offers;
      if (pass.pool) {
        value->most = pass.pool.shape()[0];
        offers = graph.temporary(pass.pool.shape(), Dtype::float64, pass.pool.shape());
        value->at.offers = add(task, again(write({offers, whole(offers.shape())})));
      }
      finish(graph, task, Kernel::draw_points, std::move(value));
      if (pass.pool) merge_offers(graph, offers, pass.pool);
    }
  }

  bool shifts() const override { return !x_.unit; }

  std::vector<double> row(Graph& graph, Index i) const override {
    std::vector<double> found(static_cast<std::size_t>(cols), 0.0);
    const PanelPieces pieces{panels_, i / step, 1, x_.unit, x_.asked};
    graph.await({read(panels_->region(i / step)), scratch(pieces.bytes())}, [&](std::span<const Tile> tiles) {
      const std::vector<double> zero(found.size(), 0.0);
      const kernel::Points point = pieces.load(tiles[0], i % step, 1, zero.data(), tiles[1].data);
      for (std::size_t l = 0; l < found.size(); ++l) found[l] = point.scales[0] * point.exact[l];
    });
    return found;
  }

 private:
  Index first(Index panel) const { return panels_->first(panel); }
  Index length(Index panel) const { return panels_->length(panel); }
  static int add(TaskSpec& task, Access access) {
    task.accesses.push_back(std::move(access));
    return static_cast<int>(task.accesses.size()) - 1;
  }
  std::shared_ptr<PanelPass> begin(TaskSpec& task, Index p, Index k) const {
    auto value = std::make_shared<PanelPass>();
    value->pieces = {panels_, p, piece_rows(*panels_, kernel::scores_width(k)), x_.unit, x_.asked};
    value->k = k;
    task.accesses = {read(panels_->region(p))};
    if (x_.weights) value->at.weights = add(task, read({*x_.weights, {{first(p)}, {length(p)}}}));
    return value;
  }
  void finish(Graph& graph, TaskSpec& task, Kernel kernel, std::shared_ptr<PanelPass> value) const {
    task.accesses.push_back(scratch(value->scratch_bytes()));
    const auto values = static_cast<double>(value->pieces.rows() * cols);
    task.cost.flops = 2.0 * values * static_cast<double>(value->k);
    task.cost.bytes_touched = bytes_of_value * values + 12.0 * static_cast<double>(value->pieces.rows() * value->k);
    task.calls = {Call(kernel, Dtype::float32, {TilePart{0}})};
    task.calls[0].flops = task.cost.flops;
    task.calls[0].value = std::move(value);
    graph.add(std::move(task));
  }

  PointsInput x_;
  std::shared_ptr<const DensePanels> panels_;
};

}  // namespace

std::unique_ptr<Source> make_dense_source(const PointsInput& x, std::shared_ptr<const DensePanels> panels) {
  return std::make_unique<DenseSource>(x, std::move(panels));
}

}  // namespace flagstone::cluster
