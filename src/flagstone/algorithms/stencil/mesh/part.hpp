#pragma once
// A rank's own problem: a field of its sub-buffer's shape.
#include "flagstone/algorithms/stencil/mesh/subdomain.hpp"

namespace flagstone::stencil {

/// The larger problem as a rank sees it, without arrays and steps. Where a schedule computes all of the sleeves (al3,
/// rows of al4), what it makes of them is wrong, a radius a step further in, for beyond a sleeve lies 0: after radius ×
/// depth points the core begins. Sources are there
/// wherever their points are computed, periodic images too; receivers where their points are the core's; `observers`
/// see the core.
Problem part_of(const std::shared_ptr<const Problem>& whole, const Subdomain& rank, Observers* observers);

}  // namespace flagstone::stencil
