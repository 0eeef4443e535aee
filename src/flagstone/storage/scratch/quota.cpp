#include "flagstone/storage/scratch/quota.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/space.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/scratch/imports.hpp"
#include "flagstone/storage/scratch/listing.hpp"
#include "flagstone/storage/scratch/names.hpp"
#include "flagstone/storage/scratch/scratch.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t most_unseen = 64 * MiB;  // bytes of unknown length written between two looks at the disk

using Sizes = std::map<std::string, std::uint64_t>;  // bytes of each entry of scratch
struct Promise {
  std::string entry;  // empty: files without a name
  std::uint64_t bytes;
};

std::string promises_of(const std::string& scratch) { return (fs::path(scratch) / "promises").string(); }

std::string quota_file(const std::string& scratch) { return (fs::path(scratch) / "quota").string(); }

Sizes on_disk(const std::string& scratch) {
  Sizes found;
  for (const std::string& folder : {std::string("imports"), results_folder})
    for (const std::string& place : scratch_names::ending((fs::path(scratch) / folder).string(), ""))
      found[folder + "/" + scratch_names::entry_of(place)] += scratch_names::disk_bytes(place);
  return found;
}

/// What is promised, but for the file `own`. `sweep`, inside the gate: the dead's go.
std::vector<Promise> promised(const std::string& promises, const std::string& own, bool sweep) {
  std::vector<Promise> found;
  for (const std::string& file : scratch_names::ending(promises, lock_suffix)) {
    if (file == own) continue;
    if (!file_locked(file)) {
      if (sweep) ::unlink(file.c_str());
      continue;
    }
    try {
      const Json told = Json::parse(read_text(file, 1 << 20));
      found.push_back({told.at("for").get<std::string>(), told.at("bytes").get<std::uint64_t>()});
    } catch (const std::exception&) {  // it is being written, or has gone
    }
  }
  return found;
}

std::uint64_t sum(Sizes sizes, const std::vector<Promise>& promises) {
  std::uint64_t total = 0;
  for (const Promise& one : promises)
    if (one.entry.empty()) {
      total += one.bytes;
    } else {
      std::uint64_t& longest = sizes[one.entry];
      longest = std::max(longest, one.bytes);
    }
  for (const auto& [name, bytes] : sizes) total += bytes;
  return total;
}

/// One counts and promises after the other; others wait for the time of a walk over scratch.
FileLock gate(const std::string& scratch) {
  prepare_scratch(scratch);
  const std::string promises = promises_of(scratch);
  ::mkdir(promises.c_str(), 0777);
  FileLock closed = FileLock::make(promises + "/gate");
  if (const std::string file = quota_file(scratch); !path_exists(file)) try {
      write_text(file, std::to_string(usual_quota(scratch)));
    } catch (const StorageError&) {  // it is asked again
    }
  return closed;
}

}  // namespace

std::uint64_t usual_quota(const std::string& scratch) {
  try {
    const std::string text = read_text(quota_file(scratch), 64);
    std::uint64_t bytes = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), bytes).ec == std::errc() && bytes > 0) return bytes;
  } catch (const Error&) {
  }
  std::error_code error;
  fs::path place = fs::absolute(scratch, error);
  while (!fs::is_directory(place, error) && place.has_relative_path()) place = place.parent_path();
  return free_bytes(place.string()) / 2 + scratch_held(scratch) / 2;
}

std::uint64_t scratch_held(const std::string& scratch) {
  return sum(on_disk(scratch), promised(promises_of(scratch), "", false));
}

Reservation::Reservation(std::string who, std::string scratch, std::optional<std::uint64_t> quota)
    : who_(std::move(who)), scratch_(std::move(scratch)), quota_(quota) {}

std::string Reservation::path() const { return (fs::absolute(scratch_) / entry_).lexically_normal().string(); }

void Reservation::take(std::uint64_t bytes, const std::string& entry) {
  if (!entry.empty()) entry_ = fs::absolute(entry).lexically_relative(fs::absolute(scratch_)).string();
  const FileLock closed = gate(scratch_);
  const std::string promises = promises_of(scratch_);
  const std::vector<Promise> others = promised(promises, place_, true);
  if (quota_) {
    for (bool swept = false;; swept = true) {
      Sizes sizes = on_disk(scratch_);
      const std::uint64_t own = sizes[entry_];
      sizes.erase(entry_);
      const std::uint64_t there = sum(sizes, others);
      // no sum: `bytes` may be all that can be named
      if (there <= *quota_ && std::max(own, bytes) <= *quota_ - there) break;
      if (swept || sweep_imports(scratch_) == 0) refuse(bytes, there, own);
    }
  }
  write_down(promises, bytes);
  bytes_ = bytes;
}

void Reservation::wrote(std::uint64_t bytes) {
  unseen_ += bytes;
  if (quota_ && unseen_ >= std::min(most_unseen, std::max<std::uint64_t>(1, *quota_ / 16))) look();
}

void Reservation::look() {
  unseen_ = 0;
  if (!quota_) return;
  if (const std::uint64_t there = on_disk(scratch_)[entry_]; there > bytes_) take(there);
}

void Reservation::grow(std::uint64_t bytes) { take(std::max(bytes_, on_disk(scratch_)[entry_] + bytes)); }

void Reservation::release() noexcept {
  if (!lock_) return;
  lock_.close();
  if (process_ == ::getpid()) ::unlink(place_.c_str());
}

void Reservation::write_down(const std::string& promises, std::uint64_t bytes) {
  if (!lock_) {
    place_ = promises + "/" + name_of_our_own() + lock_suffix;
    lock_ = FileLock::make(place_);
    process_ = ::getpid();
  }
  const std::string text = "{\"bytes\": " + std::to_string(bytes) + ", \"for\": " + Json(entry_).dump_ascii() + "}";
  const ssize_t put =
      ::ftruncate(lock_.descriptor(), 0) == 0 ? ::pwrite(lock_.descriptor(), text.data(), text.size(), 0) : -1;
  if (put != static_cast<ssize_t>(text.size()))  // a part of so short a text: the disk is full
    throw StorageError("scratch: cannot write a promise", put < 0 ? errno : ENOSPC, place_);
}

void Reservation::refuse(std::uint64_t bytes, std::uint64_t others, std::uint64_t own) const {
  const std::uint64_t freed = clearable_scratch(scratch_);
  const std::string clear =
      freed == 0 ? ""
                 : ", " + format_bytes(freed) + " of them imports and leftovers that 'flagstone scratch --clear' frees";
  const std::string raise = "raise the quota (scratch_quota=, FLAGSTONE_SCRATCH_QUOTA) or name out=.";
  if (others > *quota_)
    throw ScratchError(who_ + ": '" + scratch_ + "' holds " + format_bytes(others) + " already" + clear +
                           ", which is more than its quota of " + format_bytes(*quota_) +
                           "; clear it, let results there go, " + raise,
                       EDQUOT, scratch_);
  throw ScratchError(who_ + ": needs " + format_bytes(bytes) + " of scratch, and '" + scratch_ + "' holds " +
                         format_bytes(others + own) + " of its quota of " + format_bytes(*quota_) + clear +
                         ". Clear it, let results there go, " + raise,
                     EDQUOT, scratch_);
}

}  // namespace flagstone
