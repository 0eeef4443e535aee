#pragma once
// The verbs of dense algebra on tiles: each adds one task.
#include <complex>

#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/tiled/tiled.hpp"

namespace flagstone::linalg {

/// C := alpha A B + beta C_in. Without `c_in` it is C itself: updated, or written only where beta is 0. Of `c_in` C's
/// own box is read. What is changed may be transposed, but not conjugated. Tiles of stacks: each matrix of C's with its
/// own of A's and B's, or with the one that there is. Cost: 2 rows cols depth flops each (four times as many complex
/// ones).
void gemm(Graph& graph, std::complex<double> alpha, const MatrixTile& a, const MatrixTile& b, std::complex<double> beta,
          const MatrixTile& c, const Array* c_in = nullptr);
/// C := beta C - A B, and the lower triangle of C := C - A Aᴴ, of factorizations and substitutions: what is below the
/// smallest normal number becomes zero, as in trsm and potrf.
void downdate(Graph& graph, const MatrixTile& a, const MatrixTile& b, const MatrixTile& c,
              std::complex<double> beta = 1.0);
void downdate(Graph& graph, const MatrixTile& a, const MatrixTile& c);

using kernel::Part;
using kernel::Side;
using kernel::Uplo;

/// op(X) of which one triangle counts; `uplo`: which one, of op(X). The other may hold anything.
struct TriangularTile {
  MatrixTile tile;
  Uplo uplo = Uplo::lower;
  bool unit = false;  // ones on the diagonal, whatever is stored there
};
TriangularTile lower(MatrixTile x);
TriangularTile upper(MatrixTile x);
TriangularTile adjoint(TriangularTile x);

/// To := op(From), or a triangle of it and zeros, of the tile itself too; `shift` is added to its diagonal. PivotError
/// with the place of a NaN or Inf, counted from `place`, where that names somebody.
void take(Graph& graph, Part part, const MatrixTile& from, double shift, const MatrixTile& to, call::Place place);
/// PivotError with the place of a NaN or Inf in A, whose first element is at `place`.
void look(Graph& graph, Part part, bool unit, const MatrixTile& a, call::Place place);
/// The place of a tile of right-hand sides, or of the solution that it becomes; `x` is not transposed.
call::Place right_side(std::string who, const MatrixTile& x);
/// The lower triangle of C := alpha A Aᴴ + beta C. Cost: rows² depth flops (four times as many complex ones).
void herk(Graph& graph, double alpha, const MatrixTile& a, double beta, const MatrixTile& c);
/// To := Fromᵀ, or Fromᴴ where `conjugate`: the other half of a symmetric matrix. The tile itself: its upper triangle
/// := the lower one (transposed: the other way round).
void mirror(Graph& graph, bool conjugate, const MatrixTile& from, const MatrixTile& to);
/// To := this part of another array.
void copy(Graph& graph, const Region& from, const MatrixTile& to);
/// To := To + From, of which nothing is needed afterwards.
void sum_up(Graph& graph, const MatrixTile& from, const MatrixTile& to);
/// B := alpha A⁻¹ B (left) or alpha B A⁻¹ (right). Cost: rows² cols or rows cols² flops (complex: four times).
/// PivotError with the place of a zero on A's diagonal, counted from `place`, where that names somebody. A's diagonal,
/// as it is stored, is copied to `diagonal`, where that is given.
void trsm(Graph& graph, Side side, const TriangularTile& a, std::complex<double> alpha, const MatrixTile& b,
          call::Place place = {}, const Region* diagonal = nullptr);
/// The lower triangle of A := L with L Lᴴ = A. Cost: n³/3 flops (complex: four times). PivotError with the order
/// of the leading minor that is not positive.
void potrf(Graph& graph, const MatrixTile& a, call::Place place);

}  // namespace flagstone::linalg
