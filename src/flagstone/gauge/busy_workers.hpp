#pragma once
// Something done by every worker at once, again and again, and counted.
#include <functional>

namespace flagstone::gauge {

/// Units a second of one worker, all workers busy. Where other programs took processor time, `busy` is larger than
/// `elapsed`: what the worker does in a second that it really gets.
struct Rate {
  double elapsed = 0;  // units by the clock on the wall
  double busy = 0;     // units by processor time
};

struct Work {
  int workers = 1;
  double seconds = 0.1;  // repeats begin for so long; at least one
};

/// Runs what `prepare` makes on every worker at once and counts; `units`: of one call. The first call is not timed.
Rate run_on_all(const Work& work, double units, const std::function<std::function<void()>()>& prepare);

}  // namespace flagstone::gauge
