#include "flagstone/algorithms/forest/tail.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/base/bytes.hpp"

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

}  // namespace flagstone::forest
