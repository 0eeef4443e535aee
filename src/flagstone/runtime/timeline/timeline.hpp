#pragma once
// What a run did and when, as it happens: tasks, loads, stores, waits, evictions, in the Trace Event Format that
// Perfetto and chrome://tracing open.
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "flagstone/storage/file/file.hpp"

namespace flagstone {

/// A file of events. Threads add at once; lines gather in a buffer of fixed size that is written when it is full, so
/// that the file may be far larger than memory. At most one is active in a process: runs that begin meanwhile add to
/// it.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  /// Rows of the picture: workers from 0, then the ring's requests, each in the lowest row that is free, then what goes
  /// into devices, comes out of them, and runs on their queues.
  static constexpr int first_ring_row = 1000, first_device_row = 100000, rows_a_device = 100;
  /// What it holds: counted with a Runtime's reserve while one is active.
  static constexpr std::uint64_t memory_bytes = std::uint64_t{256} << 10;

  /// A new file; StorageError, also where one exists and is not to be replaced.
  explicit Timeline(const std::string& path, bool overwrite = false);
  ~Timeline();
  Timeline(const Timeline&) = delete;

  /// The one that runs add to; null where none is active.
  static std::shared_ptr<Timeline> active();
  /// Makes `timeline` (null: none) the active one; Error where another one is.
  static void activate(std::shared_ptr<Timeline> timeline);

  /// A run of so many workers: a group of rows. Its number, which the events of it say.
  int begin_run(std::string_view who, int workers);
  void name_row(int run, int row, std::string_view name);
  /// Something that took from `began` to `ended`. `about`: the tile, or the array; may be empty. `bytes`: 0 for none.
  void span(int run, int row, std::string_view kind, std::string_view name, Clock::time_point began,
            Clock::time_point ended, std::string_view about = {}, std::uint64_t bytes = 0);
  /// Something of no length.
  void mark(int run, int row, std::string_view kind, std::string_view name, std::string_view about,
            std::uint64_t bytes);
  /// Bytes of the limit that are in use, and the limit: at most one event each millisecond.
  void memory(int run, std::uint64_t used, std::uint64_t capacity);
  /// Writes what is left and the end of the file; StorageError for what could not be written. Nothing is added then.
  void close();
  const std::string& path() const noexcept { return path_; }

 private:
  void add(std::string_view line);
  void write();
  double microseconds(Clock::time_point at) const;

  std::mutex mutex_;
  std::string path_;
  std::shared_ptr<File> file_;
  std::vector<char> buffer_;
  std::uint64_t at_ = 0;  // bytes of the file
  int runs_ = 0, failed_ = 0;
  pid_t process_ = ::getpid();
  Clock::time_point start_ = Clock::now(), memory_told_{};
};

}  // namespace flagstone
