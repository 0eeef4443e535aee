#pragma once
// Numbers that become arrays of NumPy.
#include <utility>
#include <vector>

#include "bindings/core/bindings.hpp"

namespace flagstone::python {

/// Some numbers as an array that owns them.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> numpy_of(std::vector<T> values) {
  auto* held = new std::vector<T>(std::move(values));
  nb::capsule owner(held, [](void* all) noexcept { delete static_cast<std::vector<T>*>(all); });
  return {held->data(), {held->size()}, owner};
}

}  // namespace flagstone::python
