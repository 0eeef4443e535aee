#pragma once
// Points of a CSR matrix: its panels as they are stored.
#include "flagstone/algorithms/cluster/source.hpp"

namespace flagstone::cluster {

std::unique_ptr<Source> make_sparse_source(const PointsInput& x);

}  // namespace flagstone::cluster
