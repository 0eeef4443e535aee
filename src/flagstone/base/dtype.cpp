#include "flagstone/base/dtype.hpp"

#include <array>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

struct Entry {
  std::string_view name;
  std::size_t size;
};
constexpr std::array<Entry, 14> table = {{{"bool", 1},
                                          {"int8", 1},
                                          {"int16", 2},
                                          {"int32", 4},
                                          {"int64", 8},
                                          {"uint8", 1},
                                          {"uint16", 2},
                                          {"uint32", 4},
                                          {"uint64", 8},
                                          {"float16", 2},
                                          {"float32", 4},
                                          {"float64", 8},
                                          {"complex64", 8},
                                          {"complex128", 16}}};

}  // namespace

std::size_t size_of(Dtype dtype) noexcept { return table[static_cast<std::size_t>(dtype)].size; }
std::string_view name_of(Dtype dtype) noexcept { return table[static_cast<std::size_t>(dtype)].name; }

Dtype dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return static_cast<Dtype>(i);
  throw FormatError("dtype: '" + std::string(name) +
                    "' is not supported; use bool, (u)int8-64, float16-64, complex64 or complex128.");
}

bool is_complex(Dtype dtype) noexcept { return dtype == Dtype::complex64 || dtype == Dtype::complex128; }
bool is_integer(Dtype dtype) noexcept { return dtype <= Dtype::uint64; }

Dtype real_part_of(Dtype dtype) noexcept {
  if (dtype == Dtype::complex64) return Dtype::float32;
  if (dtype == Dtype::complex128) return Dtype::float64;
  return dtype;
}

}  // namespace flagstone
