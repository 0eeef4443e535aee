#include "flagstone/algorithms/forest/wide.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "flagstone/algorithms/forest/orthant.hpp"
#include "flagstone/algorithms/forest/wide_tasks.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::forest {
namespace {

constexpr Index most_rounds = 100, planned_rounds = 12;  // of sides
constexpr Index most_steps = 40, planned_steps = 25;     // of classifiers, a read each
constexpr double least_growth = 1e-6;                    // of the mean gain of sides, as in memory

Region all(const Array& array) { return {array, whole(array.shape())}; }

/// values[l] := what the rank of l is worth among those above 0; 0 of others. Ties by number.
void to_ranks(double* values, Index n, std::vector<std::int32_t>& order) {
  order.clear();
  for (Index l = 0; l < n; ++l)
    if (values[l] > 0) order.push_back(static_cast<std::int32_t>(l));
  std::sort(order.begin(), order.end(),
            [&](std::int32_t a, std::int32_t b) { return values[a] > values[b] || (values[a] == values[b] && a < b); });
  for (std::size_t r = 0; r < order.size(); ++r) values[order[r]] = 1 / std::log2(static_cast<double>(r) + 2);
}

std::string points_name(Index first, Index level, std::size_t panel) {
  return "points" + std::to_string(first) + "-" + std::to_string(level) + "-" + std::to_string(panel);
}

}  // namespace

WideNodes::WideNodes(Graph& graph, const labels::Examples& examples, const TrainForestOptions& options,
                     std::shared_ptr<const std::vector<double>> worth, const labels::BucketSize& size, Index first,
                     Index trees, Stages& stages)
    : graph_(graph),
      examples_(examples),
      options_(options),
      worth_(std::move(worth)),
      labels_(examples.y->matrix.cols),
      first_(first),
      trees_(trees),
      stages_(stages) {
  const auto list = [this](StateParts& parts) {
    parts.values("wide", wide_);
    parts.values("subtrees", subtrees_);
    parts.values("numbers", numbers_);
    parts.value("level", level_);
    parts.value("stored", stored_);
  };
  kept_.reset(new Stages::Kept(stages.keep("wide" + std::to_string(first), list)));
  for (const CsrPanelRange& panel : examples.x.panels) {
    const Shape shape{std::max<Index>(1, (panel.row_end - panel.row) * trees)};
    side_.push_back(graph.temporary(shape, Dtype::uint8, shape));
  }
  if (!kept_->loaded() || !go_on()) begin(size);
}

/// Behind the last level that a dead process saved; false where its points are gone.
bool WideNodes::go_on() {
  open_points();
  for (std::size_t p = 0; p < at_.size(); ++p)
    if (!saved_[p]->holds(whole(at_[p].shape()))) return false;
  told_ = level_;
  for (const Array& side : side_) {  // of a wide node each round of sides begins anew, others have none
    TaskSpec task;
    task.name = "begin_trees";
    task.accesses = {again(write(all(side)))};
    task.cost.bytes_touched = static_cast<double>(side.nbytes());
    task.calls = {call::zero(Dtype::uint8, {0})};
    graph_.add(std::move(task));
  }
  return true;
}

void WideNodes::begin(const labels::BucketSize& all_points) {
  level_ = stored_ = 0;
  wide_.clear(), subtrees_.clear();
  numbers_.assign(static_cast<std::size_t>(trees_), 1);
  for (Index t = 0; t < trees_; ++t) wide_.push_back({first_ + t, 0, 0, all_points});
  open_points();
  each_panel<Begin>("begin_trees", 0, [&](Begin& task, std::size_t p) {
    task.at = task.add(again(write(all(at_[p])))), task.side = task.add(again(write(all(side_[p]))));
  });
}

/// Where points are after so many levels: where something is saved, another array for each panel after each of them.
void WideNodes::open_points() {
  at_.clear(), saved_.clear();
  for (std::size_t p = 0; p < side_.size(); ++p) {
    const Shape& shape = side_[p].shape();
    const std::string name = points_name(first_, level_, p);
    at_.push_back(stages_.temporary(name, shape, Dtype::int32, shape));
    if (stages_.saving()) saved_.push_back(std::make_unique<FinishedTiles>(stages_, at_[p], shape, name));
  }
}

/// Levels that neither the last save tells of nor the next one will.
void WideNodes::forget() {
  if (level_ - 1 != told_) remove(level_ - 1);
  if (std::ranges::any_of(saved_, [](const auto& one) { return one->unnoted(); })) return;
  if (told_ >= 0) remove(told_);
  told_ = level_;
}
void WideNodes::remove(Index level) const {
  std::error_code ignored;  // they are in the folder of the record, which goes as a whole
  for (std::size_t p = 0; p < side_.size(); ++p)
    std::filesystem::remove(stages_.directory() + "/" + points_name(first_, level, p), ignored);
}

/// A task for each panel; `seconds`: of a stored value, beside reading it.
template <class Task, class Prepare>
void WideNodes::each_panel(const char* name, double seconds, Prepare&& prepare) {
  for (std::size_t p = 0; p < examples_.x.panels.size(); ++p) {
    auto task = std::make_shared<Task>(examples_, p);
    task->trees = trees_;
    prepare(*task, p);
    TaskSpec spec;
    spec.name = name;
    spec.accesses = std::exchange(task->accesses, {});
    spec.accesses.push_back(scratch(task->own_bytes));
    const auto values = static_cast<double>(examples_.x.panels[p].last - examples_.x.panels[p].first);
    spec.cost = labels::seconds_of(task->seconds() + seconds * values, 0, task->decoded());
    spec.calls = {Call(Kernel::train_node, Dtype::float64, {TilePart{0}})};
    spec.calls[0].value = std::move(task);
    graph_.add(std::move(spec));
  }
}

/// How many nodes of a level go through passes together: what each has in memory is a few vectors.
std::size_t WideNodes::together() const {
  const double copies = 3.0 + graph_.workers();  // of a sum that is reduced
  const double of_labels = 16 * static_cast<double>(labels_) * (1 + copies);
  const double of_columns = 8 * static_cast<double>(columns()) * (static_cast<double>(Orthant::vectors) + 2 + copies);
  const double fit = 0.4 * static_cast<double>(graph_.budget()) / std::max(of_labels, of_columns);
  return static_cast<std::size_t>(std::clamp(fit, 1.0, static_cast<double>(wide_.size())));
}

std::vector<Subtree> WideNodes::grow(const Keep& keep, ForestNotes& notes, const std::function<void(Index)>& offer) {
  while (!wide_.empty()) {
    const std::size_t most = together();
    becomes_.assign(2 * wide_.size(), nowhere);
    for (std::size_t first = 0; first < wide_.size(); first += most) {
      const std::size_t n = std::min(most, wide_.size() - first);
      const std::vector<Means> means = split(first, n, notes);
      const Array weights = fit(first, n, means, notes);
      settle(first, means, weights, part(first, n, weights, notes), keep, notes);
    }
    ++level_;
    relabel();
    wide_ = std::exchange(next_, {});
    if (!stages_.saving()) continue;
    for (std::size_t p = 0; p < at_.size(); ++p) saved_[p]->finish(whole(at_[p].shape()));
    offer(level_);
    forget();
  }
  std::vector<Subtree> made = subtrees_;
  order_.resize(made.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, {}, [&](std::size_t s) { return subtrees_[s].tree; });
  std::vector<Index> numbers = numbers_;  // those that a save tells of are of wide nodes alone
  for (std::size_t s = 0; s < made.size(); ++s) {
    made[s] = subtrees_[order_[s]];
    Index& number = numbers[static_cast<std::size_t>(made[s].tree - first_)];
    made[s].next = number, number += 2 * made[s].size.rows;
  }
  return made;
}

std::vector<WideNodes::Means> WideNodes::split(std::size_t first, std::size_t n, ForestNotes& notes) {
  const auto nodes = static_cast<Index>(n);
  const Array ranks = graph_.allocate({nodes, 2 * labels_}, Dtype::float64);
  auto seeds = std::make_shared<std::vector<std::uint64_t>>();
  for (std::size_t c = 0; c < n; ++c)
    seeds->push_back(labels::seed_of(options_.growth.seed, static_cast<std::uint64_t>(wide_[first + c].tree),
                                     static_cast<std::uint64_t>(wide_[first + c].number), 1));
  std::vector<std::uint8_t> rests(n, 0);
  std::vector<double> before(n, -1);
  std::vector<Means> made(n);
  std::vector<std::int32_t> order;
  const Charge held = graph_.charge(8 * static_cast<std::uint64_t>(labels_));  // of it, and of what a leaf would keep
  const Index rounds = graph_.planning() ? planned_rounds : most_rounds + 1;
  for (Index round = 0; round < rounds && std::ranges::count(rests, 0) > 0; ++round) {
    const Array sums = graph_.allocate({nodes, 2 * labels_}, Dtype::float64);
    const Array totals = graph_.allocate({nodes, 3}, Dtype::float64);
    const auto now = std::make_shared<const std::vector<std::uint8_t>>(rests);
    each_panel<Sides>("part_sides", 0, [&](Sides& task, std::size_t p) {
      task.first = static_cast<Index>(first), task.nodes = nodes, task.worth = worth_;
      task.rests = now;
      if (round == 0) task.seeds = seeds;
      task.at = task.add(again(read(all(at_[p]))));
      task.side = task.add(again(update(all(side_[p]))));
      if (round > 0) task.ranks = task.add(read(all(ranks)));
      task.sums = task.add(reduce(all(sums))), task.totals = task.add(reduce(all(totals)));
    });
    graph_.barrier();
    ++notes.reads;
    if (graph_.planning()) continue;
    const std::span<const double> total = elements_of<double>(totals), sum = elements_of<double>(sums);
    double* rank = elements_of<double>(ranks).data();
    for (std::size_t c = 0; c < n; ++c) {
      if (rests[c]) continue;
      const double gain = total[3 * c] / std::max(1.0, total[3 * c + 1] + total[3 * c + 2]);
      made[c].sides[0] = static_cast<Index>(total[3 * c + 1]), made[c].sides[1] = static_cast<Index>(total[3 * c + 2]);
      const auto width = static_cast<std::size_t>(2 * labels_);
      std::copy_n(sum.begin() + static_cast<std::ptrdiff_t>(c * width), width, rank + c * width);
      rests[c] = round > 0 && (gain - before[c] < least_growth || round == most_rounds);
      if (round > 0) before[c] = gain;
      if (rests[c]) {
        take_means(rank + c * width, made[c]);
        continue;
      }
      for (Index s = 0; s < 2; ++s) to_ranks(rank + c * width + static_cast<std::size_t>(s * labels_), labels_, order);
    }
  }
  return made;
}

/// The best labels of a leaf, by number, from what all of its points' labels are worth.
void WideNodes::take_means(const double* sums, Means& means) const {
  std::vector<std::int32_t> order;
  const auto all_of = [&](std::int32_t l) { return sums[l] + sums[labels_ + l]; };
  for (Index l = 0; l < labels_; ++l)
    if (all_of(static_cast<std::int32_t>(l)) > 0) order.push_back(static_cast<std::int32_t>(l));
  const auto kept = std::min(order.size(), static_cast<std::size_t>(options_.growth.leaf_labels));
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
      [&](std::int32_t a, std::int32_t b) { return all_of(a) > all_of(b) || (all_of(a) == all_of(b) && a < b); });
  order.resize(kept);
  std::ranges::sort(order);
  for (const std::int32_t l : order) {
    means.labels.push_back(static_cast<std::uint32_t>(l));
    means.values.push_back(all_of(l) / static_cast<double>(means.sides[0] + means.sides[1]));
  }
}

/// Weights of each node: nodes x columns, float64 in memory.
Array WideNodes::fit(std::size_t first, std::size_t n, const std::vector<Means>& means, ForestNotes& notes) {
  const auto nodes = static_cast<Index>(n);
  const auto width = static_cast<std::size_t>(columns());
  const Array trial = graph_.allocate({nodes, columns()}, Dtype::float64);
  const Array numbers = graph_.allocate({nodes, Orthant::vectors * columns()}, Dtype::float64);
  std::vector<Orthant> solvers;
  std::vector<double> costs(2 * n, 0.0);
  for (std::size_t c = 0; !graph_.planning() && c < n; ++c) {
    const auto own = [&](const Array& array, std::size_t of) { return elements_of<double>(array).subspan(c * of, of); };
    solvers.emplace_back(own(numbers, static_cast<std::size_t>(Orthant::vectors) * width), own(trial, width),
                         options_.growth.eps, most_steps);
    const double rows = options_.growth.cost * static_cast<double>(means[c].sides[0] + means[c].sides[1]);
    for (std::size_t s = 0; s < 2 && means[c].sides[0] > 0 && means[c].sides[1] > 0; ++s)
      costs[2 * c + s] = rows / static_cast<double>(means[c].sides[s]);
  }
  const auto waits = [&] {
    return graph_.planning() || std::ranges::any_of(costs, [](double cost) { return cost > 0; });
  };
  const Index steps = graph_.planning() ? planned_steps : most_steps;
  for (Index step = 0; step < steps && waits(); ++step) {
    const Array slopes = graph_.allocate({nodes, columns()}, Dtype::float64);
    const Array losses = graph_.allocate({nodes, 1}, Dtype::float64);
    const auto now = std::make_shared<const std::vector<double>>(costs);
    each_panel<Slopes>("fit_sides", 2e-9 * static_cast<double>(trees_), [&](Slopes& task, std::size_t p) {
      task.first = static_cast<Index>(first), task.nodes = nodes, task.features = examples_.features();
      task.costs = now;
      task.at = task.add(again(read(all(at_[p])))), task.side = task.add(again(read(all(side_[p]))));
      task.weights = task.add(read(all(trial)));
      task.slopes = task.add(reduce(all(slopes))), task.losses = task.add(reduce(all(losses)));
    });
    graph_.barrier();
    ++notes.reads;
    graph_.host_work("step_weights", labels::seconds_of(20e-9 * static_cast<double>(n * width)));
    if (graph_.planning()) continue;
    for (std::size_t c = 0; c < n; ++c) {
      if (costs[2 * c] == 0) continue;
      solvers[c].told(elements_of<double>(losses)[c], elements_of<double>(slopes).data() + c * width);
      if (solvers[c].done()) costs[2 * c] = costs[2 * c + 1] = 0;
    }
  }
  const Array weights = graph_.allocate({nodes, columns()}, Dtype::float32);
  if (!graph_.planning())
    std::ranges::transform(elements_of<double>(trial), elements_of<float>(weights).begin(),
                           [](double value) { return static_cast<float>(value); });
  return weights;
}

std::vector<WideNodes::Part> WideNodes::part(std::size_t first, std::size_t n, const Array& weights,
                                             ForestNotes& notes) {
  const Array counts = graph_.allocate({static_cast<Index>(n), 6}, Dtype::float64);
  each_panel<Parting>("part_points", 2e-9 * static_cast<double>(trees_), [&](Parting& task, std::size_t p) {
    task.first = static_cast<Index>(first), task.nodes = static_cast<Index>(n), task.features = examples_.features();
    task.at = task.add(again(read(all(at_[p])))), task.side = task.add(again(update(all(side_[p]))));
    task.weights = task.add(read(all(weights))), task.counts = task.add(reduce(all(counts)));
  });
  graph_.barrier();
  ++notes.reads;
  std::vector<Part> made(2 * n);
  for (std::size_t s = 0; s < made.size(); ++s) {
    const labels::BucketSize& size = wide_[first + s / 2].size;
    if (graph_.planning())  // as if nodes were halved
      made[s] = {0.5 * static_cast<double>(size.rows), 0.5 * static_cast<double>(size.values),
                 0.5 * static_cast<double>(size.keys)};
    else
      std::copy_n(elements_of<double>(counts).data() + 3 * s, 3, &made[s].rows);
  }
  return made;
}

void WideNodes::settle(std::size_t first, const std::vector<Means>& means, const Array& weights,
                       const std::vector<Part>& parts, const Keep& keep, ForestNotes& notes) {
  for (std::size_t c = 0; c < means.size(); ++c) {
    const Node& node = wide_[first + c];
    const Part *left = &parts[2 * c], *right = left + 1;
    notes.deepest = std::max(notes.deepest, node.level);
    if (!graph_.planning() && (left->rows == 0 || right->rows == 0)) {
      ++notes.leaves;
      keep_leaf(node, means[c], keep);
      continue;
    }
    ++notes.nodes, ++notes.wide;
    Index& number = numbers_[static_cast<std::size_t>(node.tree - first_)];
    if (!graph_.planning())
      keep_node(node, elements_of<float>(weights).data() + static_cast<std::ptrdiff_t>(c) * columns(), number, keep);
    for (std::size_t s = 0; s < 2; ++s, ++number) {
      const auto whole = [](double value) { return static_cast<Index>(std::ceil(value)); };
      const labels::BucketSize size{whole(parts[2 * c + s].rows), whole(parts[2 * c + s].values),
                                    whole(parts[2 * c + s].keys)};
      becomes_[2 * (first + c) + s] = child(node, number, size);
    }
  }
}

std::int32_t WideNodes::child(const Node& parent, Index number, const labels::BucketSize& size) {
  if (size.values > options_.small) {
    next_.push_back({parent.tree, number, parent.level + 1, size});
    return static_cast<std::int32_t>(next_.size() - 1);
  }
  subtrees_.push_back({parent.tree, number, parent.level + 1, 0, size});
  return code_of(subtrees_.size() - 1);
}

void WideNodes::keep_node(const Node& node, const float* weights, Index first_child, const Keep& keep) {
  std::vector<std::uint32_t> features;
  std::vector<double> values;
  for (Index j = 0; j < columns(); ++j)
    if (weights[j] != 0) features.push_back(static_cast<std::uint32_t>(j)), values.push_back(weights[j]);
  keep_chunk({node.level, node.tree, node.number, first_child, 1}, features, values, columns(), keep);
}

void WideNodes::keep_leaf(const Node& node, const Means& means, const Keep& keep) {
  keep_chunk({labels::leaf_level, node.tree, node.number, 0, 1}, means.labels, means.values, labels_, keep);
}

void WideNodes::keep_chunk(const labels::Chunk& chunk, const std::vector<std::uint32_t>& columns,
                           const std::vector<double>& values, Index cols, const Keep& keep) {
  const auto n = static_cast<Index>(columns.size());
  const labels::EncodedSize size{kernel::most_rows(n, cols), n, 1, options_.growth.small_weights};
  const Charge held = graph_.charge(size.bytes() + 12 * columns.size());
  std::vector<std::byte> tile(size.bytes());
  kernel::ChunkTarget to = size.target(tile.data());
  kernel::encode_chunk(columns.data(), n, values.data(), 1, 0, to);
  labels::EncodedSize::note(tile.data(), to);
  keep(chunk, size, tile.data());
  ++stored_;
}

void WideNodes::relabel() {
  const auto becomes = std::make_shared<const std::vector<std::int32_t>>(becomes_);
  const std::vector<Array> before = at_;
  if (stages_.saving()) open_points();
  each_panel<Relabel>("relabel_points", 0, [&](Relabel& task, std::size_t p) {
    task.becomes = becomes;
    task.at = task.add(again(stages_.saving() ? write(all(at_[p])) : update(all(at_[p]))));
    task.side = task.add(again(read(all(side_[p]))));
    if (stages_.saving()) task.before = task.add(last(read(all(before[p]))));
    if (graph_.planning()) task.own_bytes = at_[p].nbytes();  // of `before`, where the run saves
  });
}

std::vector<Array> WideNodes::fill(const std::vector<Subtree>& subtrees, std::size_t first, std::size_t n) {
  std::vector<Array> made;
  std::vector<labels::BucketSize> sizes;
  auto buckets = std::make_shared<std::vector<std::int32_t>>(subtrees.size(), -1);
  for (std::size_t b = 0; b < n; ++b) {
    sizes.push_back(subtrees[first + b].size);
    const Shape shape{static_cast<Index>(sizes.back().bytes())};
    made.push_back(graph_.temporary(shape, Dtype::uint8, shape));
    (*buckets)[order_[first + b]] = static_cast<std::int32_t>(b);
  }
  each_panel<Gather>("fill_buckets", labels::value_seconds, [&](Gather& task, std::size_t p) {
    task.buckets = buckets, task.sizes = sizes, task.begins = p == 0;
    task.at = task.add(again(read(all(at_[p])))), task.first_bucket = task.accesses.size();
    for (const Array& bucket : made) task.add(again(p == 0 ? write(all(bucket)) : update(all(bucket))));
  });
  return made;
}

}  // namespace flagstone::forest
