#include "flagstone/algorithms/cluster/panel_work.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/base/real_types.hpp"

namespace flagstone::cluster {
namespace {

bool before(const Far& a, const Far& b) { return a.square > b.square || (a.square == b.square && a.row < b.row); }

}  // namespace

void PassTiles::offer(const Far& far) const {
  if (few == 0 || (farthest[few - 1].row >= 0 && !before(far, farthest[few - 1]))) return;
  Index at = few - 1;
  for (; at > 0 && (farthest[at - 1].row < 0 || before(far, farthest[at - 1])); --at) farthest[at] = farthest[at - 1];
  farthest[at] = far;
}

double Weights::at(Index i) const {
  if (tile == nullptr) return 1;
  double weight = 0;
  visit_real_type(tile->dtype, [&](auto sample) {
    decltype(sample) value;
    std::memcpy(&value, tile->data + i * tile->strides[0], sizeof value);
    weight = static_cast<double>(value);
  });
  if (!(weight >= 0) || !std::isfinite(weight))
    throw NumericalError(who + ": the weight of row " + std::to_string(first_row + i) + " is " +
                         std::to_string(weight) + "; finite numbers of 0 or more are needed.");
  return weight;
}

void count_point(const PassTiles& to, Index row, double weight, Index label, double square, double spread) {
  if (!(weight > 0)) return;  // nor does it count where its square is infinite
  to.totals[label] += weight;
  to.total(Total::inertia) += weight * square;
  to.total(Total::spread) += weight * spread;
  to.offer({square, static_cast<double>(row), static_cast<double>(label), weight});
}

void draw_points(const DrawTiles& to, Index n, const std::int32_t* labels, const double* squares, Index base,
                 const Weights& weights, Index first, const kernel::Stream& stream, std::uint64_t first_row) {
  std::vector<std::uint64_t> words(to.keys ? static_cast<std::size_t>(n) : 0);
  if (to.keys) kernel::random_words(stream, first_row, n, words.data());
  for (Index i = 0; i < n; ++i) {
    double *square = to.state + 2 * i, *nearest = square + 1;
    if (labels == nullptr) {
      *square = std::numeric_limits<double>::infinity(), *nearest = -1;
    } else if (squares[i] < *square) {
      *square = squares[i], *nearest = static_cast<double>(base + labels[i]);
    }
    const double weight = weights.at(first + i);
    if (to.counts && *nearest >= 0) to.counts[static_cast<Index>(*nearest)] += weight;
    if (!to.keys) continue;
    const double chance = weight * (labels == nullptr ? 1 : *square);
    const double uniform = (static_cast<double>(words[static_cast<std::size_t>(i)] >> 11) + 0.5) * 0x1p-53;
    to.keys[i] = chance > 0 ? -std::log(uniform) / chance : std::numeric_limits<double>::infinity();
  }
}

std::vector<Index> least_keys(const double* keys, Index n, Index most) {
  std::vector<Index> places;  // a heap: the greatest key on top
  const auto less = [&](Index a, Index b) { return std::tuple(keys[a], a) < std::tuple(keys[b], b); };
  for (Index i = 0; i < n && most > 0; ++i) {
    if (!std::isfinite(keys[i])) continue;
    if (std::cmp_equal(places.size(), most)) {
      if (!less(i, places.front())) continue;
      std::pop_heap(places.begin(), places.end(), less);
      places.pop_back();
    }
    places.push_back(i);
    std::push_heap(places.begin(), places.end(), less);
  }
  std::sort_heap(places.begin(), places.end(), less);
  return places;
}

void merge_pool(const Tile& offers, const Tile& pool) {
  const Index most = pool.shape[0], width = pool.shape[1];
  const auto* offered = offers.as<const double>();
  auto* held = pool.as<double>();
  // Numbers below `most` are the pool's, others are offered.
  std::vector<Index> order(static_cast<std::size_t>(2 * most));
  std::iota(order.begin(), order.end(), Index{0});
  const auto at = [&](Index i) { return i < most ? held + i * width : offered + (i - most) * width; };
  std::sort(order.begin(), order.end(),
            [&](Index a, Index b) { return std::tuple(at(a)[0], at(a)[1], a) < std::tuple(at(b)[0], at(b)[1], b); });
  std::vector<Index> leaving, coming;
  for (Index i = 0; i < 2 * most; ++i) {
    const bool stays = i < most;
    if (stays == (order[static_cast<std::size_t>(i)] < most)) continue;
    (stays ? coming : leaving).push_back(order[static_cast<std::size_t>(i)]);
  }
  for (std::size_t i = 0; i < coming.size(); ++i) std::copy_n(at(coming[i]), width, held + leaving[i] * width);
}

void refuse_bad(const Asked& asked, Index row, Index column) {
  throw NumericalError(asked.who + ": " + asked.points + " has NaN or Inf at row " + std::to_string(row) + ", column " +
                       std::to_string(column) + "; finite values are needed, replace or drop them first.");
}

}  // namespace flagstone::cluster
