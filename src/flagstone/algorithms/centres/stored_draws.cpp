#include "flagstone/algorithms/centres/stored_draws.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "flagstone/base/bytes.hpp"

namespace flagstone::centres {
namespace {

using namespace cluster;

/// A panel's points once the nearest of the last round is known. Tiles: what they brought, D², weights, counts, offers.
struct DrawNearest final : CallValue {
  std::string who;
  Index first = 0, rows = 0, base = 0, most = 0;
  kernel::Stream stream;
  int state = -1, squares = -1, weights = -1, counts = -1, offers = -1;

  std::size_t labels_bytes() const { return align_up(static_cast<std::size_t>(rows) * 4, 64); }
  std::size_t scratch_bytes() const { return labels_bytes() + static_cast<std::size_t>(rows) * 16; }
};

int add(TaskSpec& task, Access access) {
  task.accesses.push_back(std::move(access));
  return static_cast<int>(task.accesses.size()) - 1;
}

double* numbers_at(std::span<const Tile> tiles, int place) {
  return place < 0 ? nullptr : tiles[static_cast<std::size_t>(place)].as<double>();
}

void run_draw(const Call& call, std::span<const Tile> tiles) {
  const auto& pass = call.value_as<DrawNearest>();
  auto* labels = reinterpret_cast<std::int32_t*>(tiles.back().data);
  auto* squares = reinterpret_cast<double*>(tiles.back().data + pass.labels_bytes());
  double* keys = squares + pass.rows;
  const double* state = numbers_at(tiles, pass.state);
  for (Index i = 0; state && i < pass.rows; ++i)
    squares[i] = state[i * state_width + 1], labels[i] = static_cast<std::int32_t>(state[i * state_width + 2]);
  const Weights weights{pass.weights < 0 ? nullptr : &tiles[static_cast<std::size_t>(pass.weights)], pass.who,
                        pass.first};
  draw_points({numbers_at(tiles, pass.squares), numbers_at(tiles, pass.counts), pass.most > 0 ? keys : nullptr},
              pass.rows, state ? labels : nullptr, squares, pass.base, weights, 0, pass.stream,
              static_cast<std::uint64_t>(pass.first));
  if (pass.most == 0) return;
  double* to = numbers_at(tiles, pass.offers);
  for (Index i = 0; i < pass.most; ++i) to[2 * i] = std::numeric_limits<double>::infinity(), to[2 * i + 1] = -1;
  for (const Index place : least_keys(keys, pass.rows, pass.most)) {
    *to++ = keys[place];
    *to++ = static_cast<double>(pass.first + place);
  }
}

const bool entered = host_kernels().enter(Kernel::draw_nearest, {Dtype::float64}, run_draw);

/// What a plan takes for rows that are drawn: they lie anywhere.
std::vector<Index> spread(Index n, Index rows) {
  std::vector<Index> made(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i)
    made[static_cast<std::size_t>(i)] =
        static_cast<Index>(static_cast<double>(i) * static_cast<double>(rows) / static_cast<double>(n));
  return made;
}

}  // namespace

StoredDraws::StoredDraws(Graph& graph, const PointsInput& x, Index each, Index most, std::uint64_t seed)
    : graph_(graph),
      x_(x),
      source_(make_source(x)),
      layout_(x.sparse ? Layout::coordinates : Layout::rows),
      each_(each),
      most_(most),
      held_(graph.charge(56 * static_cast<std::uint64_t>(most) + 8 * static_cast<std::uint64_t>(source_->panels + 1))),
      key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      squares_(of_points(2)) {
  to_.state = of_points(state_width);
  const CentreBlocks one(graph, 1, x.cols(), layout_);  // tasks that take points look at no centre
  const auto tasks = make_tasks(graph, x_, one, to_);
  for (Index p = 0; p < source_->panels; ++p) firsts_.push_back(tasks->first_row(p));
  firsts_.push_back(source_->rows);
}

/// Panels of chosen rows are no tiles of a grid.
Array StoredDraws::of_points(Index width) const {
  const Shape shape{source_->rows, width};
  if (x_.sparse && x_.sparse->rows) return graph_.allocate(shape, Dtype::float64);
  return graph_.temporary(shape, Dtype::float64, {source_->step, width});
}

bool StoredDraws::draw() {
  Pass pass;
  pass.pool = graph_.allocate({each_, 2}, Dtype::float64);
  double* pool = graph_.planning() ? nullptr : numbers(pass.pool);
  for (Index i = 0; pool && i < each_; ++i) pool[2 * i] = std::numeric_limits<double>::infinity();
  run(pass);
  const std::size_t room = static_cast<std::size_t>(most_) - rows_.size();
  std::vector<std::pair<double, double>> drawn;
  for (Index i = 0; pool && i < each_; ++i)
    if (pool[2 * i] < std::numeric_limits<double>::infinity()) drawn.emplace_back(pool[2 * i], pool[2 * i + 1]);
  if (!pool)
    for (const Index row : spread(each_, source_->rows)) drawn.emplace_back(0, static_cast<double>(row));
  std::sort(drawn.begin(), drawn.end());
  drawn.resize(std::min(drawn.size(), room));
  if (drawn.empty()) return false;  // D² knows those of the last round, which may be given once more
  base_ = rows_.size();
  for (const auto& one : drawn) rows_.push_back(static_cast<Index>(one.second));
  return true;
}

void StoredDraws::end() { forget(graph_, squares_, source_->step); }

Array StoredDraws::weigh() {
  Pass pass;
  pass.counts = graph_.allocate({1, most_}, Dtype::float64);
  run(pass);
  return pass.counts;
}

void StoredDraws::run(const Pass& pass) {
  if (!rows_.empty()) compare();
  for (Index p = 0; p < source_->panels; ++p) add_draw(pass, p);
  graph_.barrier();
  ++call_;
}

void StoredDraws::compare() {
  const std::vector<Index> last(rows_.begin() + static_cast<std::ptrdiff_t>(base_), rows_.end());
  CentreBlocks fresh(graph_, static_cast<Index>(last.size()), source_->cols, layout_);
  fresh.exact = graph_.temporary({fresh.k(), fresh.d()}, Dtype::float64, {fresh.step(), fresh.d()});
  gather(last, fresh.exact, fresh.step());
  for (Index b = 0; source_->shifts() && b < fresh.count(); ++b)
    graph_.await({again(read({fresh.exact, fresh.box(b)}))}, [&](std::span<const Tile> tiles) {
      const auto* from = tiles[0].as<const double>();
      for (Index j = 0; j < fresh.length(b); ++j)
        for (Index l = 0; l < fresh.d(); ++l)
          numbers(fresh.shift)[l] += from[j * fresh.d() + l] / static_cast<double>(fresh.k());
    });
  to_.opened = graph_.allocate({source_->panels, fresh.count()}, Dtype::float64);
  BlockPass pass(graph_, x_, *source_, fresh, to_);
  pass.run(false);
  reads_ += pass.order().point_reads;
  forget(graph_, fresh.exact, fresh.step());
}

void StoredDraws::add_draw(const Pass& pass, Index panel) {
  auto value = std::make_shared<DrawNearest>();
  value->who = x_.asked.who, value->first = first(panel), value->rows = first(panel + 1) - first(panel);
  value->base = static_cast<Index>(base_), value->stream = {key_, call_};
  const auto own = [&](const Array& array) {
    return Region{array, {{value->first, 0}, {value->rows, array.shape()[1]}}};
  };
  TaskSpec task;
  task.name = "kmeans_draw";
  const bool begun = !rows_.empty();
  if (begun) value->state = add(task, last(read(own(to_.state))));  // the next round begins it anew
  const Access squares = begun ? update(own(squares_)) : write(own(squares_));
  value->squares = add(task, pass.pool ? again(squares) : last(squares));
  if (x_.weights) value->weights = add(task, read({*x_.weights, {{value->first}, {value->rows}}}));
  if (pass.counts) value->counts = add(task, reduce({pass.counts, whole(pass.counts.shape())}));
  Array offers;
  if (pass.pool) {
    value->most = each_;
    offers = graph_.temporary(pass.pool.shape(), Dtype::float64, pass.pool.shape());
    value->offers = add(task, again(write({offers, whole(offers.shape())})));
  }
  task.accesses.push_back(scratch(value->scratch_bytes()));
  task.cost.bytes_touched = 100.0 * static_cast<double>(value->rows);
  task.calls = {Call(Kernel::draw_nearest, Dtype::float64, {TilePart{0}})};
  task.calls[0].value = std::move(value);
  graph_.add(std::move(task));
  if (pass.pool) merge_offers(graph_, offers, pass.pool);
}

/// Boxes of `to` that fit are filled together: a read of the panels that have points of theirs.
void StoredDraws::gather(const std::vector<Index>& rows, const Array& to, Index step) {
  const Index n = to.shape()[0], d = to.shape()[1], boxes = ceil_div(n, step);
  const double box_bytes = 8.0 * static_cast<double>(step * d);
  const Index together =
      std::clamp<Index>(static_cast<Index>(0.4 * static_cast<double>(graph_.budget()) / box_bytes), 1, boxes);
  const CentreBlocks one(graph_, 1, d, layout_);
  const auto tasks = make_tasks(graph_, x_, one, to_);
  std::vector<bool> begun(static_cast<std::size_t>(boxes), false);
  for (Index from = 0; from < boxes; from += together, ++reads_) {
    std::vector<std::pair<Index, Index>> wanted;  // a point, its row in `to`
    for (Index i = from * step; i < std::min(n, (from + together) * step); ++i)
      wanted.emplace_back(rows[static_cast<std::size_t>(i)], i);
    std::sort(wanted.begin(), wanted.end());
    for (auto at = wanted.begin(); at != wanted.end();) {
      const Index panel = std::upper_bound(firsts_.begin(), firsts_.end() - 1, at->first) - firsts_.begin() - 1;
      std::vector<TakenPoint> points;
      std::vector<Access> targets;
      std::map<Index, int> tiles;  // of boxes
      for (; at != wanted.end() && at->first < first(panel + 1); ++at) {
        const Index box = at->second / step;
        const auto [tile, fresh] = tiles.emplace(box, static_cast<int>(targets.size()));
        if (fresh) {
          const Region region{to, {{box * step, 0}, {std::min(step, n - box * step), d}}};
          targets.push_back(again(begun[static_cast<std::size_t>(box)] ? update(region) : write(region)));
          begun[static_cast<std::size_t>(box)] = true;
        }
        points.push_back({at->first - first(panel), tile->second, at->second - box * step});
      }
      tasks->take(panel, std::move(points), targets);
    }
  }
  graph_.barrier();
}

}  // namespace flagstone::centres
