#include "flagstone/algorithms/forest/forest_pass.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace flagstone::forest {
namespace {

float weight(const kernel::ChunkView& view, Index entry) {
  if (view.scales) return static_cast<float>(static_cast<std::int8_t>(view.weights[entry])) * view.scales[0];
  float value = 0;
  std::memcpy(&value, view.weights + 4 * entry, 4);
  return value;
}

}  // namespace

void RoutePass::begin(std::span<const Tile> tiles) const {
  std::fill_n(tiles[static_cast<std::size_t>(out)].as<Reached>(), points.rows() * slots(), Reached{0, 0});
}

void RoutePass::meet(const Meeting& met, const Tile& to) const {
  const Index next = met.chunk.first + (met.products[0] > 0 ? 1 : 0);
  to.as<Reached>()[met.pair.row * slots() + met.pair.slot] = {static_cast<std::int32_t>(next), 0};
}

void LeafPass::begin(std::span<const Tile> tiles) const {
  std::fill_n(tiles[static_cast<std::size_t>(out)].as<Reached>(), points.rows() * slots() * model->most_leaf,
              Reached{});
}

void LeafPass::meet(const Meeting& met, const Tile& to) const {
  auto* found = to.as<Reached>() + (met.pair.row * slots() + met.pair.slot) * model->most_leaf;
  std::int32_t label = 0;
  Index entry = 0;
  for (Index r = 0; r < met.view.rows; ++r) {
    label += met.view.steps[r];
    if (met.view.counts[r] > 0) found[entry] = {label, weight(met.view, entry)}, ++entry;
  }
}

void TailPass::begin(std::span<const Tile> tiles) const {
  const Index n = points.rows() * slots();
  const auto* from = tiles[static_cast<std::size_t>(in)].as<const Reached>();
  auto* to = tiles[static_cast<std::size_t>(out)].as<Reached>();
  std::copy_n(from, n, to);
}

void TailPass::open(const kernel::ChunkView& view) const {
  square_ = 0;
  Index entries = 0;
  for (Index r = 0; r < view.rows; ++r) entries += view.counts[r];
  for (Index e = 0; e < entries; ++e) square_ += std::pow(static_cast<double>(weight(view, e)), 2);
}

void TailPass::meet(const Meeting& met, const Tile& to) const {
  const double far = gamma * (square_ + 1 - 2 * static_cast<double>(met.products[0]));
  const double tail = -(far > 0 ? far + std::log1p(std::exp(-far)) : std::log1p(std::exp(far)));
  const Index place = met.pair.row * slots() + met.pair.slot;
  const double leaves = std::log(static_cast<double>(met.reached[place].score));
  to.as<Reached>()[place].score = static_cast<float>(std::exp(alpha * leaves + (1 - alpha) * tail));
}

}  // namespace flagstone::forest
