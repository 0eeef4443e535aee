#pragma once
// What of Z stays in memory: all of it, or the stripes of one panel after the other.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "flagstone/algorithms/subspace/stripe_access.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::subspace {

/// Places of stripes in memory, one for each stripe of a panel: each as wide as the widest stripe that comes there.
struct Slots {
  Index each = 1;            // stripes of a panel; the last one may have fewer
  std::vector<Index> begin;  // elements, each + 1
};

/// The fewest panels of equally many stripes whose slots have at most `room` elements; one stripe each where none have.
/// Panels of one number of stripes: a process that has grown by some MiB cuts the same ones.
Slots slots_for(const std::vector<Index>& widths, Index room);

/// Memory that is charged and filled by tasks, so that what stays is no matter of time: bytes read are those of plans.
class HeldBasis {
 public:
  /// `room`: bytes. Blocks that are stored once for several groups are held once where all of them fit, else stripe by
  /// stripe.
  HeldBasis(Graph& graph, const BlockBasis& z, std::vector<std::shared_ptr<const StripeAccess>> on_disk,
            bool all_stored, std::uint64_t room);

  Index panel_end(Index first) const { return std::min(stripes(), first + (units_.empty() ? slots_.each : stripes())); }
  /// A stripe of the panel that begins with `first`, in memory; tasks that load it are added where it is not there yet.
  /// `handle`: of the files of Z.
  std::shared_ptr<const StripeAccess> held(Index stripe, Index first, Index handle);
  const Array& memory() const { return memory_; }

 private:
  struct Copy {
    std::size_t part = 0;
    Index from = 0, to = 0, count = 0;
  };
  Index stripes() const { return static_cast<Index>(on_disk_.size()); }
  void cut_units();
  std::shared_ptr<const StripeAccess> held_units(Index stripe, Index handle);
  void load(const std::vector<Part>& parts, const Box& to, std::vector<Copy> copies, Index handle);

  Graph& graph_;
  const BlockBasis& z_;
  std::vector<std::shared_ptr<const StripeAccess>> on_disk_;
  std::vector<Index> widths_;  // elements of each stripe
  Array memory_;
  Slots slots_;
  std::vector<Index> in_slot_;                                 // stripes
  std::vector<std::shared_ptr<const StripeAccess>> in_slots_;  // of these; of all where all of Z is held
  std::vector<Part> units_;                                    // all of Z: stretches of files, and where they lie
  std::vector<Index> unit_begin_;
  std::vector<bool> loaded_;
};

}  // namespace flagstone::subspace
