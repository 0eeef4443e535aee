#pragma once
// A rank's own problem: a field of its sub-buffer's shape.
#include "flagstone/algorithms/stencil/mesh/subdomain.hpp"

namespace flagstone::stencil {

/// The larger problem as a rank sees it, without arrays and steps. Each step computes a radius less of the sleeves
/// (Problem::needed), so nothing that counts is made of what lies beyond them. Sources are there
/// wherever their points are computed, periodic images too; receivers where their points are the core's; `observers`
/// see the core.
Problem part_of(const std::shared_ptr<const Problem>& whole, const Subdomain& rank, Observers* observers);

}  // namespace flagstone::stencil
