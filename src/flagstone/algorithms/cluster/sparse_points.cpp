#include "flagstone/algorithms/cluster/sparse_points.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "flagstone/algorithms/cluster/panel_work.hpp"
#include "flagstone/algorithms/cluster/sparse_rows.hpp"
#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::cluster {
namespace {

/// Centres by coordinates, and their squares: 4 d (k in whole steps) + 8 k bytes for one pass.
struct Turned {
  Turned(Graph& graph, const CentreArrays& centres)
      : columns(graph.allocate({centres.d(), kernel::scores_width(centres.k())}, Dtype::float32)),
        squares(graph.allocate({1, centres.k()}, Dtype::float64)) {
    if (graph.planning()) return;
    const Index k = centres.k(), d = centres.d(), width = columns.shape()[1];
    const double* from = numbers(centres.exact());
    auto* to = reinterpret_cast<float*>(columns.store().memory());
    for (Index j = 0; j < k; ++j) {
      numbers(squares)[j] = kernel::row_loops().product(from + j * d, from + j * d, d);
      for (Index l = 0; l < d; ++l) to[l * width + j] = static_cast<float>(from[j * d + l]);
    }
  }
  Array columns, squares;
};

/// One panel of one pass, as the value of a call. Its tiles: those of the reader, then the centres and the others.
struct SparsePass final : CallValue, SparsePanel {
  SparsePass(const sparse::CsrOperand& a, Index panel) : SparsePanel(a, panel) {}

  Index base = 0, most = 0;
  kernel::Stream stream;
  int weights = -1, labels = -1, sums = -1, totals = -1, farthest = -1, state = -1, counts = -1, offers = -1,
      beside = -1;
  int centres = -1, columns = -1;

  std::size_t scratch_bytes() const { return bytes() + (most > 0 ? static_cast<std::size_t>(reader.rows()) * 8 : 0); }
  TurnedCentres seen(std::span<const Tile> tiles) const {
    if (k == 0) return {};
    return {CentreArrays::seen(tiles.subspan(static_cast<std::size_t>(centres)), k, unit),
            tiles[static_cast<std::size_t>(columns)], tiles[static_cast<std::size_t>(columns) + 1].as<const double>()};
  }
  Weights weight(std::span<const Tile> tiles) const {
    return {weights < 0 ? nullptr : &tiles[static_cast<std::size_t>(weights)], asked.who, reader.row()};
  }
};

double* numbers_at(std::span<const Tile> tiles, int place) {
  return place < 0 ? nullptr : tiles[static_cast<std::size_t>(place)].as<double>();
}

void run_assign(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<SparsePass>();
  const TurnedCentres centres = pass.seen(tiles);
  const Weights weights = pass.weight(tiles);
  PassTiles to{
      .sums = numbers_at(tiles, pass.sums), .totals = numbers_at(tiles, pass.totals), .k = pass.k, .d = pass.cols};
  if (pass.farthest >= 0) {
    to.farthest = reinterpret_cast<Far*>(numbers_at(tiles, pass.farthest));
    to.few = tiles[static_cast<std::size_t>(pass.farthest)].shape[1] / 4;
    std::fill_n(to.farthest, to.few, Far{0, -1, 0, 0});
  }
  pass.each(tiles, tiles.back().data, [&](Index at, RowBatch& batch) {
    to.total(Total::decided) += static_cast<double>(batch.assign(centres));
    for (Index i = 0; i < batch.rows(); ++i) {
      const Index label = batch.labels()[i];
      const double weight = weights.at(at + i);
      count_point(to, pass.reader.row() + at + i, weight, label, batch.squares()[i], batch.square(i));
      if (to.sums) batch.add(i, weight, to.sums + label * pass.cols);
    }
    if (pass.labels < 0) return;
    const Tile& labels = tiles[static_cast<std::size_t>(pass.labels)];
    for (Index i = 0; i < batch.rows(); ++i)
      *reinterpret_cast<std::int32_t*>(labels.data + (at + i) * labels.strides[0]) = batch.labels()[i];
  });
}

/// The rows with the least keys, made dense: the panel is decoded once more.
void write_offers(const SparsePass& pass, std::span<const Tile> tiles, const double* keys) {
  const Index width = pass.cols + 2;
  auto* to = numbers_at(tiles, pass.offers);
  std::fill_n(to, pass.most * width, 0.0);
  for (Index i = 0; i < pass.most; ++i) to[i * width] = std::numeric_limits<double>::infinity(), to[i * width + 1] = -1;
  std::map<Index, double*> places;
  for (const Index place : least_keys(keys, pass.reader.rows(), pass.most)) {
    to[0] = keys[place], to[1] = static_cast<double>(pass.reader.row() + place);
    places[place] = to + 2;
    to += width;
  }
  if (places.empty()) return;
  pass.each(tiles, tiles.back().data, [&](Index at, const RowBatch& batch) {
    for (auto one = places.lower_bound(at); one != places.end() && one->first < at + batch.rows(); ++one)
      batch.add(one->first - at, 1, one->second);
  });
}

void run_draw(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<SparsePass>();
  const TurnedCentres centres = pass.seen(tiles);
  const Weights weights = pass.weight(tiles);
  auto* keys = reinterpret_cast<double*>(tiles.back().data + pass.bytes());
  pass.each(tiles, tiles.back().data, [&](Index at, RowBatch& batch) {
    if (pass.k > 0) batch.assign(centres);
    if (pass.k > 0 && pass.beside >= 0) batch.less(numbers_at(tiles, pass.beside) + at);
    draw_points(
        {numbers_at(tiles, pass.state) + 2 * at, numbers_at(tiles, pass.counts), pass.most > 0 ? keys + at : nullptr},
        batch.rows(), pass.k > 0 ? batch.labels() : nullptr, batch.squares(), pass.base, weights, at, pass.stream,
        static_cast<std::uint64_t>(pass.reader.row() + at));
  });
  if (pass.most > 0) write_offers(pass, tiles, keys);
}

const bool entered = host_kernels().enter(Kernel::assign_points, {Dtype::float64}, run_assign) &&
                     host_kernels().enter(Kernel::draw_points, {Dtype::float64}, run_draw);

class SparseSource final : public Source {
 public:
  explicit SparseSource(const PointsInput& x) : x_(x), a_(*x.sparse) {
    rows = a_.matrix.rows, cols = a_.matrix.cols, panels = static_cast<Index>(a_.panels.size());
    step = a_.panel_rows(), onto = x.onto, asked = x.asked;
  }

  void assign(Graph& graph, const Assignment& pass) const override {
    const Turned turned(graph, *pass.centres);
    for (const Index p : order_of(pass, panels)) {
      TaskSpec task;
      task.name = "csr_assign";
      const auto value = begin(task, p, pass.centres, turned);
      const Index row = value->reader.row(), n = value->reader.rows();
      if (pass.labels) value->labels = add(task, write({pass.labels, {{row}, {n}}}));
      if (pass.sums) value->sums = add(task, reduce({pass.sums, whole(pass.sums.shape())}));
      value->totals = add(task, reduce({pass.totals, whole(pass.totals.shape())}));
      if (pass.farthest) value->farthest = add(task, write({pass.farthest, {{p, 0}, {1, pass.farthest.shape()[1]}}}));
      finish(graph, task, Kernel::assign_points, value);
    }
  }

  void fetch(Graph& graph, const std::vector<Index>& wanted) const override {
    for (const Index p : wanted) {
      TaskSpec task;
      begin(task, p);
      add_fetch(graph, std::move(task.accesses));
    }
  }

  void draw(Graph& graph, const Drawing& pass) const override {
    std::optional<Turned> turned;
    if (pass.fresh) turned.emplace(graph, *pass.fresh);
    for (Index p = 0; p < panels; ++p) {
      TaskSpec task;
      task.name = "csr_draw";
      const auto value = pass.fresh ? begin(task, p, pass.fresh, *turned) : begin(task, p);
      value->base = pass.base, value->stream = pass.stream;
      if (onto) value->beside = add(task, read({onto->beside, {{value->reader.row(), 0}, {value->reader.rows(), 1}}}));
      const Region state{pass.state, {{value->reader.row(), 0}, {value->reader.rows(), 2}}};
      value->state = add(task, again(pass.fresh ? update(state) : write(state)));
      if (pass.counts) value->counts = add(task, reduce({pass.counts, whole(pass.counts.shape())}));
      Array offers;
      if (pass.pool) {
        value->most = pass.pool.shape()[0];
        offers = graph.temporary(pass.pool.shape(), Dtype::float64, pass.pool.shape());
        value->offers = add(task, again(write({offers, whole(offers.shape())})));
      }
      finish(graph, task, Kernel::draw_points, value);
      if (pass.pool) merge_offers(graph, offers, pass.pool);
    }
  }

  Array state(Graph& graph) const override {
    return a_.rows || (onto && onto->hold_state) ? graph.allocate({rows, 2}, Dtype::float64) : Source::state(graph);
  }

  std::vector<double> row(Graph& graph, Index i) const override {
    std::vector<double> found(static_cast<std::size_t>(cols), 0.0);
    Index p = 0;
    const auto reader = [&](Index panel) {
      return sparse::PanelReader(a_, a_.panels[static_cast<std::size_t>(panel)], Dtype::float64, false);
    };
    while (p + 1 < panels && reader(p + 1).row() <= i) ++p;
    TaskSpec task;
    const auto value = begin(task, p);
    task.accesses.push_back(scratch(value->scratch_bytes()));
    graph.await(task.accesses, [&](std::span<const Tile> tiles) {
      value->each(tiles, tiles.back().data, [&](Index at, const RowBatch& batch) {
        const Index place = i - value->reader.row() - at;
        if (place >= 0 && place < batch.rows()) batch.add(place, 1, found.data());
      });
    });
    return found;
  }

 private:
  static int add(TaskSpec& task, Access access) {
    task.accesses.push_back(std::move(access));
    return static_cast<int>(task.accesses.size()) - 1;
  }
  std::shared_ptr<SparsePass> begin(TaskSpec& task, Index p) const {
    auto value = std::make_shared<SparsePass>(a_, p);
    value->reader.access(task.accesses);
    value->unit = x_.unit, value->asked = x_.asked;
    if (x_.weights) value->weights = add(task, read({*x_.weights, {{value->reader.row()}, {value->reader.rows()}}}));
    return value;
  }
  std::shared_ptr<SparsePass> begin(TaskSpec& task, Index p, const CentreArrays* centres, const Turned& turned) const {
    auto value = begin(task, p);
    value->k = centres->k();
    value->centres = static_cast<int>(task.accesses.size());
    centres->access(task.accesses);
    value->columns = add(task, read({turned.columns, whole(turned.columns.shape())}));
    add(task, read({turned.squares, whole(turned.squares.shape())}));
    return value;
  }
  void finish(Graph& graph, TaskSpec& task, Kernel kernel, const std::shared_ptr<SparsePass>& value) const {
    task.accesses.push_back(scratch(value->scratch_bytes()));
    task.cost = value->cost();
    task.calls = {Call(kernel, Dtype::float64, {TilePart{0}})};
    task.calls[0].flops = task.cost.flops;
    task.calls[0].value = value;
    graph.add(std::move(task));
  }

  PointsInput x_;
  sparse::CsrOperand a_;
};

/// Seconds of a stored value beside the product: looked at for its norm, rounded, its distance, its sum.
constexpr double value_seconds = 5e-9;

}  // namespace

SparsePanel::SparsePanel(const sparse::CsrOperand& a, Index panel)
    : reader(a, a.panels[static_cast<std::size_t>(panel)], Dtype::float64, false), cols(a.matrix.cols) {}

std::size_t SparsePanel::reader_bytes() const { return align_up(reader.scratch_bytes(), 64); }

Cost SparsePanel::cost() const {
  const auto nnz = static_cast<double>(reader.nnz()), some = static_cast<double>(k);
  const double seconds = reader.convert_seconds() + nnz * (value_seconds + 0.03e-9 * some);
  return {2 * nnz * some, seconds * sparse::reference_bytes_per_second, false, reader.decoded_bytes()};
}

/// A batch has room for a value of each column, and squares of duplicates are not those of their sum.
void SparsePanel::check_lengths(Index row, const kernel::CsrRows& step) const {
  for (Index i = 0; i < step.rows; ++i)
    if (const Index stored = step.pointers[i + 1] - step.pointers[i]; stored > cols)
      throw FormatError(asked.who + ": row " + std::to_string(reader.row() + row + i) + " of " + asked.points +
                        " has " + std::to_string(stored) + " values and there are " + std::to_string(cols) +
                        " columns; sum its duplicates first (fl.from_blocks does).");
}

void SparsePanel::refuse(Index row, const RowBatch& batch) const {
  refuse_bad(asked, reader.row() + row + batch.bad_row(), batch.bad_column());
}

std::unique_ptr<Source> make_sparse_source(const PointsInput& x) { return std::make_unique<SparseSource>(x); }

}  // namespace flagstone::cluster
