#pragma once
// The scratch budget: bytes that may lie in scratch, and to whom they were promised.
//
// What lies there is counted on the disk, whoever wrote it. What somebody is about to write is a promise: a file in
// `<scratch>/promises` that its process keeps locked, {"bytes": …, "for": the entry}. A promise and its entry count
// once, the longer of the two; files without a name (tiles between two passes) are known by their promise alone.
// Counting and promising happen under one lock, so two calls are never promised the same bytes.
#include <cstdint>
#include <optional>
#include <string>

#include "flagstone/storage/file/lock.hpp"

namespace flagstone {

/// Where files without a name go, and who is promised their bytes.
struct ScratchSpace {
  std::string directory;
  std::string who;                     // in messages: "rechunk"
  std::optional<std::uint64_t> quota;  // none: as much as the disk holds
};

/// The quota where nobody names one: half of what was free, and of what scratch held, when anything was first promised
/// there, which `<scratch>/quota` tells to all who share it; before that, half of what is free now.
std::uint64_t usual_quota(const std::string& scratch);

/// Bytes that count against the quota of a scratch directory, promises included.
std::uint64_t scratch_held(const std::string& scratch);

/// Bytes of scratch that one piece of work may take, until release(), or until its process ends. One thread at a time.
class Reservation {
 public:
  /// Of nothing yet. `who` asks, in messages. Without a quota everything is promised, and told to others.
  Reservation(std::string who, std::string scratch, std::optional<std::uint64_t> quota);
  ~Reservation() { release(); }
  Reservation(const Reservation&) = delete;

  /// Takes so many bytes altogether. `entry`: the path in scratch that they are for; empty: as before, which is files
  /// without a name at first. ScratchError (EDQUOT) leaves what was promised before. Cost: a look at each file there.
  void take(std::uint64_t bytes, const std::string& entry = {});
  /// Tells of bytes on their way to an entry whose length nobody knew; refuses where they are too many. Cost: a look at
  /// the entry now and then.
  void wrote(std::uint64_t bytes);
  /// Takes what its entry has on the disk by now.
  void look();
  /// Takes so many bytes more than the entry has on the disk.
  void grow(std::uint64_t bytes);
  /// Gives back what was not used: from now on what is on the disk counts. In a forked child the promise stays the
  /// parent's.
  void release() noexcept;

  std::uint64_t bytes() const { return bytes_; }
  /// The entry that it is for.
  std::string path() const;

 private:
  void write_down(const std::string& promises, std::uint64_t bytes);
  [[noreturn]] void refuse(std::uint64_t bytes, std::uint64_t others, std::uint64_t own) const;

  const std::string who_, scratch_;
  const std::optional<std::uint64_t> quota_;
  std::uint64_t bytes_ = 0, unseen_ = 0;
  std::string entry_, place_;  // relative to scratch; the file of the promise, which lock_ holds
  FileLock lock_;
  int process_ = 0;
};

}  // namespace flagstone
