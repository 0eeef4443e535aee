#pragma once
// An array written anew: other chunks, another order of dimensions, another dtype. Fixed memory, at most two passes.
#include <memory>

#include "flagstone/algorithms/restructure/scheme.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/storage/output/checkpoint.hpp"
#include "flagstone/storage/scratch/quota.hpp"

namespace flagstone::restructure {

struct Job {
  Source source;
  bool conjugate = false;
  Array to;              // of the source's shape with its dimensions in the order of `axes`; its dtype is converted to
  ScratchSpace scratch;  // for what lies between two passes: promised before the first
  /// Where finished chunks are noted, box by box; what a dead process finished is not written again. What lies between
  /// two passes is kept beside the notes then.
  std::shared_ptr<Checkpoint> checkpoint = nullptr;
};

/// ShapeError unless the axes are a permutation and the shapes agree.
void check(const Job& job);
/// The scheme that run() takes for this budget (0: the least) and so many workers: of two passes that a dead process
/// was in, its own where that fits.
Scheme choose(const Job& job, std::uint64_t budget, int workers);
/// Adds the tasks. Bytes: the source and the result once each, in two passes both twice (scheme.first.times_read says
/// more where the limit is too small even for that). Tiles of the result are written in an order that is a function of
/// the job and the scheme alone: boxes along pass.loops, in each box tiles in C order.
void run(Graph& graph, const Job& job, const Scheme& scheme);
/// The same by the scheme for what the graph has left beside the places of the result's chunks; tells it.
Scheme run(Graph& graph, const Job& job);
/// Adds the tasks of one pass alone, into an array of tiles in scratch that has the shape pass.tile (one_pass).
void run(Graph& graph, const Source& source, const Array& to, const Pass& pass);
/// What lies in scratch between the passes of a scheme that takes two.
std::uint64_t scratch_bytes(const Job& job, const Scheme& scheme);

}  // namespace flagstone::restructure
