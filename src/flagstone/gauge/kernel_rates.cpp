#include "flagstone/gauge/kernel_rates.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/factor/qr.hpp"

namespace flagstone::gauge {
namespace {

constexpr Index inner_block = 64;  // as a tile QR takes

/// Three tiles A, B, C, a row of pivots or the factors T, and room for work.
enum Place : std::uint32_t { a, b, c, t, room };

struct Operands {
  Dtype dtype;
  Index n;
  std::unique_ptr<Buffer> memory;
  std::vector<Tile> tiles;

  Operands(Dtype dtype, Index n) : dtype(dtype), n(n) {
    const auto item = static_cast<Index>(size_of(dtype));
    const auto whole = static_cast<std::size_t>(n * n * item), row = static_cast<std::size_t>(n * 8 * inner_block);
    const std::size_t work = kernel::qr_work_bytes(dtype, inner_block, n) + 4096;
    memory = std::make_unique<Buffer>(3 * whole + row + work);
    std::byte* at = memory->data();
    for (int i = 0; i < 3; ++i, at += whole) tiles.push_back({at, dtype, {n, n}, {n * item, item}, whole});
    tiles.push_back({at, dtype, {n, inner_block}, {inner_block * item, item}, row});
    tiles.push_back({at + row, Dtype::uint8, {static_cast<Index>(work)}, {1}, work});
    visit_blas_type(dtype, [&](auto zero) { fill<decltype(zero)>(); });
  }

  /// What stays as it is after any number of calls in place: A is the identity, B and C small random numbers beside a
  /// diagonal of ones.
  template <class T>
  void fill() {
    std::uint32_t state = 1;
    for (int i = 0; i < 3; ++i) {
      T* x = tiles[i].as<T>();
      for (Index k = 0; k < n * n; ++k) {
        state = state * 1664525 + 1013904223;
        const double random = static_cast<double>(state >> 8) / (1 << 24) - 0.5;
        x[k] = static_cast<T>((tiles[i].data == memory->data() ? 0.0 : random / static_cast<double>(n)) +
                              (k % (n + 1) == 0 ? 1.0 : 0.0));
      }
    }
  }
};

TilePart part(Place place, bool transpose = false) { return {place, transpose, false, {}}; }

struct Rated {
  const char* name;
  double cubes;  // flops / n³
  std::function<Call(Dtype, Index)> call;
};

call::QrOptions qr_options() { return {.ib = inner_block, .adjoint = true, .triangle = false, .work = room}; }

const std::vector<Rated>& rated() {
  using kernel::Side, kernel::Uplo;
  static const std::vector<Rated> all{
      {"gemm", 2, [](Dtype d, Index) { return call::gemm(d, -1, part(a), part(b), 1, part(c)); }},
      {"herk", 1, [](Dtype d, Index) { return call::herk(d, Uplo::lower, -1, part(a), 1, part(c)); }},
      {"trsm", 1,
       [](Dtype d, Index) { return call::trsm(d, Side::right, Uplo::upper, false, 1, part(a, true), part(b)); }},
      {"potrf", 1.0 / 3,
       [](Dtype d, Index) {
         return call::potrf(d, Uplo::lower, part(a), {"gauge", 0, 0});
       }},
      {"geqrt", 4.0 / 3, [](Dtype d, Index) { return call::geqrt(d, qr_options(), part(t, true), part(b, true)); }},
      {"tpqrt", 2,
       [](Dtype d, Index) { return call::tpqrt(d, qr_options(), part(t, true), part(b, true), part(a, true)); }},
      {"gemqrt", 2,
       [](Dtype d, Index) { return call::gemqrt(d, qr_options(), part(b, true), part(t, true), part(c, true)); }},
      {"tpmqrt", 4,
       [](Dtype d, Index) {
         return call::tpmqrt(d, qr_options(), part(a, true), part(t, true), part(b, true), part(c, true));
       }},
  };
  return all;
}

}  // namespace

std::vector<std::string> rated_kernels() {
  std::vector<std::string> names;
  for (const Rated& one : rated()) names.emplace_back(one.name);
  return names;
}

KernelWork kernel_rate(const std::string& kernel, Dtype dtype, Index n, const Work& work) {
  const auto found = std::find_if(rated().begin(), rated().end(), [&](const Rated& one) { return kernel == one.name; });
  if (found == rated().end()) throw Error("gauge: the rate of " + kernel + " is not measured.");
  if (dtype != Dtype::float32 && dtype != Dtype::float64)
    throw ShapeError("gauge: " + kernel + " of " + std::string(name_of(dtype)) + "; float32 or float64 is needed.");
  if (n < inner_block)
    throw ShapeError("gauge: tiles of " + std::to_string(n) + " rows; at least " + std::to_string(inner_block) +
                     " are needed.");
  const kernel::BlasThreads blas(1);
  const double edge = static_cast<double>(n), flops = found->cubes * edge * edge * edge;
  const auto prepare = [&]() -> std::function<void()> {
    auto operands = std::make_shared<Operands>(dtype, n);
    return [operands, call = found->call(dtype, n)] { host_kernels().run(call, operands->tiles); };
  };
  return {flops, run_on_all(work, flops, prepare)};
}

}  // namespace flagstone::gauge
