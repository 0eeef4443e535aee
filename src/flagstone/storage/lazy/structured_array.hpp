#pragma once
// Matrices of which one triangle is stored, seen whole: symmetric, Hermitian, triangular.
#include "flagstone/storage/array/array.hpp"

namespace flagstone {

struct Structure {
  enum class Kind { symmetric, hermitian, triangular };
  Kind kind = Kind::symmetric;
  bool lower = true;           // which triangle of the member counts; the other one is never looked at
  bool unit_diagonal = false;  // triangular: ones on the diagonal, whatever is stored there
};

/// The square matrix that a triangle of `member` is: mirrored (Hermitian: conjugated, with a real diagonal), or with
/// zeros (of any m x n member: a trapezoid). Nothing is moved: a box inside the triangle travels as it does in the
/// member, one beside it as its mirror, one across the diagonal is put together on arrival. ShapeError where a member
/// to be mirrored is not square.
Array structured_array(const Array& member, const Structure& structure);

}  // namespace flagstone
