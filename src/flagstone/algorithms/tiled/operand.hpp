#pragma once
// A matrix as dense algebra takes it: an array, transposed and/or conjugated where it is used.
#include "flagstone/storage/array/array.hpp"

namespace flagstone::linalg {

/// op(array): transposed and/or conjugated when it is used.
struct Operand {
  Array array;
  bool transpose = false, conjugate = false;

  Index rows() const { return array.shape()[transpose ? 1 : 0]; }
  Index cols() const { return array.shape()[transpose ? 0 : 1]; }
};

}  // namespace flagstone::linalg
