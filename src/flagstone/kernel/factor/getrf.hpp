#pragma once
// LU factorization of a panel, and the exchanges of rows that it chose.
#include <cstdint>
#include <span>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// P A = L U in place for an m x n tile, m >= n: LAPACK's pivots, the largest |Re| + |Im| of the column from the
/// diagonal down, the first of equal ones. pivots[j]: with which row, counted from 0, row j was exchanged. Returns
/// LAPACK's info: 0, or the first column, from 1, whose pivot is zero; the factorization goes on. Recursive by columns
/// (Toledo 1997): products and solves do the work. Cost: m n² - n³/3 flops, four times that where complex. `work`:
/// getrf_work_bytes of its rows, where a few columns at a time are eliminated one by one.
int getrf(const Tile& a, std::span<std::int64_t> pivots, std::byte* work);
std::size_t getrf_work_bytes(Dtype dtype, Index rows);

/// Rows `first + i` and pivots[i] exchanged for each i, upwards; backwards the last one first. Rows are counted in what
/// the two tiles are, one above the other (either may be empty), whose first one is `origin`.
void laswp(const Tile& upper, const Tile& lower, Index origin, Index first, std::span<const std::int64_t> pivots,
           bool backwards = false);

}  // namespace flagstone::kernel
