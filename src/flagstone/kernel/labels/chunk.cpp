#include "flagstone/kernel/labels/chunk.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace flagstone::kernel {
namespace {

constexpr double most_int8 = 127;

void store(ChunkTarget& to, Index child, double weight, double scale) {
  to.child[to.entries] = static_cast<std::uint8_t>(child);
  if (to.scales) {
    const auto small = static_cast<std::int8_t>(std::lround(weight / scale));
    std::memcpy(to.weights + to.entries, &small, 1);
  } else {
    const auto narrow = static_cast<float>(weight);
    std::memcpy(to.weights + 4 * to.entries, &narrow, 4);
  }
  ++to.entries;
}

/// Ends the row of a feature whose entries were stored since `before`; `at`: the feature of the row before it.
void end_row(ChunkTarget& to, Index before, std::uint32_t& at, std::uint32_t feature) {
  if (to.entries == before) return;
  std::uint32_t step = feature - at;
  for (; step > most_step; step -= most_step) to.steps[to.rows] = most_step, to.counts[to.rows++] = 0;
  to.steps[to.rows] = static_cast<std::uint16_t>(step);
  to.counts[to.rows++] = static_cast<std::uint8_t>(to.entries - before);
  at = feature;
}

/// Of a column whose largest weight this is, as it is stored.
double scale_of(double most) { return most > 0 ? static_cast<double>(static_cast<float>(most / most_int8)) : 1; }

}  // namespace

Index most_rows(Index locals, Index cols) { return locals + cols / static_cast<Index>(most_step) + 1; }

void encode_chunk(const std::uint32_t* features, Index locals, const double* w, Index children, double threshold,
                  ChunkTarget& to) {
  std::vector<double> scales(static_cast<std::size_t>(children), 1.0);
  if (to.scales)
    for (Index c = 0; c < children; ++c) {
      double most = 0;
      for (Index l = 0; l < locals; ++l) most = std::max(most, std::abs(w[c * locals + l]));
      scales[static_cast<std::size_t>(c)] = scale_of(most);
      to.scales[c] = static_cast<float>(scales[static_cast<std::size_t>(c)]);
    }
  std::uint32_t at = 0;
  for (Index l = 0; l < locals; ++l) {
    const Index before = to.entries;
    for (Index c = 0; c < children; ++c) {
      const double weight = w[c * locals + l], scale = scales[static_cast<std::size_t>(c)];
      if (!(std::abs(weight) > threshold)) continue;
      if (to.scales && std::lround(weight / scale) == 0) continue;
      store(to, c, weight, scale);
    }
    end_row(to, before, at, features[l]);
  }
}

void encode_entries(const std::uint64_t* places, const float* weights, Index entries, Index children, ChunkTarget& to) {
  std::vector<double> scales(static_cast<std::size_t>(children), 0.0);
  const auto child_of = [&](Index e) { return static_cast<Index>(places[e] % child_places); };
  for (Index e = 0; to.scales && e < entries; ++e) {
    double& most = scales[static_cast<std::size_t>(child_of(e))];
    most = std::max(most, std::abs(static_cast<double>(weights[e])));
  }
  for (Index c = 0; to.scales && c < children; ++c) {
    double& scale = scales[static_cast<std::size_t>(c)];
    to.scales[c] = static_cast<float>(scale = scale_of(scale));
  }
  std::uint32_t at = 0;
  for (Index e = 0; e < entries;) {
    const std::uint64_t feature = places[e] / child_places;
    const Index before = to.entries;
    for (; e < entries && places[e] / child_places == feature; ++e) {
      const auto weight = static_cast<double>(weights[e]);
      const double scale = scales[static_cast<std::size_t>(child_of(e))];
      if (weight == 0 || (to.scales && std::lround(weight / scale) == 0)) continue;
      store(to, child_of(e), weight, scale);
    }
    end_row(to, before, at, static_cast<std::uint32_t>(feature));
  }
}

void ChunkTable::load(const ChunkView& chunk) {
  chunk_ = chunk;
  std::uint32_t feature = 0, end = 0;
  ends_[0] = 0;
  for (Index r = 0; r < chunk.rows; ++r) {
    feature += chunk.steps[r], end += chunk.counts[r];
    ends_[r + 1] = end;
    if (chunk.counts[r] > 0) table_[feature] = static_cast<std::uint32_t>(r) + 1;
  }
}

void ChunkTable::clear() {
  std::uint32_t feature = 0;
  for (Index r = 0; r < chunk_.rows; ++r) feature += chunk_.steps[r], table_[feature] = 0;
}

template <class Column>
void ChunkTable::products(const Column* columns, const float* values, Index n, float scale, Index bias,
                          float* z) const {
  std::fill_n(z, chunk_.children, 0.0F);
  const auto row = [&](Index feature, float value, const auto* weights) {
    const std::uint32_t r = table_[feature];
    if (r == 0) return;
    for (std::uint32_t e = ends_[r - 1]; e < ends_[r]; ++e)
      z[chunk_.child[e]] += static_cast<float>(weights[e]) * value;
  };
  const auto all = [&](const auto* weights) {
    for (Index p = 0; p < n; ++p) row(static_cast<Index>(columns[p]), scale * values[p], weights);
    row(bias, 1, weights);
  };
  if (!chunk_.scales) return all(reinterpret_cast<const float*>(chunk_.weights));
  all(reinterpret_cast<const std::int8_t*>(chunk_.weights));
  for (Index c = 0; c < chunk_.children; ++c) z[c] *= chunk_.scales[c];
}

template void ChunkTable::products(const std::uint16_t*, const float*, Index, float, Index, float*) const;
template void ChunkTable::products(const std::uint32_t*, const float*, Index, float, Index, float*) const;
template void ChunkTable::products(const std::uint64_t*, const float*, Index, float, Index, float*) const;

}  // namespace flagstone::kernel
