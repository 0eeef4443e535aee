#include "flagstone/algorithms/spectral/small_matrix.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/lapack.hpp"

namespace flagstone::spectral {

SmallMatrix::SmallMatrix(Dtype dtype, Index rows, Index cols)
    : dtype_(dtype),
      rows_(rows),
      cols_(cols),
      numbers_(static_cast<std::size_t>(rows * cols * (dtype == Dtype::complex128 ? 2 : 1)), 0.0) {}

SmallMatrix SmallMatrix::identity(Dtype dtype, Index n) {
  SmallMatrix made(dtype, n, n);
  for (Index i = 0; i < n; ++i) made.set(i, i, 1.0);
  return made;
}

SmallMatrix::Number SmallMatrix::operator()(Index i, Index j) const {
  const Index at = i * cols_ + j;
  return complex() ? Number(numbers_[2 * at], numbers_[2 * at + 1]) : Number(numbers_[at]);
}

void SmallMatrix::set(Index i, Index j, Number value) {
  const Index at = i * cols_ + j;
  if (complex())
    numbers_[2 * at] = value.real(), numbers_[2 * at + 1] = value.imag();
  else
    numbers_[at] = value.real();
}

double SmallMatrix::row_norm(Index i) const {
  double sum = 0;
  for (Index j = 0; j < cols_; ++j) sum += std::norm((*this)(i, j));
  return std::sqrt(sum);
}

bool SmallMatrix::finite() const {
  return std::all_of(numbers_.begin(), numbers_.end(), [](double x) { return std::isfinite(x); });
}

Tile SmallMatrix::tile() const {
  const auto item = static_cast<Index>(size_of(dtype_));
  return {reinterpret_cast<std::byte*>(const_cast<double*>(numbers_.data())),
          dtype_,
          {rows_, cols_},
          {cols_ * item, item},
          numbers_.size() * sizeof(double)};
}

void SmallMatrix::list_parts(StateParts& parts, const std::string& name) {
  parts.value(name + " rows", rows_);
  parts.value(name + " cols", cols_);
  parts.values(name, numbers_);
}

SmallMatrix multiply(const SmallMatrix& a, kernel::Op op_a, const SmallMatrix& b, kernel::Op op_b) {
  SmallMatrix c(a.dtype(), op_a.transpose ? a.cols() : a.rows(), op_b.transpose ? b.rows() : b.cols());
  const std::size_t bytes = kernel::gemm_scratch(a.tile(), op_a, b.tile(), op_b, c.tile());
  std::vector<std::byte> scratch(bytes);
  kernel::gemm(1.0, a.tile(), op_a, b.tile(), op_b, 0.0, c.tile(), scratch.data());
  return c;
}

SmallMatrix part(const SmallMatrix& a, Index row, Index col, Index rows, Index cols) {
  SmallMatrix made(a.dtype(), rows, cols);
  copy(subtile(a.tile(), {{row, col}, {rows, cols}}), made.tile());
  return made;
}

void put(const SmallMatrix& from, SmallMatrix& to, Index row, Index col) {
  copy(from.tile(), subtile(to.tile(), {{row, col}, {from.rows(), from.cols()}}));
}

SmallMatrix adjoint(const SmallMatrix& a) {
  SmallMatrix made(a.dtype(), a.cols(), a.rows());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index j = 0; j < a.cols(); ++j) made.set(j, i, std::conj(a(i, j)));
  return made;
}

Array upload(Graph& graph, const SmallMatrix& matrix) {
  Array array = graph.allocate({matrix.rows(), matrix.cols()}, matrix.dtype());
  if (!graph.planning())
    copy(matrix.tile(),
         {array.store().memory(), array.dtype(), array.shape(), array.store().memory_strides(), array.nbytes()});
  return array;
}

SmallMatrix download(const Graph& graph, const Array& array) {
  SmallMatrix made(array.dtype(), array.shape()[0], array.shape()[1]);
  if (!graph.planning())
    copy({array.store().memory(), array.dtype(), array.shape(), array.store().memory_strides(), array.nbytes()},
         made.tile());
  return made;
}

SmallEigen eigen(const SmallMatrix& a) {
  const Index n = a.rows();
  SmallEigen found{std::vector<double>(n), a};
  const Tile tile = found.vectors.tile();
  const int info = a.dtype() == Dtype::complex128
                       ? kernel::hermitian_eigen(n, tile.as<std::complex<double>>(), found.values.data())
                       : kernel::symmetric_eigen(n, tile.as<double>(), found.values.data());
  if (info != 0 || !std::all_of(found.values.begin(), found.values.end(), [](double x) { return std::isfinite(x); }))
    throw NumericalError(
        "eigenpairs: a dense factorization failed; A may hold NaN or Inf, or overflow: scale it down.");
  const SmallMatrix rows = found.vectors;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) found.vectors.set(i, j, rows(j, i));
  return found;
}

std::uint64_t eigen_bytes(Dtype dtype, Index n) {
  const auto square = static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(n) * size_of(dtype);
  return 2 * square +
         (dtype == Dtype::complex128 ? kernel::hermitian_eigen_bytes(n) : kernel::symmetric_eigen_bytes(n));
}

}  // namespace flagstone::spectral
