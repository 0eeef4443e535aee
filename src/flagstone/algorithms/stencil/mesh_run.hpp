#pragma once
// A time loop on a mesh of subdomains.
#include "flagstone/algorithms/stencil/mesh/subdomain.hpp"
#include "flagstone/algorithms/stencil/scheme.hpp"

namespace flagstone::stencil {

/// Each rank has two sub-buffers of each state, flat files that take turns, and its part of the coefficients. The state
/// is distributed (cores; coefficients with their sleeves); a superstep exchanges sleeves of radius × steps along the
/// first axis of the mesh, then along the second one those just received too, then carries out the chosen method
/// inside each rank, one after the other; in the end cores are collected. An epoch is the whole field, collected.
///
/// Cost: beside the ranks' own (their schemes') two reads and two writes of each state, one of each coefficient, one of
/// what is exchanged.
Scheme run_mesh(Graph& graph, std::shared_ptr<const Problem> problem, const Wishes& wishes);

}  // namespace flagstone::stencil
