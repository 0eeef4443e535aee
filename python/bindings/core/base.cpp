// Bytes, dtypes and what the kernel says of this process.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::python {
namespace {

Dtype dtype_of(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  const auto is = [&](Code code, int bits) {
    return type.code == static_cast<std::uint8_t>(code) && type.bits == bits;
  };
  struct Row {
    Code code;
    int bits;
    Dtype dtype;
  };
  static constexpr Row rows[] = {{Code::Bool, 8, Dtype::boolean},       {Code::Int, 8, Dtype::int8},
                                 {Code::Int, 16, Dtype::int16},         {Code::Int, 32, Dtype::int32},
                                 {Code::Int, 64, Dtype::int64},         {Code::UInt, 8, Dtype::uint8},
                                 {Code::UInt, 16, Dtype::uint16},       {Code::UInt, 32, Dtype::uint32},
                                 {Code::UInt, 64, Dtype::uint64},       {Code::Float, 16, Dtype::float16},
                                 {Code::Float, 32, Dtype::float32},     {Code::Float, 64, Dtype::float64},
                                 {Code::Complex, 64, Dtype::complex64}, {Code::Complex, 128, Dtype::complex128}};
  for (const Row& row : rows)
    if (is(row.code, row.bits)) return row.dtype;
  throw ShapeError("array: this NumPy dtype cannot be stored; convert it with astype first.");
}

}  // namespace

nb::dlpack::dtype dlpack_of(Dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  const Code code = dtype == Dtype::boolean   ? Code::Bool
                    : is_complex(dtype)       ? Code::Complex
                    : dtype >= Dtype::float16 ? Code::Float
                    : dtype >= Dtype::uint8   ? Code::UInt
                                              : Code::Int;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

Tile tile_of(const nb::ndarray<nb::ro>& array) {
  Tile tile;
  tile.data = static_cast<std::byte*>(const_cast<void*>(array.data()));
  tile.dtype = dtype_of(array.dtype());
  const auto item = static_cast<Index>(size_of(tile.dtype));
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    tile.shape.push_back(static_cast<Index>(array.shape(d)));
    tile.strides.push_back(array.stride(d) * item);
  }
  tile.bytes = static_cast<std::size_t>(count(tile.shape)) * static_cast<std::size_t>(item);
  return tile;
}

void bind_base(nb::module_& m) {
  m.def("format_bytes", &format_bytes);
  m.def("parse_bytes", &parse_bytes);
  m.def("allowed_memory", &allowed_memory);
  m.def("resident_bytes", &resident_bytes);
  m.def("peak_resident_bytes", &peak_resident_bytes);
  m.def("reset_peak_resident", &reset_peak_resident);
  m.def("set_blas_threads", &kernel::set_blas_threads);
  m.def("blas_threads", &kernel::blas_threads);
}

}  // namespace flagstone::python
