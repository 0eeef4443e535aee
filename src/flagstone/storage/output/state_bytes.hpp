#pragma once
// What a writer keeps in memory, as bytes for a checkpoint: plain values one after the other. The same program reads
// them again (a record names its version), so there is neither a format to keep nor an order of bytes.
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "flagstone/base/error.hpp"

namespace flagstone {

class StateWriter {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    raw(&value, sizeof value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(values.size());
    raw(values.data(), values.size() * sizeof(T));
  }
  void raw(const void* from, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// FormatError where more is asked for than there is.
class StateReader {
 public:
  explicit StateReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  void get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    raw(&value, sizeof value);
  }
  template <class T>
  void get(std::vector<T>& values) {
    std::size_t count = 0;
    get(count);
    if (count > rest_.size() / sizeof(T)) throw_short();
    values.resize(count);
    raw(values.data(), count * sizeof(T));
  }
  void raw(void* to, std::size_t bytes) {
    if (bytes > rest_.size()) throw_short();
    if (bytes > 0) std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }

 private:
  [[noreturn]] static void throw_short() {
    throw FormatError("resume: what was noted of a half-written matrix is too short; make the call again.");
  }
  std::span<const std::byte> rest_;
};

}  // namespace flagstone
