#pragma once
// Threads of the library: each is started here.
#include <thread>
#include <utility>

#include "flagstone/base/memory.hpp"
#include "flagstone/base/signals_blocked.hpp"

namespace flagstone {

/// Runs `body` on a thread that never sees the user's signals and whose last deed is to give back what it freed.
/// `Thread`: std::jthread where it ends with a block.
template <class Thread = std::thread, class Body>
Thread start_thread(Body body) {
  const SignalsBlocked blocked;
  return Thread([body = std::move(body)]() mutable {
    body();
    trim_thread_heap();
  });
}

}  // namespace flagstone
