#pragma once
// Householder QR of tiles, with inner blocking: a tile, a triangle on a tile or on a triangle, and what their
// reflectors do to others. LAPACK's geqrt, tpqrt and tpmqrt (Elmroth and Gustavson 2000; Buttari, Langou,
// Kurzak and Dongarra 2009).
#include <cstddef>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

// All matrices are tiles of one dtype (float32, float64, complex64, complex128) whose columns are contiguous
// (strides[0] is the element's size). T is ib x (reflectors): the triangular factors of blocks of ib reflectors.
// `work`: qr_work_bytes, of the columns that a call factors or changes. Flops complex: four times as many.

/// Bytes of `work`.
std::size_t qr_work_bytes(Dtype dtype, Index ib, Index cols);

/// A (m x n) := R in its upper triangle, V below; min(m, n) reflectors. 2 n² (m - n/3) flops and ib/(2n) more for T.
void geqrt(Index ib, const Tile& a, const Tile& t, std::byte* work);
/// [R; B] := the new R (n x n, of which the upper triangle alone is touched) and V (in B). B is m x n: of `triangle`
/// its upper triangle alone (m = n). 2 m n² flops; of a triangle 2 n³/3.
void tpqrt(Index ib, bool triangle, const Tile& r, const Tile& b, const Tile& t, std::byte* work);
/// C := Qᴴ C (`adjoint`) or Q C, with what geqrt left: V is m x k, C m x n. 4 m n k - 2 n k² flops. Q = I - V T Vᴴ by
/// blocks (Schreiber and Van Loan 1989); LAPACK's gemqrt turns C's rows for every block and has half of this rate.
void gemqrt(Index ib, bool adjoint, const Tile& v, const Tile& t, const Tile& c, std::byte* work);
/// [A; B] := Qᴴ [A; B] or Q [A; B], with what tpqrt left: V is m x k, A k x n, B m x n. 4 m n k flops; of a triangle
/// about half.
void tpmqrt(Index ib, bool adjoint, bool triangle, const Tile& v, const Tile& t, const Tile& a, const Tile& b,
            std::byte* work);

/// to(i, j) := 1 where i + row == j, else 0.
void set_identity(Index row, const Tile& to);

}  // namespace flagstone::kernel
