#pragma once
// Eigenpairs of a symmetric matrix in memory: what is left to do once a Gram matrix has been formed.
#include "flagstone/algorithms/spectral/krylov.hpp"

namespace flagstone::spectral {

/// Largest k eigenpairs of g (side x side float64 in memory, lower triangle, destroyed). Divide and conquer, 9 side³
/// flops on the calling thread, where the matrix is small or many pairs are wanted; else block Krylov on the matrix in
/// memory, to well below tol, in tasks of row strips.
KrylovResult gram_eigenpairs(Graph& graph, const Array& g, Index k, double tol, std::uint64_t seed);
/// Bytes besides g.
std::uint64_t gram_eigenpairs_bytes(Index side, Index k, double tol);
/// Seconds on one core of 5e10 float64 flops a second.
double gram_eigenpairs_seconds(Index side, Index k, double tol);

}  // namespace flagstone::spectral
