#include "flagstone/storage/lazy/lazy_store.hpp"

#include <algorithm>
#include <cerrno>

#include "flagstone/base/error.hpp"

namespace flagstone {

LazyStore::LazyStore(std::vector<Array> operands, Dtype dtype)
    : operands_(std::move(operands)),
      item_(size_of(dtype)),
      imagined_(
          std::any_of(operands_.begin(), operands_.end(), [](const Array& one) { return one.store().imagined(); })) {}

Transfer LazyStore::write(const Box&) {
  throw StorageError("write: this array is computed where it is read and has no place for elements; store it first",
                     EROFS, "");
}

Transfer LazyStore::planned_write(const Box& box) {
  Transfer geometry = read(box);
  geometry.segments.clear();
  return geometry;
}

/// Changes with every commit to any of them; 0 where nobody else writes to one.
std::uint64_t LazyStore::look() {
  std::uint64_t seen = 0;
  for (const Array& operand : operands_) seen = 0x9E3779B97F4A7C15 * seen + operand.store().look();
  return seen;
}

std::uint64_t LazyStore::pass_bytes() const {
  std::uint64_t sum = 0;
  for (const Array& operand : operands_) {
    if (operand.in_memory()) continue;
    const std::uint64_t stored = operand.store().pass_bytes();
    sum += stored > 0 ? stored : operand.nbytes();
  }
  return sum;
}

std::uint64_t LazyStore::unpack_bytes() const {
  std::uint64_t most = 0;
  for (const Array& operand : operands_) most = std::max(most, operand.store().unpack_bytes());
  return most;
}

bool LazyStore::verified() const {
  return std::any_of(operands_.begin(), operands_.end(), [](const Array& one) { return one.store().verified(); });
}

bool LazyStore::computed_anew() const {
  return std::any_of(operands_.begin(), operands_.end(), [](const Array& one) { return one.store().computed_anew(); });
}

bool is_flat(const Array& array) {
  return array.chunks() == array.shape() && !array.store().verified() && array.store().unpack_bytes() == 0;
}

bool lies_by_columns(const Array& array) {
  if (array.in_memory() || !is_flat(array)) return false;
  const Shape& shape = array.shape();
  const auto longer = [](Index extent) { return extent > 1; };
  const auto first = std::find_if(shape.begin(), shape.end(), longer);
  if (std::count_if(first, shape.end(), longer) < 2) return false;
  Shape two(shape.size(), 1);
  two[static_cast<std::size_t>(first - shape.begin())] = 2;
  return array.store().run_bytes(two) > size_of(array.dtype());
}

Index c_run(const Shape& shape, const Shape& box) {
  Index run = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    run *= std::min(box[d], shape[d]);
    if (box[d] < shape[d]) break;
  }
  return std::max<Index>(1, run);
}

}  // namespace flagstone
