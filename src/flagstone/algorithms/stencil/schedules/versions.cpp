#include "flagstone/algorithms/stencil/schedules/versions.hpp"

#include <algorithm>

#include "flagstone/algorithms/stencil/field/field_stage.hpp"

namespace flagstone::stencil {

Versions::Versions(const Problem& problem) : all_{0}, replaced_{{0}}, radius_(problem.space.radius) {
  if (!problem.fields()) return;
  all_.clear(), replaced_.clear(), radius_ = {};
  std::vector<bool> ever(problem.order());
  for (const auto& stage : problem.stages) {
    std::vector<std::size_t>& fields = replaced_.emplace_back();
    for (const auto& [field, value] : stage->replaced()) fields.push_back(field), ever[field] = true;
    for (std::size_t d = 0; d < 3; ++d) radius_[d] = std::max(radius_[d], stage->radius()[d]);
  }
  std::vector<std::size_t>& last = replaced_.back();
  for (std::size_t field = 0; field < problem.order(); ++field) {
    all_.push_back(field);
    const auto adds = [&](const Source& source) { return source.field == field; };
    const bool carried = !ever[field] || std::ranges::any_of(problem.sources, adds);
    if (carried && std::ranges::find(last, field) == last.end()) last.push_back(field);
  }
}

std::size_t Versions::place(Index level, std::size_t field) const {
  const std::vector<std::size_t>& fields = replaced(level);
  return static_cast<std::size_t>(std::ranges::find(fields, field) - fields.begin());
}

Index Versions::version(std::size_t field, Index level) const {
  while (level > 0 && place(level, field) == replaced(level).size()) --level;
  return level;
}

}  // namespace flagstone::stencil
