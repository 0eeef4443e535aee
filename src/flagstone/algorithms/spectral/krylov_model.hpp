#pragma once
// How wide a block is, and how many applications are expected: what plans count with.
#include <cstdint>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::spectral {

/// Columns of a block for k eigenpairs of an n x n matrix: k and a quarter more, in whole vectors of the machine.
Index krylov_block(Index k, Index n);
/// Expected applications until the error is below tol. Model: sigma_j falls at least like j^(-1/3), so that
/// sigma_k² / sigma_(b+1)² = 1 + g with 1 + g = ((b + 1) / k)^(2/3); an application multiplies the error of sigma by
/// exp(-4 sqrt(g)) (Chebyshev polynomials of the block Krylov space) and the first two leave about 0.05. One more is
/// added, because k often reaches into noise, whose tail is flatter than that.
int krylov_steps(Index k, Index block, Index n, double tol);
/// The same where nothing falls: the edge of the spectrum of independent noise, where the first two applications leave
/// 0.5, and a quarter more. Held against Marchenko and Pastur's law for square X in krylov_test; no spectrum was found
/// that needs more, but it is no proof: the iteration itself ends at krylov_most_steps.
int krylov_steps_of_noise(Index k, Index block, Index n, double tol);

/// Blocks that a basis has at most.
int krylov_blocks(Index block, Index n, int steps);
/// Bytes of H, its eigenvectors and the rest of the small algebra; and all that block_krylov holds at most.
std::uint64_t krylov_small_bytes(Index block, Index n, int steps);
std::uint64_t krylov_bytes(Index k, Index block, Index n, int steps, Dtype dtype);
/// The dense algebra of one application on a basis of so many blocks.
Cost krylov_work(Index n, Index block, int blocks);

}  // namespace flagstone::spectral
