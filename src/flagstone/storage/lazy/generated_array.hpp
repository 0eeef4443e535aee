#pragma once
// Arrays whose elements follow from their place: nothing is stored, nothing is read.
#include <cstddef>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Every element is the size_of(dtype) bytes at `value`.
Array constant_array(const Shape& shape, Dtype dtype, const void* value);

/// start + i * step in the arithmetic of `dtype` (int64, uint64, float32 or float64; integers modulo 2^64). `start` and
/// `step` are elements of it, `last`, where it is given, is the last element.
Array linear_array(Index count, Dtype dtype, const void* start, const void* step, const void* last = nullptr);

/// The size_of(dtype) bytes at `value` where column - row is `diagonal`, zero elsewhere.
Array diagonal_array(Index rows, Index cols, Dtype dtype, Index diagonal, const void* value);

/// Booleans: whether column - row <= diagonal, in the last two dimensions.
Array lower_triangle(const Shape& shape, Index diagonal);

}  // namespace flagstone
