#include "flagstone/algorithms/stencil/skewed/slots.hpp"

#include <algorithm>

namespace flagstone::stencil {
namespace {

bool compares(const Problem& problem, std::size_t field) {
  if (field >= problem.reductions.size() || !problem.reductions[field]) return false;
  return std::ranges::find(problem.reductions[field]->wish().kinds, FoldKind::change) !=
         problem.reductions[field]->wish().kinds.end();
}

}  // namespace

Slots::Slots(const Problem& problem) : versions_(problem), systems_(problem.fields()), stages_(versions_.fields()) {
  for (Index level = 1; level <= versions_.stages(); ++level)
    for (const std::size_t field : versions_.replaced(level)) stages_[field].push_back(level);
  for (std::size_t field = 0; field < versions_.fields(); ++field) {
    const auto made = static_cast<Index>(stages_[field].size());
    first_.push_back(field_.size());
    size_.push_back(made > 1 && compares(problem, field) ? made + 1 : 2);
    field_.resize(field_.size() + static_cast<std::size_t>(size_.back()), field);
  }
  orders_ = systems_ ? 1 : problem.order();
}

std::optional<std::size_t> Slots::begins(std::size_t slot) const {
  const std::size_t own = slot - first_[field_[slot]];
  if (own >= orders_) return std::nullopt;
  return systems_ ? field_[slot] : own;
}

std::size_t Slots::result(std::size_t state, Index levels) const {
  return systems_ ? after(state, levels) : turned(state, levels);
}

Index Slots::last_read(std::size_t slot, Index levels) const {
  const std::size_t field = field_[slot];
  const Index size = size_[field], own = static_cast<Index>(slot - first_[field]);
  const Index newest = versions_made(field, levels), in_slot = newest - ((newest - own) % size + size) % size;
  // What lies there is read until its successor is made; without one until the end, but for what the last level made.
  const Index until = in_slot < newest ? level_of(field, in_slot + 1) : level_of(field, newest) < levels ? levels : 0;
  return std::max(until, levels - 1);
}

Index Slots::versions_made(std::size_t field, Index levels) const {
  const std::vector<Index>& own = stages_[field];
  const Index rest = levels % versions_.stages();
  return levels / versions_.stages() * static_cast<Index>(own.size()) +
         std::ranges::count_if(own, [&](Index level) { return level <= rest; });
}

Index Slots::level_of(std::size_t field, Index version) const {
  if (version < 1) return 0;
  const auto made = static_cast<Index>(stages_[field].size());
  return (version - 1) / made * versions_.stages() + stages_[field][static_cast<std::size_t>((version - 1) % made)];
}

}  // namespace flagstone::stencil
