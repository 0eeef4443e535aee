#include "flagstone/runtime/graph/reduction.hpp"

#include <algorithm>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

bool same(const Region& a, const Region& b) { return a.array.id() == b.array.id() && a.box == b.box; }

bool touches(const Access& access, const Region& region) {
  return access.mode != Mode::scratch && access.mode != Mode::reduce && access.region.array.id() == region.array.id() &&
         overlap(access.region.box, region.box);
}

}  // namespace

std::function<void()> Reduction::prepare(TaskSpec& task) {
  for (std::size_t i = 0; i < sums_.size();) {
    const Region target = sums_[i].target;
    const bool needed = std::any_of(task.accesses.begin(), task.accesses.end(),
                                    [&](const Access& access) { return touches(access, target); });
    if (needed) {
      Sum sum = std::move(sums_[i]);
      sums_.erase(sums_.begin() + static_cast<std::ptrdiff_t>(i));
      finish(sum);
    } else {
      ++i;
    }
  }
  std::vector<std::size_t> places;
  std::vector<std::pair<Region, Region>> made;  // target, private tile
  for (std::size_t i = 0; i < task.accesses.size(); ++i) {
    Access& access = task.accesses[i];
    if (access.mode != Mode::reduce) continue;
    const Dtype dtype = access.region.array.dtype();
    if (dtype < Dtype::float32)
      throw ShapeError("reduce: " + std::string(name_of(dtype)) + " tiles do not add up; use float or complex.");
    const Shape& shape = access.region.box.shape;
    Region tile{graph_.temporary(shape, dtype, shape), whole(shape)};
    made.emplace_back(access.region, tile);
    access = again(write(tile));
    places.push_back(i);
  }
  if (places.empty()) return {};
  std::vector<Call> zeros;
  for (std::size_t place : places)
    zeros.push_back(call::zero(task.accesses[place].region.array.dtype(), {static_cast<std::uint32_t>(place)}));
  task.calls.insert(task.calls.begin(), zeros.begin(), zeros.end());
  return [this, made] {
    for (const auto& [target, tile] : made) {
      auto sum = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& s) { return same(s.target, target); });
      if (sum == sums_.end()) sum = sums_.insert(sums_.end(), {target, {}});
      sum->partials.push_back({tile, 0});
      merge_equal(*sum);
    }
  };
}

void Reduction::merge_equal(Sum& sum) {
  auto& partials = sum.partials;
  while (partials.size() > 1 && partials.back().level == partials[partials.size() - 2].level) {
    const Region from = partials.back().tile;
    partials.pop_back();
    add_into(from, again(update(partials.back().tile)));
    ++partials.back().level;
  }
}

void Reduction::finish(Sum& sum) {
  auto& partials = sum.partials;
  while (!partials.empty()) {
    const Region from = partials.back().tile;
    partials.pop_back();
    add_into(from, partials.empty() ? update(sum.target) : again(update(partials.back().tile)));
  }
}

void Reduction::finish() {
  for (Sum& sum : std::exchange(sums_, {})) finish(sum);
}

void Reduction::add_into(const Region& from, Access to) {
  TaskSpec merge;
  merge.name = "merge";
  merge.accesses = {last(read(from)), std::move(to)};
  merge.calls = {call::add(from.array.dtype(), {0}, {1})};
  const auto elements = static_cast<double>(count(from.box.shape));
  merge.cost.bytes_touched = 4 * elements * static_cast<double>(size_of(from.array.dtype()));
  merge.priority = 1;  // frees a tile
  add_(std::move(merge));
}

}  // namespace flagstone
