#pragma once
// Arrays in memory.
#include <memory>
#include <span>

#include "flagstone/base/element_type.hpp"
#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// A view of memory that somebody else owns (a NumPy operand); `owner` keeps it alive.
Array memory_array(std::byte* data, const Shape& shape, Dtype dtype, const Shape& strides_bytes,
                   std::shared_ptr<void> owner = {});
/// The same of a program's own elements, in C order: memory_array(x.data(), {rows, columns}).
template <class T>
Array memory_array(T* data, const Shape& shape) {
  return memory_array(reinterpret_cast<std::byte*>(data), shape, dtype_of<T>(), c_strides(shape, sizeof(T)));
}
/// A new one: zeros, in pages of its own that come with their first use.
Array memory_array(const Shape& shape, Dtype dtype);

/// ShapeError unless the array lies in memory, in C order, and holds `dtype`.
void check_elements_of(const Array& array, Dtype dtype);
/// The elements of an array in memory. ShapeError as above.
template <class T>
std::span<T> elements_of(const Array& array) {
  check_elements_of(array, dtype_of<T>());
  return {reinterpret_cast<T*>(array.store().memory()), static_cast<std::size_t>(count(array.shape()))};
}

}  // namespace flagstone
