#include "flagstone/algorithms/stencil/field/step_reductions.hpp"

#include <algorithm>

namespace flagstone::stencil {

StepReductions::StepReductions(Dtype field, Index steps, Index points, const kernel::Axes& shape, ReductionWish wish)
    : dtype_(field), points_(points), shape_(shape), wish_(std::move(wish)) {
  for (const FoldKind kind : wish_.kinds)
    values_[kind].resize(static_cast<std::size_t>(steps) * size_of(kernel::dtype_of_fold(kind, dtype_)));
  for (const Criterion& criterion : wish_.until) numbers_[criterion.kind].resize(static_cast<std::size_t>(steps));
}

std::uint64_t StepReductions::bytes(Index steps, const ReductionWish& wish) {
  return static_cast<std::uint64_t>(steps) * 16 * (wish.kinds.size() + wish.until.size());
}

void StepReductions::add(Index step, const kernel::Points& from, const kernel::Points& to,
                         const kernel::Range3& range) {
  kernel::PointFold mine(dtype_, wish_.kinds, wish_.check);
  mine.add(from, to, range, shape_);
  std::lock_guard lock(mutex_);
  kernel::PointFold& fold = under_way_.try_emplace(step, dtype_, wish_.kinds, wish_.check).first->second;
  fold.merge(mine);
  if (fold.points() < points_) return;
  const auto at = static_cast<std::size_t>(step - 1);
  for (auto& [kind, values] : values_)
    fold.value(kind, values.data() + at * size_of(kernel::dtype_of_fold(kind, dtype_)));
  for (auto& [kind, numbers] : numbers_) numbers[at] = fold.number(kind);
  if (fold.first_not_finite() != kernel::PointFold::none && (!bad_ || step < bad_->step))
    bad_ = Bad{step, fold.first_not_finite()};
  under_way_.erase(step);
}

bool StepReductions::met(Index first, Index last) const {
  std::lock_guard lock(mutex_);
  for (const Criterion& criterion : wish_.until)
    for (Index step = first; step <= last; ++step)
      if (numbers_.at(criterion.kind)[static_cast<std::size_t>(step - 1)] <= criterion.most) return true;
  return false;
}

}  // namespace flagstone::stencil
