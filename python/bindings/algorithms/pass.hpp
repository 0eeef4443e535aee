#pragma once
// The pass of fused expressions that Python fills, for the jobs that run it or add to it.
#include <memory>
#include <mutex>
#include <utility>

#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/algorithms/elementwise/reading.hpp"

namespace flagstone::python {

/// A pass, and how operands came to it when its last graph was built: by then the budget is known.
struct Pass : elementwise::Pass {
  struct Last {
    std::mutex mutex;
    elementwise::Scheme scheme;
  };
  std::shared_ptr<Last> last = std::make_shared<Last>();

  void keep(elementwise::Scheme scheme) const {
    std::lock_guard lock(last->mutex);
    last->scheme = std::move(scheme);
  }
  elementwise::Scheme scheme() const {
    std::lock_guard lock(last->mutex);
    return last->scheme;
  }
};

}  // namespace flagstone::python
