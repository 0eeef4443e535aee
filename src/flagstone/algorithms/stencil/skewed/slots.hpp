#pragma once
// Which working array holds which version of a field that is changed in place.
#include <optional>

#include "flagstone/algorithms/stencil/schedules/versions.hpp"

namespace flagstone::stencil {

/// Version i of a field lies in slot i mod s of its s slots. All levels reach h points, and tiles lean back by h a
/// level: so whoever still reads version i where version i + 2 is made lies in an earlier tile or at an earlier level,
/// and two slots are enough, for stages as for steps. A field with m > 1 versions a step has m + 1 of them where
/// somebody compares a step with the one before.
class Slots {
 public:
  explicit Slots(const Problem& problem);

  const Versions& versions() const { return versions_; }
  /// Of all fields, one field's beside each other.
  std::size_t number() const { return field_.size(); }
  std::size_t field(std::size_t slot) const { return field_[slot]; }
  /// Which one holds a field after a level of a superstep; after none: what the superstep begins with.
  std::size_t after(std::size_t field, Index level) const { return turned(first_[field], versions_made(field, level)); }
  /// A slot of a superstep that begins after so many levels, counted from the loop's own first level.
  std::size_t of_loop(std::size_t slot, Index levels) const {
    return turned(slot, versions_made(field_[slot], levels));
  }
  /// The state that a slot holds before the first level; of order 2 the step before, too.
  std::optional<std::size_t> begins(std::size_t slot) const;
  /// Where a state lies after so many levels.
  std::size_t result(std::size_t state, Index levels) const;
  /// The last level of a superstep of so many levels at which a later tile reads what an earlier one left in a slot:
  /// the last one, or the one before (that or an earlier one: cells of working arrays have no other edges there).
  Index last_read(std::size_t slot, Index levels) const;

 private:
  Index versions_made(std::size_t field, Index levels) const;
  Index level_of(std::size_t field, Index version) const;
  std::size_t turned(std::size_t slot, Index by) const {
    const auto first = static_cast<Index>(first_[field_[slot]]), own = static_cast<Index>(slot) - first;
    return static_cast<std::size_t>(first + (own + by) % size_[field_[slot]]);
  }

  Versions versions_;
  bool systems_;
  std::size_t orders_ = 1;                  // of each field: states that lie in its slots at the start
  std::vector<std::size_t> field_;          // of each slot
  std::vector<std::size_t> first_;          // slot of each field
  std::vector<Index> size_;                 // of each field
  std::vector<std::vector<Index>> stages_;  // of each field: at which levels of a step it is replaced
};

}  // namespace flagstone::stencil
