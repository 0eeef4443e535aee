#pragma once
// Values of sparse matrices from one dtype to another, as a product needs them.
#include "flagstone/base/dtype.hpp"

namespace flagstone::sparse {

/// complex64 of float32, complex128 of float64.
Dtype complex_of(Dtype real) noexcept;

/// n values, from any dtype to float32, float64, a complex one, or int64 (whole numbers; those of uint64 beyond it
/// wrap). From complex to real ShapeError. `from` may equal `to` where both have one size.
void convert_values(const std::byte* from, Dtype from_dtype, Index n, std::byte* to, Dtype to_dtype);

/// The same in place between real and complex numbers of one precision: (x, 0) of each x. `values` has room for n of
/// the wider ones.
void widen_to_complex(std::byte* values, Dtype real, Index n);

}  // namespace flagstone::sparse
