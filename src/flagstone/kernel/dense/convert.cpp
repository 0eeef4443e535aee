// convert of dense.hpp: loops over tiles of any strides, without BLAS.
#include <algorithm>
#include <cstring>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::kernel {
namespace {

/// Elements may lie at any alignment (.npy in place).
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// A tile of any dimensionality as rows x columns: a shift belongs to the last dimension. Leading ones are walked.
template <class F>
void for_each_row(const Tile& a, const Tile& b, F&& f) {
  if (count(a.shape) == 0) return;
  if (a.shape.empty()) return f(a.data, b.data, Index{1}, Index{0}, Index{0});
  const std::size_t last = a.shape.size() - 1;
  Shape at(last, 0);
  do {
    std::byte *pa = a.data, *pb = b.data;
    for (std::size_t d = 0; d < last; ++d) pa += at[d] * a.strides[d], pb += at[d] * b.strides[d];
    f(pa, pb, a.shape[last], a.strides[last], b.strides[last]);
  } while (advance(at, a.shape));
}

template <class From, class To>
void convert_row(const std::byte* from, Index step_from, std::byte* to, Index step_to, Index n, const double* shift) {
  const auto store = [&](Index j, To value) { std::memcpy(to + j * step_to, &value, sizeof(To)); };
  if (shift) {  // the difference is formed in float64 and rounded once
    for (Index j = 0; j < n; ++j)
      store(j, static_cast<To>(static_cast<double>(load<From>(from + j * step_from)) - shift[j]));
  } else if (step_from == sizeof(From) && step_to == sizeof(To)) {
    for (Index j = 0; j < n; ++j) {
      const To value = static_cast<To>(load<From>(from + j * static_cast<Index>(sizeof(From))));
      std::memcpy(to + j * static_cast<Index>(sizeof(To)), &value, sizeof(To));
    }
  } else {
    for (Index j = 0; j < n; ++j) store(j, static_cast<To>(load<From>(from + j * step_from)));
  }
}

/// The tiles with the dimension of the smallest stride last, so that rows run along memory. Only without a shift.
void along_memory(Tile& a, Tile& b) {
  if (b.shape.empty()) return;
  std::size_t best = b.shape.size() - 1;
  for (std::size_t d = 0; d < b.shape.size(); ++d)
    if (b.shape[d] > 1 && (b.shape[best] <= 1 || b.strides[d] < b.strides[best])) best = d;
  for (Tile* t : {&a, &b}) std::swap(t->shape[best], t->shape.back()), std::swap(t->strides[best], t->strides.back());
}

}  // namespace

void convert(const Tile& from, const double* shift, const Tile& to) {
  if (from.shape != to.shape)
    throw ShapeError("convert: tiles are " + to_string(from.shape) + " and " + to_string(to.shape) +
                     "; they must be equal.");
  if (to.dtype != Dtype::float32 && to.dtype != Dtype::float64)
    throw ShapeError("convert: the result is " + std::string(name_of(to.dtype)) + "; float32 or float64 is needed.");
  Tile source = from, target = to;
  if (!shift) along_memory(source, target);
  visit_real_type(from.dtype, [&](auto sample) {
    using From = decltype(sample);
    for_each_row(source, target, [&](std::byte* a, std::byte* b, Index n, Index step_a, Index step_b) {
      if (to.dtype == Dtype::float32)
        convert_row<From, float>(a, step_a, b, step_b, n, shift);
      else
        convert_row<From, double>(a, step_a, b, step_b, n, shift);
    });
  });
}

}  // namespace flagstone::kernel
