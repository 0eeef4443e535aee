#pragma once
// An array written anew, for programs: other chunks, another dtype or codec, dimensions in another order.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/output/record.hpp"
#include "flagstone/storage/scratch/quota.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone::restructure {

struct RechunkOptions {
  std::vector<std::size_t> axes = {};  // dimension i of the result is axes[i] of the source; empty: as they are
  bool conjugate = false;
  /// What lies between two passes, and under which quota. No directory: the runtime's, else default_scratch().
  ScratchSpace scratch = {};
  /// Of an output with a Record: where finished chunks are noted; what a dead process finished is not written again.
  std::shared_ptr<Checkpoint> checkpoint = nullptr;
};

/// Adds the tasks of `to` := `from`, whose elements are converted to the dtype of `to`. In one pass each is moved once:
/// with memory for the chunks of the source under a box of whole chunks of the result. Where that does not fit, a
/// second pass goes through scratch. Order and bits: a function of shapes, layouts, dtypes, budget and workers.
/// ShapeError: the shapes do not agree, the axes are no permutation, complex elements would become real ones.
void rechunk(Graph& graph, const Array& from, const Array& to, const RechunkOptions& options = {});
/// The same with its dimensions reversed, or as options.axes says.
void transpose(Graph& graph, const Array& from, const Array& to, RechunkOptions options = {});

/// A new array on disk.
struct RechunkTo {
  std::string path;                 // a Zarr directory
  ZarrOptions stored = {};          // chunks (empty: default_chunks), codec, order in chunks, checksums
  std::optional<Dtype> dtype = {};  // of the source
  bool replace = false;             // what is there, at once and whole
  RecordOptions record = {};        // who hears of checkpoints, and of progress that is thrown away
};

/// What such a call does, or would do.
struct RechunkReport {
  Statistics statistics;
  int passes = 0;
  std::string why;                  // of one pass or two
  std::uint64_t scratch_bytes = 0;  // between two passes
  bool resumed = false;             // with what a killed process had finished
};

/// Writes a new array, which appears whole or not at all, and opens it. A long one from a Zarr array has a Record: when
/// the process was killed, the same call goes on with what it had finished. StorageError where something is there
/// (EEXIST) or the disk is too small (ENOSPC), before anything is moved; BudgetError names the least limit.
Array rechunk(Runtime& runtime, const Array& from, const RechunkTo& to, const RechunkOptions& options = {},
              RechunkReport* report = nullptr);
Array transpose(Runtime& runtime, const Array& from, const RechunkTo& to, RechunkOptions options = {},
                RechunkReport* report = nullptr);
/// Counts it on a virtual clock; nothing is read or written, the path is not looked at.
RechunkReport plan_rechunk(Runtime& runtime, const Array& from, const RechunkTo& to,
                           const RechunkOptions& options = {});
RechunkReport plan_transpose(Runtime& runtime, const Array& from, const RechunkTo& to, RechunkOptions options = {});

}  // namespace flagstone::restructure
