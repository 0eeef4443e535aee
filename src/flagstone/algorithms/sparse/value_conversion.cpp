#include "flagstone/algorithms/sparse/value_conversion.hpp"

#include <cstring>
#include <type_traits>

#include "flagstone/base/error.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::sparse {
namespace {

Tile row_of(std::byte* data, Dtype dtype, Index n) {
  const auto item = static_cast<Index>(size_of(dtype));
  return {data, dtype, {n}, {item}, static_cast<std::size_t>(n * item)};
}

void to_integers(const std::byte* from, Dtype dtype, Index n, std::byte* to) {
  auto* wide = reinterpret_cast<std::int64_t*>(to);
  visit_real_type(dtype, [&](auto sample) {
    using From = decltype(sample);
    if constexpr (std::is_integral_v<From> || std::is_same_v<From, Truth>)
      for (Index i = 0; i < n; ++i) wide[i] = static_cast<std::int64_t>(+reinterpret_cast<const From*>(from)[i]);
    else
      throw ShapeError("csr: values are " + std::string(name_of(dtype)) + "; integers are needed.");
  });
}

/// Of interleaved real numbers each one alone.
void to_other_precision(const std::byte* from, Dtype from_dtype, Index n, std::byte* to, Dtype to_dtype) {
  const Dtype real = real_part_of(from_dtype), target = real_part_of(to_dtype);
  kernel::convert(row_of(const_cast<std::byte*>(from), real, 2 * n), nullptr, row_of(to, target, 2 * n));
}

}  // namespace

Dtype complex_of(Dtype real) noexcept { return real == Dtype::float32 ? Dtype::complex64 : Dtype::complex128; }

void widen_to_complex(std::byte* values, Dtype real, Index n) {
  const auto widen = [&]<class Real>(Real* at) {
    for (Index i = n - 1; i >= 0; --i) {
      const Real value = at[i];
      at[2 * i] = value, at[2 * i + 1] = 0;
    }
  };
  if (real == Dtype::float32)
    widen(reinterpret_cast<float*>(values));
  else
    widen(reinterpret_cast<double*>(values));
}

void convert_values(const std::byte* from, Dtype from_dtype, Index n, std::byte* to, Dtype to_dtype) {
  if (n == 0) return;
  if (is_complex(from_dtype) && !is_complex(to_dtype))
    throw ShapeError("csr: values are " + std::string(name_of(from_dtype)) + " and " + std::string(name_of(to_dtype)) +
                     " is asked for; take A.real, A.imag or abs(A).");
  if (to_dtype == Dtype::int64) return to_integers(from, from_dtype, n, to);
  if (is_complex(from_dtype)) return to_other_precision(from, from_dtype, n, to, to_dtype);
  const Dtype real = real_part_of(to_dtype);
  kernel::convert(row_of(const_cast<std::byte*>(from), from_dtype, n), nullptr, row_of(to, real, n));
  if (is_complex(to_dtype)) widen_to_complex(to, real, n);
}

}  // namespace flagstone::sparse
