#pragma once
// A small sparse matrix in memory, by rows: what makers of blocks hand to who multiplies by them.
#include <cstdint>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// Rows in order, columns of a row in any order, each once. Kept between two blocks, so that its memory is.
struct SparseBlock {
  Index rows = 0, cols = 0;
  std::vector<std::int32_t> starts;  // rows + 1
  std::vector<std::int32_t> columns;
  std::vector<double> values;

  Index nonzeros() const { return static_cast<Index>(columns.size()); }
  void begin(Index m, Index n) {
    rows = m, cols = n;
    starts.assign(1, 0), columns.clear(), values.clear();
  }
  void add(std::int32_t column, double value) { columns.push_back(column), values.push_back(value); }
  void end_row() { starts.push_back(static_cast<std::int32_t>(columns.size())); }
};

/// to (rows x width, C order, float32 or float64) := block x, x cols x width. 2 nonzeros width flops.
void multiply(const SparseBlock& block, Dtype dtype, const std::byte* x, Index width, std::byte* to);
/// to (cols x width) := blockᵀ x, x rows x width.
void multiply_transposed(const SparseBlock& block, Dtype dtype, const std::byte* x, Index width, std::byte* to);

}  // namespace flagstone::kernel
