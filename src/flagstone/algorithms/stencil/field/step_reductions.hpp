#pragma once
// What a time loop tells of every step: extremes, sums, changes; and when it may stop.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "flagstone/kernel/stencil/point_fold.hpp"

namespace flagstone::stencil {

using kernel::FoldKind;

/// Met at a step where the reduction is at most so much.
struct Criterion {
  FoldKind kind = FoldKind::change;
  double most = 0;
};

/// What is asked of every step.
struct ReductionWish {
  std::vector<FoldKind> kinds;  // told of, or in a criterion
  std::vector<Criterion> until;
  bool check = false;  // look for NaN and Inf
  bool empty() const { return kinds.empty() && !check; }
  /// Whether supersteps wait for each other.
  bool decides() const { return check || !until.empty(); }
};

/// Tasks add the points that they computed, each point of a step once; a step whose points are all there becomes a
/// value a kind. Thread-safe. No result depends on who comes first. 16 bytes a step and kind, and 2 KiB a step under
/// way.
class StepReductions {
 public:
  StepReductions(Dtype field, Index steps, Index points, const kernel::Axes& shape, ReductionWish wish);
  void add(Index step, const kernel::Points& from, const kernel::Points& to, const kernel::Range3& range);

  static std::uint64_t bytes(Index steps, const ReductionWish& wish);
  /// Values of all steps, dtype_of_fold(kind); of those that are not done 0. By one thread, where no task runs.
  std::vector<std::byte>& values(FoldKind kind) { return values_.at(kind); }
  /// Whether a criterion is met at a step of [first, last] (from 1), all of them done.
  bool met(Index first, Index last) const;
  struct Bad {
    Index step = 0, at = 0;
  };
  /// The first point that is no finite number, of the first step that has one.
  std::optional<Bad> first_bad() const { return bad_; }
  const ReductionWish& wish() const { return wish_; }

 private:
  Dtype dtype_;
  Index points_;
  kernel::Axes shape_;
  ReductionWish wish_;
  std::map<FoldKind, std::vector<std::byte>> values_;
  std::map<FoldKind, std::vector<double>> numbers_;  // of criteria
  std::optional<Bad> bad_;
  mutable std::mutex mutex_;
  std::map<Index, kernel::PointFold> under_way_;
};

}  // namespace flagstone::stencil
