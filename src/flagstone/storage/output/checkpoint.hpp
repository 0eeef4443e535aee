#pragma once
// What a long operation needs to go on after its process died.
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "flagstone/base/error.hpp"

namespace flagstone {

/// Named bytes in one file, `state`, of an Output's notes(): replaced at once and whole, so that a reader finds the
/// last save that was completed. One thread.
///
/// An operation saves what is durable already: it syncs what it wrote, then says so here. To be resumable it needs two
/// functions: one that calls save() where due() says so, one that starts from load() where has() says that there is
/// something.
///
/// The file: "<crc32c, 8 hex digits> <JSON>\n", then the parts one after the other. The JSON tells done, saves,
/// process, and name, bytes and crc32c of every part.
class Checkpoint {
 public:
  struct Part {
    std::string name;
    std::span<const std::byte> bytes;
  };
  template <class T>
  static Part part(std::string name, const T* data, std::size_t count) {
    return {std::move(name), std::as_bytes(std::span(data, count))};
  }

  /// Reads and verifies what lies in `directory` (FormatError: it is damaged). `every`: least seconds between two
  /// saves; 0: every opportunity is taken. `saved` hears of every save, with its number.
  Checkpoint(std::string directory, double every, std::function<void(int)> saved = {});

  /// Whether to save now: a hundred times as long after the last save as it took (so that checkpoints cost a hundredth
  /// of the time at most), and at least `every` seconds. Where it says yes, what follows until save() returns counts as
  /// the cost.
  bool due();
  /// The same, and the cost is not counted from here.
  bool ready() const;
  /// every == 0: nobody minds to wait.
  bool eager() const { return every_ == 0; }
  const std::string& directory() const { return directory_; }
  /// `done`: of all the work, between 0 and 1. Cost: one write of the parts, a sync, a rename.
  void save(double done, const std::vector<Part>& parts);

  /// Of the last save, this process's or a dead one's: 0 where there is none.
  double done() const { return done_; }
  int saves() const { return saves_; }
  bool has(const std::string& name) const { return find(name) != nullptr; }
  /// Whether there is a part of this name, or of one below it: "name/...".
  bool has_state(const std::string& name) const;
  /// What this process does not go on with.
  void forget(const std::string& name) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.name == name; });
  }
  /// Nor with parts whose names begin so.
  void forget_all(const std::string& prefix) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.name.starts_with(prefix); });
  }
  std::size_t bytes_of(const std::string& name) const;
  /// The part as it was saved; FormatError where it is absent or has not `bytes` bytes.
  void load(const std::string& name, void* to, std::size_t bytes) const;
  template <class T>
  std::vector<T> load(const std::string& name) const {
    std::vector<T> values(bytes_of(name) / sizeof(T));
    load(name, values.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string name;
    std::size_t bytes = 0, offset = 0;
    std::uint32_t crc = 0;
  };
  const Entry* find(const std::string& name) const;
  std::string path() const { return directory_ + "/state"; }
  void open();
  void verify(int file) const;
  [[noreturn]] void throw_damaged(const std::string& what) const;

  std::string directory_;
  double every_, cost_ = 0;
  std::function<void(int)> saved_;
  double done_ = 0;
  int saves_ = 0;
  std::vector<Entry> entries_;
  Clock::time_point last_ = Clock::now(), began_ = last_;
};

/// What the last save in a directory says of itself, for listings: nothing is verified; zeros where there is none.
struct LastSave {
  double done = 0;
  int saves = 0, process = 0;
  double age = 0;  // seconds
};
LastSave last_save(const std::string& directory);

}  // namespace flagstone
