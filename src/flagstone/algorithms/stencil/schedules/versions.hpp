#pragma once
// Which level of a superstep replaces which field, and which level's values a reader finds.
#include <vector>

#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// A level is a stage of a step (of one field: a step). Level 0 is what the superstep begins with, of all fields. What
/// no stage replaces, and what a source changes after a step, is carried over by the last stage: so each field has a
/// new version every `stages()` levels at least, and what is read within a step is never changed by a source.
class Versions {
 public:
  explicit Versions(const Problem& problem);

  Index stages() const { return static_cast<Index>(replaced_.size()); }
  std::size_t fields() const { return all_.size(); }
  /// Fields that have a new version at a level, and which of them one is.
  const std::vector<std::size_t>& replaced(Index level) const {
    return level == 0 ? all_ : replaced_[static_cast<std::size_t>((level - 1) % stages())];
  }
  std::size_t place(Index level, std::size_t field) const;
  /// The last level, up to this one, that replaced a field.
  Index version(std::size_t field, Index level) const;
  /// After how many levels nobody reads a version any more: the step after the one that it is of compares both.
  Index age() const { return 2 * stages() - 1; }
  /// How far a level reaches, along each axis: the farthest of the stages.
  const Axes& radius() const { return radius_; }

 private:
  std::vector<std::size_t> all_;
  std::vector<std::vector<std::size_t>> replaced_;  // of each stage
  Axes radius_{};
};

}  // namespace flagstone::stencil
