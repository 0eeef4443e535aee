#include "flagstone/flash/stored_matrix.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::flash {
namespace {

bool same_place(const Stored& a, const Stored& b) {
  if (!a.place.file || !b.place.file) return !a.place.file && !b.place.file;
  return a.place.file->same_file(*b.place.file);
}

/// Do [begin, begin + length) of the two, modulo `period`, meet?
bool meet_modulo(std::uint64_t a, std::uint64_t a_length, std::uint64_t b, std::uint64_t b_length,
                 std::uint64_t period) {
  const std::uint64_t ahead = (b % period + period - a % period) % period;  // from a to the next b
  return ahead < a_length || period - ahead < b_length;
}

}  // namespace

void check(const char* who, const Stored& x, bool column_major) {
  if (x.leading < std::max<Index>(1, x.cols))
    throw ShapeError(std::string(who) + ": ld" + x.name + " is " + std::to_string(x.leading) + " and a stored " +
                     (column_major ? "column" : "row") + " of " + x.name + " has " + std::to_string(x.cols) +
                     " elements; ld" + x.name + " must be at least that and 1.");
  if (!x.place.file && !x.place.memory && x.rows > 0 && x.cols > 0)
    throw ShapeError(std::string(who) + ": " + x.name + " is a null pointer and holds " + x.text() +
                     " elements; map a file or allocate it first.");
}

Array array_of(const Stored& x) {
  if (x.place.file)
    return x.place.file->array(
        {.shape = {x.rows, x.cols}, .dtype = x.dtype, .offset = x.place.offset, .leading = x.leading});
  const auto item = static_cast<Index>(x.item());
  return memory_array(x.place.memory, {x.rows, x.cols}, x.dtype, {x.leading * item, item});
}

bool overlap(const Stored& a, const Stored& b) {
  if (!same_place(a, b) || a.begin() >= b.end() || b.begin() >= a.end()) return false;
  if (a.leading != b.leading || a.item() != b.item()) return true;
  return meet_modulo(a.begin(), static_cast<std::uint64_t>(a.cols) * a.item(), b.begin(),
                     static_cast<std::uint64_t>(b.cols) * b.item(), static_cast<std::uint64_t>(a.leading) * a.item());
}

Stored copied(Runtime& runtime, const char* who, const Stored& x) {
  const std::uint64_t row = static_cast<std::uint64_t>(x.cols) * x.item();
  Stored copy = x;
  copy.leading = x.cols;
  copy.place = {FlashFile::temporary(runtime.scratch(who), row * static_cast<std::uint64_t>(x.rows)), 0, nullptr};
  const Array from = array_of(x), to = array_of(copy);
  const Index step = static_cast<Index>(std::max<std::uint64_t>(1, 2 * MiB / row));
  runtime.run([&](Graph& graph) {
    graph.trust_order(true);
    for (Index i = 0; i < x.rows; i += step) {
      const Box box{{i, 0}, {std::min(step, x.rows - i), x.cols}};
      TaskSpec task;
      task.name = "copy";
      task.accesses = {read({from, box}), write({to, box})};
      task.calls = {call::copy(from.dtype(), {0}, {1})};
      graph.add(std::move(task));
    }
  });
  return copy;
}

}  // namespace flagstone::flash
