#include "flagstone/storage/transaction/transaction.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/transaction/recovery.hpp"
#include "flagstone/storage/zarr/shard/commit_journal.hpp"
#include "flagstone/storage/zarr/shard/shard_index.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

using Place = std::shared_ptr<const Directory>;

std::string way(const std::string& from, const std::string& to) {
  const std::string path = fs::canonical(to).lexically_relative(fs::canonical(from)).string();
  return path.empty() ? "." : path;
}

/// Takes back a record whose write failed, where that can be made certain: true where nothing is committed.
bool take_back(const Directory& holder, std::uint64_t id) noexcept {
  try {
    const Journal journal(holder);
    if (journal.head().id == id) Journal(holder).clear();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

Transaction::~Transaction() { rollback(); }

bool Transaction::add(const Array& array) { return add_locked(array, nullptr); }

bool Transaction::add_locked(const Array& array, std::shared_ptr<WriterLock> taken) {
  ZarrStore* store = zarr_store(array);
  if (!store || !store->metadata().sharded || store->in_place()) return false;
  std::lock_guard lock(mutex_);
  for (const Part& part : parts_)
    if (part.store == store) return true;
  const auto place = std::make_shared<const Directory>(store->directory());
  if (!taken) taken = std::make_shared<WriterLock>(*place);
  Part part{array, store, std::move(taken), place};
  if (Journal(*place).head().state == JournalHead::State::writing)
    throw StorageError("write: this array is the next one of a ring of epochs; write it through fl.epochs", EBUSY,
                       place->path());
  recover(place, *part.lock);
  store->begin();
  parts_.push_back(std::move(part));
  return true;
}

void Transaction::commit() {
  std::vector<Place> places;
  Committed fresh;
  for (Part& part : parts_) {
    ArrayRecord one = part.store->prepare();
    if (one.shards.empty()) continue;
    places.push_back(part.place);
    one.path = way(places.front()->path(), places.back()->path());
    fresh.record.push_back(std::move(one));
  }
  if (!places.empty()) {
    fresh.id = new_transaction_id();
    fresh.holder = places[0];
    for (std::size_t i = 1; i < places.size(); ++i)
      Journal(*places[i]).point(Journal(*places[i]).head(), fresh.id, way(places[i]->path(), places[0]->path()));
    record(fresh);
    try {
      finish(fresh, places);
    } catch (const StorageError& error) {
      end(false);
      throw StorageError(
          "commit: the update is stored and every reader sees it, but tidying up failed; the next writer does that",
          error.number, places[0]->path());
    } catch (...) {
      end(false);
      throw;
    }
  }
  end(true);
}

/// Writes the record, which commits it; where that fails nothing is committed, or it is said that nobody knows.
void Transaction::record(const Committed& fresh) {
  try {
    Journal(*fresh.holder).commit(Journal(*fresh.holder).head(), fresh.id, fresh.record);
  } catch (const std::exception& error) {
    if (take_back(*fresh.holder, fresh.id)) throw;
    end(false);  // nothing is taken away: the disk may say that it is committed
    const auto* storage = dynamic_cast<const StorageError*>(&error);
    throw StorageError(
        "commit: the journal could be neither written nor cleared, so the update may be stored, all of it or nothing; "
        "look at the disk, then read the array again",
        storage ? storage->number : EIO, fresh.holder->path());
  }
}

void Transaction::end(bool whole) {
  for (Part& part : parts_) part.store->end(whole ? ZarrStore::End::committed : ZarrStore::End::unknown);
  parts_.clear();
}

void Transaction::rollback() noexcept {
  for (Part& part : parts_) try {
      part.store->end(ZarrStore::End::given_up);
    } catch (...) {
    }
  parts_.clear();
}

}  // namespace flagstone
