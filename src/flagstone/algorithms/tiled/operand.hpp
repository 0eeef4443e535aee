#pragma once
// A matrix as dense algebra takes it: an array, transposed and/or conjugated where it is used.
#include "flagstone/storage/array/array.hpp"

namespace flagstone::linalg {

/// op(array): transposed and/or conjugated when it is used. Of a stack of matrices the last two dimensions are theirs.
struct Operand {
  Array array;
  bool transpose = false, conjugate = false;

  Index rows() const { return array.shape()[array.ndim() - (transpose ? 1 : 2)]; }
  Index cols() const { return array.shape()[array.ndim() - (transpose ? 2 : 1)]; }
};

}  // namespace flagstone::linalg
