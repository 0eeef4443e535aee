// Slots of a ring of epochs: overwritten in place, and the journal says when.
#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {

void ZarrStore::write_in_place(bool next) {
  std::lock_guard lock(mutex_);
  next_ = next;
  writing_ = next && Journal(opened_, directory_).head().state == JournalHead::State::writing;
  if (!writing_) return;
  shards_.clear();
  open_.clear();
  if (keeps_sums_) sums_.invalidate_all();
  std::error_code error;
  std::filesystem::remove_all("/proc/self/fd/" + std::to_string(opened_) + "/c", error);
  if (error) throw StorageError("epochs: cannot remove what a dead writer left", error.value(), directory_ + "/c");
  looked_ = false;
}

void ZarrStore::end_in_place() {
  {
    std::lock_guard lock(mutex_);
    next_ = writing_ = false;
  }
  keep_epoch();
}

void ZarrStore::keep_epoch() {
  std::lock_guard lock(mutex_);
  looked_ = false;
  kept_ = Journal(opened_, directory_).head();
}

/// The head counts what was begun and ended in the slot, so that of another epoch is another one.
void ZarrStore::check_epoch() const {
  if (seen_[0].state == JournalHead::State::writing && !next_)
    throw StorageError(
        "read: this array is the next one of a ring of epochs and is being overwritten, or its writer died; read the "
        "current one (fl.epochs)",
        EAGAIN, directory_);
  if (kept_ && seen_[0] != *kept_)
    throw StorageError(
        "read: this state of a ring of epochs was overwritten by a later one; take the current one (ring.current)",
        ESTALE, directory_);
}

/// Durable both times: before anything is overwritten, or a writer that comes after a power failure would not know
/// that the slot is torn; and when it is whole again, before the epoch is committed.
void ZarrStore::mark_in_place(bool writing) {
  Journal(opened_, directory_).mark(writing ? JournalHead::State::writing : JournalHead::State::idle);
  seen_ = heads();
  writing_ = writing;
}

}  // namespace flagstone
