#include "flagstone/kernel/dense/blas3.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/cblas.hpp"
#include "flagstone/kernel/dense/layout.hpp"

namespace flagstone::kernel {
namespace {

/// An operand as BLAS gets it, in the order of C.
struct Operand {
  const void* data = nullptr;
  Index ld = 0;
  CBLAS_TRANSPOSE op = CblasNoTrans;
  bool copy = false;  // conjugated without transposition, or strided both ways: packed into scratch first
};

Operand plan_operand(const Tile& t, Op op, bool row_major) {
  const BlasLayout layout = blas_layout(t);
  const bool conjugate = op.conjugate && is_complex(t.dtype);
  // Stored in the other order, the operand looks transposed to BLAS.
  const Index straight = row_major ? layout.row_ld : layout.column_ld;
  const Index flipped = row_major ? layout.column_ld : layout.row_ld;
  const auto as = [&](bool transpose) { return !transpose ? CblasNoTrans : conjugate ? CblasConjTrans : CblasTrans; };
  // A vector fits both orders: take the one in which BLAS can conjugate.
  if (straight > 0 && (op.transpose || !conjugate)) return {t.data, straight, as(op.transpose)};
  if (flipped > 0 && (!op.transpose || !conjugate)) return {t.data, flipped, as(!op.transpose)};
  Operand packed{nullptr, 0, op.transpose ? CblasTrans : CblasNoTrans, true};
  packed.ld = std::max<Index>(1, row_major ? t.shape[1] : t.shape[0]);
  return packed;
}

/// BLAS packs as much of an operand as the result is long in its outer dimension (24 MiB for 5,120 of float64 and up);
/// the reserve that is held for it was measured with results of this length. A multiple of every kernel's step: bits
/// are those of one call.
constexpr Index longest_result = 2048;

/// Rows `first` and following of an operand that is not transposed; its columns else.
const void* from(const Operand& operand, Index first, std::size_t item) {
  const Index step = operand.op == CblasNoTrans ? operand.ld : 1;
  return static_cast<const std::byte*>(operand.data) + first * step * static_cast<Index>(item);
}

std::size_t operand_bytes(const Tile& t) {
  return align_up(static_cast<std::uint64_t>(count(t.shape)) * size_of(t.dtype), 64);
}

/// Packs (and conjugates) into `scratch`, which is advanced.
void pack(const Tile& t, Op op, bool row_major, Operand& operand, std::byte*& scratch) {
  if (!operand.copy) return;
  const auto item = static_cast<Index>(size_of(t.dtype));
  Tile to = t;
  to.data = scratch;
  to.strides = row_major ? Shape{operand.ld * item, item} : Shape{item, operand.ld * item};
  copy(t, to);
  if (op.conjugate && is_complex(t.dtype))
    visit_blas_type(real_part_of(t.dtype), [&](auto sample) {
      auto* part = to.as<decltype(sample)>();
      const Index n = 2 * count(t.shape);
      for (Index i = 1; i < n; i += 2) part[i] = -part[i];
    });
  operand.data = scratch;
  scratch += operand_bytes(t);
}

bool blas_dtype(Dtype dtype) { return dtype == Dtype::float32 || dtype == Dtype::float64 || is_complex(dtype); }

/// `text` makes the sentence, which only who is wrong pays for: small products come by millions.
template <class Text>
void require(bool good, Text&& text) {
  if (!good) throw ShapeError(text());
}

/// C := beta C, where there is nothing to multiply.
void scale(std::complex<double> beta, const Tile& c) {
  visit_blas_type(c.dtype, [&](auto sample) {
    using T = decltype(sample);
    T factor;
    if constexpr (std::is_floating_point_v<T>)
      factor = static_cast<T>(beta.real());
    else
      factor = T(beta);
    for (Index i = 0; i < c.shape[0]; ++i)
      for (Index j = 0; j < c.shape[1]; ++j) {
        auto* at = reinterpret_cast<T*>(c.data + i * c.strides[0] + j * c.strides[1]);
        *at = factor == T{} ? T{} : *at * factor;
      }
  });
}

struct GemmShape {
  Index m, n, k;
};

GemmShape check_gemm(const Tile& a, Op op_a, const Tile& b, Op op_b, const Tile& c) {
  require(a.shape.size() == 2 && b.shape.size() == 2 && c.shape.size() == 2,
          [&] { return "gemm: every tile must have 2 dimensions."; });
  require(a.dtype == c.dtype && b.dtype == c.dtype && blas_dtype(c.dtype), [&] {
    return "gemm: tiles are " + std::string(name_of(a.dtype)) + ", " + std::string(name_of(b.dtype)) + " and " +
           std::string(name_of(c.dtype)) + "; one of float32, float64, complex64, complex128 is needed for all.";
  });
  const Index m = a.shape[op_a.transpose], k = a.shape[!op_a.transpose];
  const Index kb = b.shape[op_b.transpose], n = b.shape[!op_b.transpose];
  require(k == kb && c.shape[0] == m && c.shape[1] == n, [&] {
    return "gemm: op(A) is " + to_string({m, k}) + ", op(B) " + to_string({kb, n}) + " and C " + to_string(c.shape) +
           "; they do not conform.";
  });
  require(m <= blas_max && n <= blas_max && k <= blas_max,
          [&] { return "gemm: a tile extent above 2^31 - 1 was given; BLAS counts in 32 bits, use smaller tiles."; });
  return {m, n, k};
}

bool row_major_result(const Tile& c) {
  const BlasLayout layout = blas_layout(c);
  require(layout.row_ld > 0 || layout.column_ld > 0, [&] { return "gemm: C must have one unit stride."; });
  return layout.row_ld > 0;
}

}  // namespace

std::size_t gemm_scratch(const Tile& a, Op op_a, const Tile& b, Op op_b, const Tile& c) {
  const bool row_major = blas_layout(c).row_ld > 0;
  std::size_t bytes = 0;
  if (plan_operand(a, op_a, row_major).copy) bytes += operand_bytes(a);
  if (plan_operand(b, op_b, row_major).copy) bytes += operand_bytes(b);
  return bytes;
}

void gemm(std::complex<double> alpha, const Tile& a, Op op_a, const Tile& b, Op op_b, std::complex<double> beta,
          const Tile& c, std::byte* scratch) {
  const auto [m, n, k] = check_gemm(a, op_a, b, op_b, c);
  if (m == 0 || n == 0) return;
  if (k == 0 || alpha == 0.0) return scale(beta, c);
  const bool row_major = row_major_result(c);
  const CBLAS_ORDER order = row_major ? CblasRowMajor : CblasColMajor;
  Operand left = plan_operand(a, op_a, row_major), right = plan_operand(b, op_b, row_major);
  require(scratch != nullptr || (!left.copy && !right.copy),
          [&] { return "gemm: these operands need gemm_scratch() bytes of scratch."; });
  pack(a, op_a, row_major, left, scratch);
  pack(b, op_b, row_major, right, scratch);
  const BlasLayout layout = blas_layout(c);
  const std::size_t item = size_of(c.dtype);
  auto im = static_cast<int>(m), in = static_cast<int>(n);
  const auto ik = static_cast<int>(k);
  const auto lda = static_cast<int>(left.ld), ldb = static_cast<int>(right.ld);
  const auto ldc = static_cast<int>(row_major ? layout.row_ld : layout.column_ld);
  const void *a_data = left.data, *b_data = right.data;
  std::byte* c_data = c.data;
  const auto real_gemm = [&]<class T>(auto* blas_gemm, T) {
    blas_gemm(order, left.op, right.op, im, in, ik, static_cast<T>(alpha.real()), static_cast<const T*>(a_data), lda,
              static_cast<const T*>(b_data), ldb, static_cast<T>(beta.real()), reinterpret_cast<T*>(c_data), ldc);
  };
  const auto complex_gemm = [&]<class T>(auto* blas_gemm, T) {
    const T factor(alpha), keep(beta);
    blas_gemm(order, left.op, right.op, im, in, ik, &factor, a_data, lda, b_data, ldb, &keep, c_data, ldc);
  };
  const Index length = row_major ? m : n;
  for (Index first = 0; first < length; first += longest_result) {
    (row_major ? im : in) = static_cast<int>(std::min(longest_result, length - first));
    (row_major ? a_data : b_data) = from(row_major ? left : right, first, item);
    c_data = c.data + first * ldc * static_cast<Index>(item);
    switch (c.dtype) {
      case Dtype::float32:
        real_gemm(blas::sgemm, float{});
        break;
      case Dtype::float64:
        real_gemm(blas::dgemm, double{});
        break;
      case Dtype::complex64:
        complex_gemm(blas::cgemm, std::complex<float>{});
        break;
      default:
        complex_gemm(blas::zgemm, std::complex<double>{});
    }
  }
}

void syrk(double alpha, const Tile& a, bool transpose, double beta, const Tile& c) {
  require(
      a.shape.size() == 2 && c.shape.size() == 2 && a.dtype == c.dtype && !is_complex(c.dtype) && blas_dtype(c.dtype),
      [&] { return "syrk: A and C must be 2-D tiles of one dtype, float32 or float64."; });
  const Index n = a.shape[transpose], k = a.shape[!transpose];
  require(c.shape[0] == n && c.shape[1] == n, [&] {
    return "syrk: C is " + to_string(c.shape) + "; " + to_string({n, n}) + " is needed.";
  });
  require(n <= blas_max && k <= blas_max,
          [&] { return "syrk: a tile extent above 2^31 - 1 was given; use smaller tiles."; });
  const BlasLayout layout = blas_layout(c);
  const bool row_major = layout.row_ld > 0;
  const Operand operand = plan_operand(a, {transpose, false}, row_major);
  require((row_major || layout.column_ld > 0) && !operand.copy,
          [&] { return "syrk: A and C must have one unit stride each."; });
  if (n == 0) return;
  const auto call = [&]<class T>(auto* blas_syrk, T) {
    blas_syrk(row_major ? CblasRowMajor : CblasColMajor, CblasLower, operand.op, static_cast<int>(n),
              static_cast<int>(k), static_cast<T>(alpha), static_cast<const T*>(operand.data),
              static_cast<int>(operand.ld), static_cast<T>(beta), c.as<T>(),
              static_cast<int>(row_major ? layout.row_ld : layout.column_ld));
  };
  if (c.dtype == Dtype::float32)
    call(blas::ssyrk, float{});
  else
    call(blas::dsyrk, double{});
}

void set_blas_threads(int threads) { blas::set_threads(threads); }
int blas_threads() { return std::max(1, blas::threads()); }

namespace {

std::mutex scopes_mutex;
int scopes = 0, threads_outside = 1;

}  // namespace

BlasThreads::BlasThreads(int threads) {
  std::lock_guard lock(scopes_mutex);
  if (scopes++ == 0) threads_outside = blas_threads();
  set_blas_threads(threads);
}

BlasThreads::~BlasThreads() {
  std::lock_guard lock(scopes_mutex);
  if (--scopes == 0) set_blas_threads(threads_outside);
}

}  // namespace flagstone::kernel
