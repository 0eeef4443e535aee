#include "flagstone/kernel/sparse/sparse_block.hpp"

#include <algorithm>

namespace flagstone::kernel {
namespace {

template <class T>
void add_scaled(T scale, const T* from, Index width, T* to) {
  for (Index j = 0; j < width; ++j) to[j] += scale * from[j];
}

template <class T>
void multiply_as(const SparseBlock& block, bool transposed, const T* x, Index width, T* to) {
  std::fill_n(to, static_cast<std::size_t>((transposed ? block.cols : block.rows) * width), T{0});
  for (Index i = 0; i < block.rows; ++i)
    for (auto k = static_cast<std::size_t>(block.starts[static_cast<std::size_t>(i)]);
         k < static_cast<std::size_t>(block.starts[static_cast<std::size_t>(i) + 1]); ++k) {
      const Index j = block.columns[k];
      const T value = static_cast<T>(block.values[k]);
      add_scaled(value, x + (transposed ? i : j) * width, width, to + (transposed ? j : i) * width);
    }
}

void multiply_any(const SparseBlock& block, bool transposed, Dtype dtype, const std::byte* x, Index width,
                  std::byte* to) {
  if (dtype == Dtype::float32)
    multiply_as(block, transposed, reinterpret_cast<const float*>(x), width, reinterpret_cast<float*>(to));
  else
    multiply_as(block, transposed, reinterpret_cast<const double*>(x), width, reinterpret_cast<double*>(to));
}

}  // namespace

void multiply(const SparseBlock& block, Dtype dtype, const std::byte* x, Index width, std::byte* to) {
  multiply_any(block, false, dtype, x, width, to);
}

void multiply_transposed(const SparseBlock& block, Dtype dtype, const std::byte* x, Index width, std::byte* to) {
  multiply_any(block, true, dtype, x, width, to);
}

}  // namespace flagstone::kernel
