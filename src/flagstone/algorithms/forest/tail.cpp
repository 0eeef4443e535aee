#include "flagstone/algorithms/forest/tail.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/algorithms/labels/counts.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::forest {

labels::EncodedSize TailMeans::encoded(Index label) const {
  const Index n = most[static_cast<std::size_t>(label)];
  return {kernel::most_rows(n, features), n, 1, small_weights};
}

std::size_t TailMeans::offset(Index label) const {
  std::size_t at = 0;
  for (Index l = 0; l < label; ++l) at += align_up(encoded(l).bytes(), 64);
  return at;
}

std::size_t TailMeans::scratch_bytes() const {
  const auto width = static_cast<std::size_t>(features);
  return align_up(16 * width, 64) + align_up(4 * width, 64) + align_up(8 * width, 64) +
         align_up(8 * static_cast<std::size_t>(labels() + 2), 64) +
         align_up(8 * static_cast<std::size_t>(size.keys), 64) + align_up(8 * static_cast<std::size_t>(size.rows), 64);
}

void TailMeans::run(std::span<const Tile> tiles) const {
  const labels::BucketView view = labels::bucket_view(tiles[0], size);
  std::byte* at = tiles.back().data;
  const auto take = [&]<class T>(T*, Index n) {
    return reinterpret_cast<T*>(std::exchange(at, at + align_up(static_cast<std::size_t>(n) * sizeof(T), 64)));
  };
  auto* sums = take(static_cast<double*>(nullptr), 2 * features);
  auto* means = sums + features;
  auto* columns = take(static_cast<std::uint32_t*>(nullptr), features);
  auto* listed = take(static_cast<Index*>(nullptr), features);  // behind the last label that has the column
  auto* starts = take(static_cast<Index*>(nullptr), labels() + 2);
  auto* points = take(static_cast<Index*>(nullptr), size.keys);
  auto* lengths = take(static_cast<double*>(nullptr), size.rows);
  const auto each = [&](auto&& use) {
    for (Index i = 0; i < view.rows; ++i)
      for (Index k = view.key_pointers[i]; k < view.key_pointers[i + 1]; ++k)
        if (const Index l = view.keys[k] - first; l >= 0 && l < labels()) use(l, i);
  };
  std::fill_n(starts, labels() + 2, Index{0}), std::fill_n(sums, features, 0.0);
  std::fill_n(listed, features, Index{0});
  each([&](Index l, Index) { ++starts[l + 2]; });
  std::partial_sum(starts, starts + labels() + 2, starts);
  each([&](Index l, Index i) { points[starts[l + 1]++] = i; });
  for (Index i = 0; i < view.rows; ++i) {
    double square = 0;
    for (Index p = view.points.pointers[i]; p < view.points.pointers[i + 1]; ++p)
      square += static_cast<double>(view.points.values[p]) * static_cast<double>(view.points.values[p]);
    lengths[i] = square > 0 ? std::sqrt(square) : 1;
  }
  std::byte* to = tiles[1].data;
  for (Index l = 0; l < labels(); ++l) {
    Index n = 0;
    for (Index s = starts[l]; s < starts[l + 1]; ++s)
      for (Index p = view.points.pointers[points[s]]; p < view.points.pointers[points[s] + 1]; ++p) {
        const std::uint32_t column = view.points.columns[p];
        if (std::exchange(listed[column], l + 1) != l + 1) columns[n++] = column;
        sums[column] += static_cast<double>(view.points.values[p]) / lengths[points[s]];
      }
    std::sort(columns, columns + n);
    const double number = static_cast<double>(std::max<Index>(1, starts[l + 1] - starts[l]));
    for (Index p = 0; p < n; ++p) means[p] = std::exchange(sums[columns[p]], 0.0) / number;
    const labels::EncodedSize room = encoded(l);
    kernel::ChunkTarget target = room.target(to);
    kernel::encode_chunk(columns, n, means, 1, 0, target);
    labels::EncodedSize::note(to, target);
    to += align_up(room.bytes(), 64);
  }
}

namespace {

/// Labels [first, first + n), and what of them a stretch of a task holds.
struct Stretch {
  Index first = 0, n = 0;
  labels::Tally points;
};

/// As many labels as have at most `small` values in their means, and where `apart` in their points.
std::vector<Stretch> stretches(const Tails& tails, bool apart) {
  std::vector<Stretch> made;
  Index held = 0;
  const auto small = static_cast<double>(tails.small);
  for (std::size_t l = 0; l + 1 < tails.tallies.size(); ++l) {
    const labels::Tally& own = tails.tallies[l];
    const Index most = std::min(tails.features, static_cast<Index>(own.values));
    const bool fits =
        !made.empty() && held + most <= tails.small && (!apart || made.back().points.values + own.values <= small);
    if (!fits) made.push_back({static_cast<Index>(l), 0, {}}), held = 0;
    Stretch& last = made.back();
    ++last.n, held += most;
    last.points.points += own.points, last.points.values += own.values, last.points.keys += own.keys;
  }
  return made;
}

void add_stretch(Graph& graph, const Array& bucket, const labels::BucketSize& size, const Tails& tails,
                 const Stretch& stretch, bool done) {
  auto value = std::make_shared<TailMeans>();
  value->size = size, value->features = tails.features, value->first = stretch.first;
  value->small_weights = tails.small_weights;
  for (Index l = stretch.first; l < stretch.first + stretch.n; ++l)
    value->most.push_back(
        std::min(tails.features, static_cast<Index>(tails.tallies[static_cast<std::size_t>(l)].values)));
  const Shape shape{static_cast<Index>(value->offset(value->labels()))};
  const Array means = graph.temporary(shape, Dtype::uint8, shape);
  const Access points = read({bucket, whole(bucket.shape())});
  TaskSpec task;
  task.name = "label_means";
  task.accesses = {done ? last(points) : again(points), again(write({means, whole(shape)})),
                   scratch(value->scratch_bytes())};
  const double each = size.rows > 0 ? static_cast<double>(size.keys) / static_cast<double>(size.rows) : 0;
  task.cost = labels::seconds_of(labels::value_seconds * 2 * each * static_cast<double>(size.values));
  task.calls = {Call(Kernel::train_node, Dtype::float64, {TilePart{0}})};
  task.calls[0].value = value;
  graph.add(std::move(task));
  graph.await({last(read({means, whole(shape)}))}, [&](std::span<const Tile> tiles) {
    std::size_t at = 0;
    for (Index l = 0; l < value->labels(); ++l) {
      labels::Chunk chunk{labels::tail_level, 0, value->first + l};
      chunk.children = 1;
      tails.keep(chunk, value->encoded(l), tiles[0].data + at);
      at += align_up(value->encoded(l).bytes(), 64);
    }
  });
}

/// sums[label] += x / ‖x‖ of its points, of labels first, first + 1, ...
struct SumPoints final : labels::NodeTask {
  SumPoints(const labels::Examples& examples, std::size_t panel) : points(examples, panel) {}
  labels::JoinedPanel points;
  Index first = 0, n = 0, features = 0;
  int sums = -1;

  void run(std::span<const Tile> tiles) const override {
    auto* to = reinterpret_cast<double*>(tiles[static_cast<std::size_t>(sums)].data);
    points.each(tiles, tiles.back().data, [&](const labels::JoinedRow& row) {
      double square = 0;
      row.each([&](std::uint32_t, float value) { square += static_cast<double>(value) * static_cast<double>(value); });
      const double length = square > 0 ? std::sqrt(square) : 1;
      for (Index k = 0; k < row.keys; ++k)
        if (const Index l = row.labels[k] - first; l >= 0 && l < n)
          row.each([&](std::uint32_t column, float value) {
            to[l * features + column] += static_cast<double>(value) / length;
          });
    });
  }
};

/// Means of labels by sums of all features. Returns the reads.
Index add_sums(Graph& graph, const labels::Examples& examples, const Tails& tails, const Stretch& stretch) {
  const double each = 8 * static_cast<double>(tails.features) * (4.0 + graph.workers());
  const double fit = 0.4 * static_cast<double>(graph.budget()) / each;
  const Index most = std::max<Index>(1, static_cast<Index>(std::min(fit, static_cast<double>(stretch.n))));
  Index reads = 0;
  for (Index first = stretch.first; first < stretch.first + stretch.n; first += most, ++reads) {
    const Index n = std::min(most, stretch.first + stretch.n - first);
    const Array sums = graph.allocate({n, tails.features}, Dtype::float64);
    for (std::size_t p = 0; p < examples.x.panels.size(); ++p) {
      auto value = std::make_shared<SumPoints>(examples, p);
      value->first = first, value->n = n, value->features = tails.features;
      TaskSpec task;
      task.name = "sum_points";
      value->points.access(task.accesses);
      value->sums = static_cast<int>(task.accesses.size());
      task.accesses.push_back(reduce({sums, whole(sums.shape())}));
      task.accesses.push_back(scratch(value->points.scratch_bytes()));
      task.cost = value->points.cost();
      task.calls = {Call(Kernel::train_node, Dtype::float64, {TilePart{0}})};
      task.calls[0].value = std::move(value);
      graph.add(std::move(task));
    }
    graph.barrier();
    const labels::EncodedSize size{kernel::most_rows(tails.features, tails.features), tails.features, 1,
                                   tails.small_weights};
    const Charge held = graph.charge(size.bytes() + 4 * static_cast<std::uint64_t>(tails.features));
    if (graph.planning()) continue;
    std::vector<std::byte> tile(size.bytes());
    std::vector<std::uint32_t> columns(static_cast<std::size_t>(tails.features));
    std::iota(columns.begin(), columns.end(), 0U);
    for (Index l = first; l < first + n; ++l) {
      double* sum = elements_of<double>(sums).data() + (l - first) * tails.features;
      const double number = std::max(1.0, tails.tallies[static_cast<std::size_t>(l)].points);
      std::for_each_n(sum, tails.features, [&](double& one) { one /= number; });
      kernel::ChunkTarget to = size.target(tile.data());
      kernel::encode_chunk(columns.data(), tails.features, sum, 1, 0, to);
      labels::EncodedSize::note(tile.data(), to);
      labels::Chunk chunk{labels::tail_level, 0, l};
      chunk.children = 1;
      tails.keep(chunk, size, tile.data());
    }
  }
  return reads;
}

}  // namespace

void add_tails(Graph& graph, const Array& bucket, const labels::BucketSize& size, const Tails& tails) {
  for (const Stretch& one : stretches(tails, false)) add_stretch(graph, bucket, size, tails, one, false);
}

Index add_wide_tails(Graph& graph, const labels::Examples& examples, const Tails& tails) {
  const std::vector<Stretch> parts = stretches(tails, true);
  const auto wide = [&](std::size_t part) { return parts[part].points.values > static_cast<double>(tails.small); };
  Index reads = 0;
  for (std::size_t first = 0; first < parts.size(); ++reads) {
    if (wide(first)) {
      reads += add_sums(graph, examples, tails, parts[first++]) - 1;
      continue;
    }
    std::vector<labels::BucketSize> sizes;
    for (std::size_t s = first; s < parts.size() && !wide(s); ++s) sizes.push_back(parts[s].points.size());
    sizes.resize(labels::at_a_time(graph, sizes));
    auto maps = std::make_shared<labels::BucketMaps>(1, std::vector<std::int32_t>(tails.tallies.size() - 1, -1));
    for (std::size_t b = 0; b < sizes.size(); ++b)
      std::fill_n((*maps)[0].begin() + parts[first + b].first, parts[first + b].n, static_cast<std::int32_t>(b));
    const auto buckets = labels::fill_buckets(graph, labels::JoinedPanels(examples), sizes, maps, examples.who);
    for (std::size_t b = 0; b < sizes.size(); ++b)
      add_stretch(graph, buckets[b], sizes[b], tails, parts[first + b], true);
    first += sizes.size();
  }
  return reads;
}

}  // namespace flagstone::forest
