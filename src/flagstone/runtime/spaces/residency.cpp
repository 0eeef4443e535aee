#include "flagstone/runtime/spaces/residency.hpp"

#include <algorithm>
#include <numeric>

namespace flagstone {

Shape packed_like(const Shape& strides, const Shape& extents, std::size_t item) {
  Shape order(extents.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto stride = [&](Index d) { return std::abs(strides[static_cast<std::size_t>(d)]); };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return stride(a) > stride(b); });
  Shape packed(extents.size());
  auto next = static_cast<Index>(item);
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    packed[static_cast<std::size_t>(*d)] = next;
    next *= std::max<Index>(1, extents[static_cast<std::size_t>(*d)]);
  }
  return packed;
}

SpaceStatistics Residency::statistics() const {
  SpaceStatistics now = counts;
  now.budget = arena_.capacity();
  now.peak = arena_.peak();
  return now;
}

void Residency::drop(Copy& copy) {
  dequeue(copy);
  at_.erase(copy.offset);
  arena_.give(copy.offset);
  copy.state = Copy::State::invalid;
}

void Residency::dequeue(Copy& copy) {
  if (!std::exchange(copy.queued, false)) return;
  (copy.queued_dirty ? dirty_ : clean_).erase(&copy);
}

void Residency::queue(Copy& copy, std::uint64_t next_use, bool dirty) {
  dequeue(copy);
  copy.queued = true;
  copy.queued_dirty = dirty;
  copy.queued_at = next_use;
  copy.queued_as = ++queued_;
  (dirty ? dirty_ : clean_).insert(&copy);
}

std::vector<Copy*> Residency::window(std::uint64_t bytes, bool dirty_too) const {
  const auto cost = [&](std::uint64_t offset) -> std::optional<std::uint64_t> {
    const auto found = at_.find(offset);
    if (found == at_.end() || !found->second->queued) return std::nullopt;
    const Copy& copy = *found->second;
    if (copy.queued_dirty && !dirty_too) return std::nullopt;
    const bool again = copy.queued_at != unused;  // costs: bytes that go out, and those that come in again
    return 1 + arena_.bytes_of(offset) * ((copy.queued_dirty ? 1 : 0) + (again ? 1 : 0));
  };
  std::vector<Copy*> copies;
  if (const auto blocks = arena_.cheapest_window(bytes, cost))
    for (const std::uint64_t offset : *blocks) copies.push_back(at_.at(offset));
  return copies;
}

}  // namespace flagstone
