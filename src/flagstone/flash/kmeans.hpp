#pragma once
// k-means on disk pointers, on plain pointers, or on both: given seeds become centres where they stand.
#include "flagstone/flash/flash_ptr.hpp"
#include "flagstone/flash/gemm.hpp"

namespace flagstone::flash {

struct KMeansCall {
  Place points, seeds;  // n x d and k x d, in rows
  Index n = 0, d = 0, k = 0, iterations = 0;
  Dtype points_dtype = Dtype::float32, seeds_dtype = Dtype::float32;
};

/// The function behind kmeans(). ShapeError (seeds that lie in the points too), StorageError,
/// BudgetError before the seeds are touched; NumericalError
/// where a point holds NaN or Inf. Cost: one read of the points an iteration, less what the limit holds of them; 2 n d
/// k flops each. Centres that do not fit beside their sums lie in scratch, and points are read more often:
/// algorithms/centres/block_order.hpp; the same bits. Not atomic: after a crash the seeds are part old, part new.
Statistics kmeans(Runtime& runtime, const KMeansCall& call);

/// seeds[0, k d) := the centres after at most `iterations` iterations of Lloyd's algorithm from there, fewer where
/// nothing moves any more. `points` and `seeds` are each a disk pointer or a plain one, of float or double.
template <class Points, class Seeds, class P = std::remove_const_t<detail::element_t<Points>>,
          class S = detail::element_t<Seeds>>
requires(std::is_floating_point_v<P>&& std::is_floating_point_v<S> && !std::is_const_v<S>) Statistics
    kmeans(Runtime& runtime, const Points& points, Index n, Index d, const Seeds& seeds, Index k, Index iterations) {
  return kmeans(runtime, {Place::of(points), Place::of(seeds), n, d, k, iterations, dtype_of<P>(), dtype_of<S>()});
}

}  // namespace flagstone::flash
