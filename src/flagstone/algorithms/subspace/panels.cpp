#include "flagstone/algorithms/subspace/panels.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

namespace flagstone::subspace {

Slots slots_for(const std::vector<Index>& widths, Index room) {
  const auto count = static_cast<Index>(widths.size());
  const Index whole = std::accumulate(widths.begin(), widths.end(), Index{0});
  Slots made;
  for (Index panels = std::max<Index>(1, room > 0 ? whole / room : count);; ++panels) {
    made.each = std::max<Index>(1, (count + panels - 1) / panels);
    made.begin.assign(static_cast<std::size_t>(made.each) + 1, 0);
    for (Index s = 0; s < count; ++s) {
      Index& width = made.begin[static_cast<std::size_t>(s % made.each) + 1];
      width = std::max(width, widths[static_cast<std::size_t>(s)]);
    }
    std::partial_sum(made.begin.begin(), made.begin.end(), made.begin.begin());
    if (made.begin.back() <= room || made.each == 1) return made;
  }
}

HeldBasis::HeldBasis(Graph& graph, const BlockBasis& z, std::vector<std::shared_ptr<const StripeAccess>> on_disk,
                     bool all_stored, std::uint64_t room)
    : graph_(graph), z_(z), on_disk_(std::move(on_disk)) {
  const BlockLayout& layout = z.layout;
  const Dtype dtype = z.values.front().dtype();
  const auto most = static_cast<Index>(room / size_of(dtype));
  for (Index s = 0; s < stripes(); ++s) {
    Index width = 0;
    for (Index g = layout.stripes[static_cast<std::size_t>(s)]; g < layout.stripes[static_cast<std::size_t>(s) + 1];
         ++g)
      width += layout.rows[static_cast<std::size_t>(g)] * layout.columns[static_cast<std::size_t>(g)];
    widths_.push_back(width);
  }
  if (!all_stored) cut_units();
  if (!units_.empty() && unit_begin_.back() > most) units_.clear();
  Index length = 1;
  if (units_.empty()) {
    slots_ = slots_for(widths_, most);
    length = std::max(length, slots_.begin.back());
    in_slot_.assign(static_cast<std::size_t>(slots_.each), -1);
    in_slots_.resize(in_slot_.size());
  } else {
    length = unit_begin_.back();
    loaded_.assign(units_.size(), false);
    in_slots_.resize(on_disk_.size());
  }
  memory_ = graph.allocate({length}, dtype);
}

/// Stored blocks that lie one behind the other, up to the bytes of a stripe.
void HeldBasis::cut_units() {
  std::set<Part> blocks;
  const BlockLayout& layout = z_.layout;
  for (Index g = 0; g < layout.groups(); ++g)
    if (layout.stored[static_cast<std::size_t>(g)] >= 0) blocks.insert(part_of(layout, g));
  const auto most = static_cast<Index>(stripe_bytes / size_of(z_.values.front().dtype()));
  for (const Part& block : blocks) {
    const bool behind = !units_.empty() && units_.back().file == block.file && units_.back().end == block.begin;
    if (behind && block.end - units_.back().begin <= most)
      units_.back().end = block.end;
    else
      units_.push_back(block);
  }
  unit_begin_.push_back(0);
  for (const Part& unit : units_) unit_begin_.push_back(unit_begin_.back() + unit.end - unit.begin);
}

std::shared_ptr<const StripeAccess> HeldBasis::held(Index stripe, Index first, Index handle) {
  if (!units_.empty()) return held_units(stripe, handle);
  const auto slot = static_cast<std::size_t>(stripe - first);
  if (in_slot_[slot] == stripe) return in_slots_[slot];
  const StripeAccess& disk = *on_disk_[static_cast<std::size_t>(stripe)];
  auto made = std::make_shared<StripeAccess>();
  made->parts.push_back({in_memory, slots_.begin[slot], slots_.begin[slot + 1]});
  std::vector<Copy> copies;
  Index at = 0;
  for (std::size_t k = 0; k < disk.of_group.size(); ++k) {
    const auto& [part, from] = disk.of_group[k];
    made->of_group.emplace_back(part < 0 ? -1 : 0, at);
    if (part < 0) continue;
    const auto g = static_cast<std::size_t>(z_.layout.stripes[static_cast<std::size_t>(stripe)]) + k;
    const Index count = z_.layout.rows[g] * z_.layout.columns[g];
    copies.push_back({static_cast<std::size_t>(part), from, at, count});
    at += count;
  }
  load(disk.parts, {{slots_.begin[slot]}, {slots_.begin[slot + 1] - slots_.begin[slot]}}, std::move(copies), handle);
  in_slot_[slot] = stripe;
  return in_slots_[slot] = std::move(made);
}

std::shared_ptr<const StripeAccess> HeldBasis::held_units(Index stripe, Index handle) {
  auto& known = in_slots_[static_cast<std::size_t>(stripe)];
  if (known) return known;
  const StripeAccess& disk = *on_disk_[static_cast<std::size_t>(stripe)];
  auto made = std::make_shared<StripeAccess>();
  std::vector<std::pair<std::int32_t, Index>> of_part;
  std::size_t last = units_.size();
  for (const Part& part : disk.parts) {  // ascending, as units are
    const auto behind = std::upper_bound(units_.begin(), units_.end(), part, [](const Part& x, const Part& unit) {
      return std::pair(x.file, x.begin) < std::pair(unit.file, unit.begin);
    });
    const auto u = static_cast<std::size_t>(behind - units_.begin()) - 1;
    const Index length = units_[u].end - units_[u].begin;
    if (!loaded_[u]) load({units_[u]}, {{unit_begin_[u]}, {length}}, {{0, 0, 0, length}}, handle), loaded_[u] = true;
    if (u != last) made->parts.push_back({in_memory, unit_begin_[u], unit_begin_[u] + length}), last = u;
    of_part.emplace_back(static_cast<std::int32_t>(made->parts.size()) - 1, part.begin - units_[u].begin);
  }
  for (const auto& [part, from] : disk.of_group) {
    if (part < 0) {
      made->of_group.emplace_back(-1, 0);
      continue;
    }
    const auto& [unit, at] = of_part[static_cast<std::size_t>(part)];
    made->of_group.emplace_back(unit, at + from);
  }
  return known = std::move(made);
}

void HeldBasis::load(const std::vector<Part>& parts, const Box& to, std::vector<Copy> copies, Index handle) {
  const auto files = static_cast<Index>(z_.layout.lengths.size());
  TaskSpec task;
  task.name = "project_load";
  for (const Part& part : parts) {
    const Array& file = z_.values[static_cast<std::size_t>(handle * files + part.file)];
    task.accesses.push_back(last(read({file, {{part.begin}, {part.end - part.begin}}})));
  }
  task.accesses.push_back(write({memory_, to}));
  task.cost.bytes_touched = 2.0 * static_cast<double>(to.shape[0]) * static_cast<double>(size_of(memory_.dtype()));
  task.body = [copies = std::move(copies)](std::span<const Tile> tiles) {
    const Tile& held = tiles.back();
    const std::size_t item = size_of(held.dtype);
    for (const Copy& copy : copies)
      std::memcpy(held.data + static_cast<std::size_t>(copy.to) * item,
                  tiles[copy.part].data + static_cast<std::size_t>(copy.from) * item,
                  static_cast<std::size_t>(copy.count) * item);
  };
  graph_.add(std::move(task));
}

}  // namespace flagstone::subspace
