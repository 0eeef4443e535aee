#pragma once
// Balanced spherical 2-means: labels of a node in two halves of like centroids.
#include <vector>

#include "flagstone/kernel/labels/points.hpp"

namespace flagstone::kernel {

inline constexpr Index most_rounds = 100;   // of one node
inline constexpr double least_gain = 1e-4;  // of the mean cosine

/// Which of n labels go left: those with the larger scores, ties by place; ⌈n / 2⌉ of them.
void larger_half(const double* scores, Index n, std::uint8_t* left, std::vector<Index>& order);
/// The two labels that a node begins with: different ones of n.
std::pair<Index, Index> first_two(Index n, std::uint64_t seed);

/// Orders the labels `labels[0, n)` (rows of x of unit length) so that the first ⌈n / 2⌉ are one half: Prabhu et al.
/// 2018, section 4. `centre`: features numbers. 4 nnz flops a round.
void split_in_halves(const SparsePoints& x, Index features, std::int32_t* labels, Index n, std::uint64_t seed,
                     double* left, double* right);

}  // namespace flagstone::kernel
