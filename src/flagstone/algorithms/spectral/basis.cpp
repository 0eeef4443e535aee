#include "flagstone/algorithms/spectral/basis.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::spectral {
namespace {

constexpr kernel::Op plain{}, transposed{true, false};

}  // namespace

Basis::Basis(Graph& graph, Index n, Index block, int most_blocks) : n_(n), block_(block) {
  for (int i = 0; i < most_blocks; ++i) blocks_.push_back(graph.allocate({n, block}, Dtype::float64));
}

Tile Basis::part(int block, Index first, Index count) const {
  Tile tile;
  tile.data = blocks_[block].store().memory() + first * block_ * 8;
  tile.shape = {count, widths_[block]};
  tile.strides = {block_ * 8, 8};
  return tile;
}

void Basis::append(const double* w, Index width) {
  widths_.push_back(width);
  columns_ += width;
  std::memset(last().store().memory(), 0, last().nbytes());
  copy(matrix(const_cast<double*>(w), n_, width), part(blocks() - 1, 0, n_));
}

void Basis::project(const double* w, Index width, double* coefficients) const {
  const Tile right = matrix(const_cast<double*>(w), n_, width);
  Index row = 0;
  for (int i = 0; i < blocks(); row += widths_[i++])
    kernel::gemm(1.0, part(i, 0, n_), transposed, right, plain, 0.0,
                 matrix(coefficients + row * width, widths_[i], width), nullptr);
}

void Basis::subtract(const double* coefficients, Index width, double* w) const {
  Index row = 0;
  for (int i = 0; i < blocks(); row += widths_[i++])
    kernel::gemm(-1.0, part(i, 0, n_), plain,
                 matrix(const_cast<double*>(coefficients) + row * width, widths_[i], width), plain, 1.0,
                 matrix(w, n_, width), nullptr);
}

void Basis::combine(const double* y, Index width, double* result) const {
  Index row = 0;
  for (int i = 0; i < blocks(); row += widths_[i++])
    kernel::gemm(1.0, part(i, 0, n_), plain, matrix(const_cast<double*>(y) + row * width, widths_[i], width), plain,
                 i == 0 ? 0.0 : 1.0, matrix(result, n_, width), nullptr);
}

void Basis::compress(const double* y, Index width) {
  // In place, some rows at a time: a row of the new basis depends on the same row of the old one alone.
  constexpr Index rows_at_once = 256;
  std::vector<double> rows(static_cast<std::size_t>(rows_at_once * width));
  const std::vector<Index> old = widths_;
  std::vector<Index> next;
  for (Index left = width; left > 0; left -= block_) next.push_back(std::min(left, block_));
  for (Index first = 0; first < n_; first += rows_at_once) {
    const Index count = std::min(rows_at_once, n_ - first);
    widths_ = old;
    Index row = 0;
    for (int i = 0; i < blocks(); row += widths_[i++])
      kernel::gemm(1.0, part(i, first, count), plain, matrix(const_cast<double*>(y) + row * width, widths_[i], width),
                   plain, i == 0 ? 0.0 : 1.0, matrix(rows.data(), count, width), nullptr);
    widths_ = next;
    const Tile result = matrix(rows.data(), count, width);
    Index column = 0;
    for (int i = 0; i < blocks(); column += widths_[i++])
      copy(subtile(result, {{0, column}, {count, widths_[i]}}), part(i, first, count));
  }
  widths_ = next;
  columns_ = width;
}

void Basis::list_parts(StateParts& parts) {
  parts.values("widths", widths_);
  if (widths_.size() > blocks_.size())
    throw FormatError("resume: the saved basis has more blocks than this one; start again.");
  columns_ = std::accumulate(widths_.begin(), widths_.end(), Index{0});
  for (int i = 0; i < blocks(); ++i) parts.array("block" + std::to_string(i), blocks_[i]);
}

void rotate(double* w, Index n, const std::vector<double>& u, Index old, Index keep) {
  std::vector<double> row(old);
  for (Index i = 0; i < n; ++i) {
    std::copy_n(w + i * old, old, row.data());
    for (Index j = 0; j < keep; ++j) {
      double sum = 0;
      for (Index l = 0; l < old; ++l) sum += row[l] * u[l * old + j];
      w[i * keep + j] = sum;
    }
  }
}

}  // namespace flagstone::spectral
