#pragma once
// Decoded CSR rows times dense blocks over other additions and multiplications than + and x.
#include "flagstone/base/semiring.hpp"
#include "flagstone/kernel/sparse/csr.hpp"

namespace flagstone::kernel {

/// A row-major block of elements, some of which may not be there.
struct SemiringBlock {
  Tile elements;  // of semiring_block or, of X, of semiring_vector
  Tile there;     // a byte for each, 0 where it is not; data null: all are there
};

/// What A's values are decoded as, what X holds and what the product holds, where `real` is the dtype asked for:
/// float32, float64 or int64. or_and: float64, boolean and boolean; plus_pair: float32, boolean and int64. min_first
/// takes of X, as a boolean, and min_second of A, as float32, what it does not look at.
Dtype semiring_values(Semiring semiring, Dtype real);
Dtype semiring_vector(Semiring semiring, Dtype real);
Dtype semiring_block(Semiring semiring, Dtype real);

// The dtype of the product is that of the block that is changed. In all: one step for a value and a column of the
// block; what lies in one order is added in that order, so bits depend on neither the width nor stretches of rows.
// Minima and maxima keep NaN. Sums of whole numbers wrap in plus_times, and saturate elsewhere: the largest number of
// min_plus (the least of max_plus) stands for infinity and stays.

/// to := what adds nothing: 0, +Inf or the largest number, -Inf or the least, false; nothing is there.
void semiring_start(Semiring semiring, const SemiringBlock& to);
/// T := A X, or T := T + A X (`on`). A row of or_and stops at its first true.
void csr_semiring(Semiring semiring, const CsrRows& a, const SemiringBlock& x, const SemiringBlock& t, bool on = false);
/// Y := Y + Aᵀ T.
void csr_semiring_transposed(Semiring semiring, const CsrRows& a, const SemiringBlock& t, const SemiringBlock& y);
/// to := to + from, element by element.
void semiring_join(Semiring semiring, const SemiringBlock& from, const SemiringBlock& to);

/// What becomes of a product T and of what Y had: T, added to it where there is an old Y, for the elements that are
/// wanted; what Y had, or nothing, for the others. Tiles of any strides.
struct SemiringMerge {
  Tile t;
  Tile old;                 // data null: nothing was there
  Tile mask;                // boolean; data null: all are wanted; of Y's shape, or {rows, 1}: by rows
  bool complement = false;  // those are wanted that the mask leaves out
  bool compact = false;     // by rows: T holds those rows alone that are wanted, in their order
};
/// T of the semiring's block dtype, Y and what it had of it, or of integers that sums in int64 are converted to.
void semiring_merge(Semiring semiring, const SemiringMerge& merge, const Tile& y);

}  // namespace flagstone::kernel
