#include "flagstone/flash/matrix_argument.hpp"

#include <algorithm>
#include <cerrno>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::flash {
namespace {

bool same_place(const StoredMatrix& a, const StoredMatrix& b) {
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

StoredMatrix::StoredMatrix(const char* who, const char* name, Order order, const MatrixArgument& given, Index rows,
                           Index cols, Dtype dtype)
    : who(who),
      name(name),
      order(order),
      place(given.place),
      lines(order == Order::row_major ? rows : cols),
      length(order == Order::row_major ? cols : rows),
      leading(given.leading),
      dtype(dtype) {
  const std::string begin = std::string(who) + ": ";
  if (leading < std::max<Index>(1, length))
    throw ShapeError(begin + "ld" + name + " is " + std::to_string(leading) + " and a stored " +
                     (order == Order::row_major ? "row" : "column") + " of " + name + " has " + std::to_string(length) +
                     " elements; ld" + name + " must be at least that and 1.");
  if (!place.file && !place.memory && lines > 0 && length > 0)
    throw ShapeError(begin + name + " is a null pointer and holds " + std::to_string(rows) + " x " +
                     std::to_string(cols) + " elements; map a file or allocate it first.");
}

std::uint64_t StoredMatrix::begin() const {
  return place.file ? place.offset : static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place.memory));
}

std::uint64_t StoredMatrix::end() const {
  if (lines == 0 || length == 0) return begin();
  return begin() + static_cast<std::uint64_t>((lines - 1) * leading + length) * item();
}

Array StoredMatrix::lines_as_rows() const {
  if (place.file)
    return place.file->array({.shape = {lines, length}, .dtype = dtype, .offset = place.offset, .leading = leading});
  const auto step = static_cast<Index>(item());
  return memory_array(place.memory, {lines, length}, dtype, {leading * step, step});
}

Array StoredMatrix::matrix() const {
  if (order == Order::row_major) return lines_as_rows();
  if (place.file)
    return place.file->array(
        {.shape = {length, lines}, .dtype = dtype, .column_major = true, .offset = place.offset, .leading = leading});
  const auto step = static_cast<Index>(item());
  return memory_array(place.memory, {length, lines}, dtype, {step, leading * step});
}

void StoredMatrix::check_writable() const {
  if (place.file && !place.file->writable())
    throw StorageError(std::string(who) + ": " + name + " is mapped for reading; map it with update", EROFS,
                       place.file->path());
}

void check_extents(const char* who, std::initializer_list<std::pair<const char*, Index>> extents) {
  for (const auto& [name, value] : extents)
    if (value < 0)
      throw ShapeError(std::string(who) + ": " + name + " is " + std::to_string(value) + "; it must not be negative.");
}

void check_written(const StoredMatrix& x, const StoredMatrix& other) {
  x.check_writable();
  if (overlap(x, other))
    throw ShapeError(std::string(x.who) + ": " + other.name + " and " + x.name +
                     " share elements; copy one of them first.");
}

StoredMatrix copied(Runtime& runtime, const StoredMatrix& x) {
  const std::uint64_t line = static_cast<std::uint64_t>(x.length) * x.item();
  StoredMatrix copy = x;
  copy.leading = x.length;
  copy.place = {FlashFile::temporary(runtime.scratch(x.who), line * static_cast<std::uint64_t>(x.lines)), 0, nullptr};
  const Array from = x.lines_as_rows(), to = copy.lines_as_rows();
  const Index step = static_cast<Index>(std::max<std::uint64_t>(1, 2 * MiB / line));
  runtime.run([&](Graph& graph) {
    graph.trust_order(true);
    for (Index i = 0; i < x.lines; i += step) {
      const Box box{{i, 0}, {std::min(step, x.lines - i), x.length}};
      TaskSpec task;
      task.name = "copy";
      task.accesses = {read({from, box}), write({to, box})};
      task.calls = {call::copy(from.dtype(), {0}, {1})};
      graph.add(std::move(task));
    }
  });
  return copy;
}

bool overlap(const StoredMatrix& a, const StoredMatrix& b) {
  const auto empty = [](const StoredMatrix& x) { return x.lines == 0 || x.length == 0; };
  if (empty(a) || empty(b) || !same_place(a, b) || a.begin() >= b.end() || b.begin() >= a.end()) return false;
  if (a.leading != b.leading || a.item() != b.item()) return true;
  return meet_modulo(a.begin(), static_cast<std::uint64_t>(a.length) * a.item(), b.begin(),
                     static_cast<std::uint64_t>(b.length) * b.item(), static_cast<std::uint64_t>(a.leading) * a.item());
}

}  // namespace flagstone::flash
