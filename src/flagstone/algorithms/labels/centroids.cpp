#include "flagstone/algorithms/labels/centroids.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/base/bytes.hpp"

namespace flagstone::labels {
namespace {

struct Summing final : CallValue {
  Index first = 0, labels = 0, features = 0;
  BucketSize from, to;

  std::size_t sums_bytes() const { return align_up(static_cast<std::size_t>(features) * 8, 64); }
  std::size_t scratch_bytes() const {
    return 2 * sums_bytes() + align_up(static_cast<std::size_t>(labels + 2) * 8, 64) +
           align_up(static_cast<std::size_t>(from.keys) * 8, 64);
  }
};

/// Points of each label of the stretch: counting sort of (label, point).
void sort_points(const Summing& value, const BucketView& view, Index* starts, Index* points) {
  std::fill_n(starts, value.labels + 2, Index{0});
  const auto each = [&](auto&& use) {
    for (Index i = 0; i < view.rows; ++i)
      for (Index k = view.key_pointers[i]; k < view.key_pointers[i + 1]; ++k)
        if (const Index l = view.keys[k] - value.first; l >= 0 && l < value.labels) use(l, i);
  };
  each([&](Index l, Index) { ++starts[l + 2]; });
  std::partial_sum(starts, starts + value.labels + 2, starts);
  each([&](Index l, Index i) { points[starts[l + 1]++] = i; });
}

void run_summing(const Call& call, std::span<const Tile> tiles) {
  const auto& value = call.value_as<Summing>();
  const BucketView view = bucket_view(tiles[0], value.from);
  const BucketWriter to(tiles[1], value.to);
  to.begin();
  std::byte* memory = tiles.back().data;
  auto* sums = reinterpret_cast<double*>(memory);
  auto* columns = reinterpret_cast<std::uint32_t*>(memory + value.sums_bytes());
  auto* numbers = reinterpret_cast<float*>(columns + value.features);
  auto* starts = reinterpret_cast<Index*>(memory + 2 * value.sums_bytes());
  auto* points = starts + align_up(static_cast<std::size_t>(value.labels + 2) * 8, 64) / 8;
  sort_points(value, view, starts, points);
  std::fill_n(sums, value.features, 0.0);
  for (Index l = 0; l < value.labels; ++l) {
    Index n = 0;
    for (Index at = starts[l]; at < starts[l + 1]; ++at)
      for (Index p = view.points.pointers[points[at]]; p < view.points.pointers[points[at] + 1]; ++p) {
        const std::uint32_t column = view.points.columns[p];
        const double before = sums[column];
        sums[column] += static_cast<double>(view.points.values[p]);
        if (before == 0 && n < value.features) columns[n++] = column;  // twice where a sum came back to zero
      }
    std::sort(columns, columns + n);
    n = std::unique(columns, columns + n) - columns;
    double square = 0;
    for (Index p = 0; p < n; ++p) square += sums[columns[p]] * sums[columns[p]];
    const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
    Index kept = 0;
    for (Index p = 0; p < n; ++p) {
      const double sum = std::exchange(sums[columns[p]], 0.0);
      if (sum != 0) columns[kept] = columns[p], numbers[kept++] = static_cast<float>(scale * sum);
    }
    const auto label = static_cast<std::int32_t>(value.first + l);
    JoinedRow row;
    row.values = kept, row.columns = reinterpret_cast<const std::byte*>(columns), row.numbers = numbers;
    row.keys = 1, row.labels = &label;
    to.append(row);
  }
}

const bool entered = host_kernels().enter(Kernel::label_centroids, run_summing);

/// A stretch of labels, and the points that have one of them.
struct Stretch {
  Index first = 0, labels = 0;
  Tally points;
  BucketSize centroids;
};

std::vector<Stretch> stretches(const Examples& examples, const std::vector<Tally>& tallies, Index small, bool whole,
                               std::vector<Index>& most_values) {
  std::vector<Stretch> made;
  const Tally& all = tallies.back();
  for (std::size_t l = 0; l + 1 < tallies.size(); ++l) {
    const Index most = std::min(examples.features(), static_cast<Index>(tallies[l].values));
    most_values.push_back(most);
    const bool fits = !made.empty() && made.back().centroids.values + most <= small &&
                      (whole || made.back().points.values + tallies[l].values <= static_cast<double>(small));
    if (!fits) made.push_back({static_cast<Index>(l), 0, {}, {}});
    Stretch& last = made.back();
    ++last.labels;
    last.points.points = std::min(all.points, last.points.points + tallies[l].points);
    last.points.values = std::min(all.values, last.points.values + tallies[l].values);
    last.points.keys = std::min(all.keys, last.points.keys + tallies[l].keys);
    last.centroids.rows += 1, last.centroids.keys += 1, last.centroids.values += most;
  }
  return made;
}

Array add_sums(Graph& graph, const Array& from, const BucketSize& size, const Stretch& stretch, Index features,
               bool done) {
  auto value = std::make_shared<Summing>();
  value->first = stretch.first, value->labels = stretch.labels, value->features = features;
  value->from = size, value->to = stretch.centroids;
  const Shape shape{static_cast<Index>(value->to.bytes())};
  const Array to = graph.temporary(shape, Dtype::uint8, shape);
  const Access points = read({from, whole(from.shape())});
  TaskSpec task;
  task.name = "label_centroids";
  task.accesses = {done ? last(points) : again(points), again(write({to, whole(shape)})),
                   scratch(value->scratch_bytes())};
  task.cost = seconds_of(value_seconds * (stretch.points.values + 8 * static_cast<double>(stretch.centroids.values)));
  task.calls = {Call(Kernel::label_centroids, Dtype::float64, {TilePart{0}})};
  task.calls[0].value = value;
  graph.add(std::move(task));
  return to;
}

}  // namespace

Centroids label_centroids(Graph& graph, const Examples& examples, const std::vector<Tally>& tallies,
                          const BucketRows& all, Index small) {
  Centroids made;
  const bool together = all.pieces() > 0;
  const auto parts = stretches(examples, tallies, small, together, made.most_values);
  const auto keep = [&](const Stretch& one, const Array& array) {
    made.rows.add(array, one.centroids);
    made.ranges.emplace_back(one.first, one.labels);
  };
  if (together) {
    for (const Stretch& one : parts)
      keep(one, add_sums(graph, all.bucket(0), all.size(0), one, examples.features(), false));
    return made;
  }
  std::vector<BucketSize> sizes;
  for (const Stretch& one : parts) sizes.push_back(one.points.size());
  for (std::size_t first = 0; first < parts.size();) {
    const std::size_t n = at_a_time(graph, std::span(sizes).subspan(first));
    auto maps = std::make_shared<BucketMaps>(1, std::vector<std::int32_t>(tallies.size() - 1, -1));
    for (std::size_t b = 0; b < n; ++b)
      std::fill_n((*maps)[0].begin() + parts[first + b].first, parts[first + b].labels, static_cast<std::int32_t>(b));
    const std::vector<BucketSize> these(sizes.begin() + static_cast<std::ptrdiff_t>(first),
                                        sizes.begin() + static_cast<std::ptrdiff_t>(first + n));
    const auto buckets = fill_buckets(graph, JoinedPanels(examples), these, maps, examples.who);
    for (std::size_t b = 0; b < n; ++b)
      keep(parts[first + b], add_sums(graph, buckets[b], these[b], parts[first + b], examples.features(), true));
    first += n;
  }
  return made;
}

}  // namespace flagstone::labels
