#pragma once
// Which runs a thread is part of: a run inside a task of the same Runtime would wait for itself.
#include <algorithm>
#include <vector>

namespace flagstone {

/// Runtimes whose runs this thread is part of, as builder or as worker, outermost first.
inline thread_local std::vector<const void*> runs_around;

inline bool inside_run_of(const void* runtime) {
  return std::find(runs_around.begin(), runs_around.end(), runtime) != runs_around.end();
}

/// The calling thread, and workers that are started meanwhile, are part of a run of `runtime`.
class InsideRun {
 public:
  explicit InsideRun(const void* runtime) { runs_around.push_back(runtime); }
  ~InsideRun() { runs_around.pop_back(); }
  InsideRun(const InsideRun&) = delete;
};

}  // namespace flagstone
