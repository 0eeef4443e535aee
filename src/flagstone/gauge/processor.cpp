#include "flagstone/gauge/processor.hpp"

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/decode/blosc.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/codec/encode.hpp"

namespace flagstone::gauge {
namespace {

/// Values and columns of a part of a sparse matrix, plain and packed. Outside malloc: what threads leave in its arenas
/// would count against the next limit.
struct Stored {
  static constexpr auto elements = static_cast<std::size_t>(kernel::decode_step);
  static constexpr std::size_t bytes = elements * (sizeof(float) + sizeof(std::uint16_t));

  Stored() {
    auto* to_values = reinterpret_cast<float*>(values.data());
    auto* to_columns = reinterpret_cast<std::uint16_t*>(columns.data());
    std::uint32_t state = 1;
    std::uint32_t column = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      state = state * 1664525 + 1013904223;
      const std::uint32_t bits = state >> 16;
      int count = 1;  // geometric: half of the counts are one
      for (std::uint32_t left = bits; left & 1; left >>= 1) ++count;
      to_values[i] = static_cast<float>(count);
      column = (column + 1 + bits % 35) % 5000;  // 280 of 5,000 columns a row
      to_columns[i] = static_cast<std::uint16_t>(column);
    }
    pack();
  }

  void pack() {
    value_bytes = encode_blosc({values.data(), elements * 4}, 4, {packed_values.data(), packed_values.size()});
    column_bytes = encode_blosc({columns.data(), elements * 2}, 2, {packed_columns.data(), packed_columns.size()});
  }

  void unpack() {
    const auto decode = [&](const Buffer& from, std::size_t packed, std::size_t item, const Buffer& to) {
      return kernel::decode_blosc({from.data(), packed}, item, elements, 0, elements, to.data(),
                                  {workspace.data(), workspace.size()});
    };
    const char* wrong = decode(packed_values, value_bytes, 4, values);
    if (!wrong) wrong = decode(packed_columns, column_bytes, 2, columns);
    if (wrong) throw Error(std::string("gauge: a packed chunk ") + wrong + ".");
  }

  Buffer values{elements * 4}, columns{elements * 2};
  Buffer packed_values{elements * 4 + 16}, packed_columns{elements * 2 + 16}, workspace{kernel::decode_workspace};
  std::size_t value_bytes = 0, column_bytes = 0;
};

}  // namespace

Rate gemm_rate(Dtype dtype, Index n, const Work& work) {
  if (dtype != Dtype::float32 && dtype != Dtype::float64)
    throw ShapeError("gauge: gemm of " + std::string(name_of(dtype)) + "; float32 or float64 is needed.");
  if (n < 1) throw ShapeError("gauge: tiles of " + std::to_string(n) + " rows; at least 1 is needed.");
  const kernel::BlasThreads blas(1);
  const auto item = static_cast<Index>(size_of(dtype));
  const auto bytes = static_cast<std::size_t>(n * n * item);
  return run_on_all(work, 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n), [=] {
    auto buffer = std::make_shared<Buffer>(3 * bytes);
    const auto tile = [&](std::size_t i) {
      return Tile{buffer->data() + i * bytes, dtype, {n, n}, {n * item, item}, bytes};
    };
    const Tile a = tile(0), b = tile(1), c = tile(2);
    std::memset(buffer->data(), 0, 3 * bytes);  // zeros cost what numbers cost, and never become subnormal
    return [=] {
      (void)buffer;
      kernel::gemm(1.0, a, {}, b, {}, 1.0, c, nullptr);
    };
  });
}

Rate copy_rate(std::uint64_t bytes, const Work& work) {
  return run_on_all(work, 2.0 * static_cast<double>(bytes), [=] {
    auto buffer = std::make_shared<Buffer>(2 * bytes);
    std::memset(buffer->data(), 1, 2 * bytes);
    return [=] { std::memcpy(buffer->data() + bytes, buffer->data(), bytes); };
  });
}

Rate encode_rate(const Work& work) {
  return run_on_all(work, Stored::bytes, [] { return [data = std::make_shared<Stored>()] { data->pack(); }; });
}

Rate decode_rate(const Work& work) {
  return run_on_all(work, Stored::bytes, [] { return [data = std::make_shared<Stored>()] { data->unpack(); }; });
}

}  // namespace flagstone::gauge
