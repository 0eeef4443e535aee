#pragma once
// Small dense matrices on the builder's thread: projections, Gram matrices, rotations. float64 or complex128.
#include <complex>
#include <string>
#include <vector>

#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::spectral {

/// rows x cols in C order, zeros to begin with.
class SmallMatrix {
 public:
  using Number = std::complex<double>;

  explicit SmallMatrix(Dtype dtype = Dtype::float64) : dtype_(dtype) {}
  SmallMatrix(Dtype dtype, Index rows, Index cols);
  static SmallMatrix identity(Dtype dtype, Index n);

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Dtype dtype() const { return dtype_; }
  Number operator()(Index i, Index j) const;
  void set(Index i, Index j, Number value);
  /// |row i|.
  double row_norm(Index i) const;
  bool finite() const;
  Tile tile() const;
  void list_parts(StateParts& parts, const std::string& name);

 private:
  bool complex() const { return dtype_ == Dtype::complex128; }

  Dtype dtype_;
  Index rows_ = 0, cols_ = 0;
  std::vector<double> numbers_;
};

/// op(A) op(B).
SmallMatrix multiply(const SmallMatrix& a, kernel::Op op_a, const SmallMatrix& b, kernel::Op op_b);
/// Part of a matrix, and one matrix put into another.
SmallMatrix part(const SmallMatrix& a, Index row, Index col, Index rows, Index cols);
void put(const SmallMatrix& from, SmallMatrix& to, Index row, Index col);
SmallMatrix adjoint(const SmallMatrix& a);

/// In memory that the graph knows, for tasks; and back. In planned runs only the bytes count.
Array upload(Graph& graph, const SmallMatrix& matrix);
SmallMatrix download(const Graph& graph, const Array& array);

/// Of a Hermitian matrix: values ascending; column j of `vectors` belongs to value j.
struct SmallEigen {
  std::vector<double> values;
  SmallMatrix vectors;
};
/// NumericalError where A holds NaN or Inf. 9 n³ flops, complex four times as many.
SmallEigen eigen(const SmallMatrix& a);
/// Bytes that eigen takes, beside A.
std::uint64_t eigen_bytes(Dtype dtype, Index n);

}  // namespace flagstone::spectral
