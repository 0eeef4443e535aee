#pragma once
// The ring for tests: no thread, no kernel queue; delays, shortens, reorders and fails requests as told.
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {

/// What goes wrong, and when. The same script and the same order of submits give the same completions.
struct RingScript {
  struct Fault {
    std::uint64_t request = 0;  // counted from 0 in the order of submission
    int error = 0;              // errno; EINTR and EAGAIN are retried like the kernel's
    int times = 1;              // how often before the request goes through (errors that are retried)
  };
  std::vector<Fault> faults;
  std::size_t step_bytes = 0;  // every transfer moves at most so many bytes (rounded up to pages for O_DIRECT); 0: all
  bool reorder = false;        // the next request to proceed is drawn from all that wait, by `seed`
  std::uint64_t seed = 1;
  std::size_t delay = 0;  // so many calls of reap() pass, woken with 0, before a request may proceed
  std::uint64_t space = std::numeric_limits<std::uint64_t>::max();  // bytes that can be written before ENOSPC
};

/// Transfers happen inside reap(), on the reaper's thread. Descriptors are ordinary ones (memfd_create, O_TMPFILE).
std::unique_ptr<Ring> make_memory_ring(const RingScript& script = {});

}  // namespace flagstone
