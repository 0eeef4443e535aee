#include "flagstone/runtime/graph/read_snapshot.hpp"

#include <cerrno>

#include "flagstone/base/error.hpp"

namespace flagstone {

void Moments::watch(const TaskSpec& task) {
  for (const Access& access : task.accesses) {
    if (access.mode == Mode::scratch || access.mode == Mode::write || access.region.array.in_memory()) continue;
    ArrayStore& store = access.region.array.store();
    if (!seen_.contains(&store)) seen_.insert({&store, {access.region.array, store.look()}});
  }
}

void Moments::check() const {
  for (const auto& [store, seen] : seen_)
    if (seen.array.store().look() != seen.moment)
      throw StorageError("read: somebody committed to the array while it was read; run it again", EAGAIN,
                         seen.array.path());
}

}  // namespace flagstone
