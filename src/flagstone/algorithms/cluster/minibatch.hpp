#pragma once
// Mini-batches: centres move after each batch of points by the share that it has among all points they have met.
#include <cstdint>

#include "flagstone/algorithms/cluster/lloyd.hpp"

namespace flagstone::cluster {

struct MinibatchOptions {
  LloydOptions lloyd;      // iterations are passes over all batches; tol is of moves or gain of one
  std::uint64_t seed = 0;  // of the order of the batches, anew in each pass
  bool whole = false;      // all points are one batch
};

/// Moves centres (k x d float64 in memory): c += (S - n c) / N, where S and n are sum and weight of a batch's points of
/// c and N (`met`, 1 x k float64 in memory, updated) the weight of all that c has met (Sculley 2010). A batch is
/// some panels of points, at most four, an eighth of all; the order is drawn. The same bits for every limit and number
/// of workers. Cost of a pass: one read of the points, 2 m d k flops.
Progress minibatches(Graph& graph, const Source& points, const Array& centres, const Array& met,
                     const MinibatchOptions& options, Stages& stages);

}  // namespace flagstone::cluster
