#include "flagstone/kernel/factor/qr.hpp"

#include <algorithm>
#include <complex>
#include <cstring>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/cblas.hpp"

namespace flagstone::kernel {
namespace {

constexpr int columns = LAPACK_COL_MAJOR;

int rows_of(const Tile& x) { return static_cast<int>(x.shape[0]); }
int cols_of(const Tile& x) { return static_cast<int>(x.shape[1]); }
/// The leading dimension, as LAPACK wants it of a matrix of no columns too.
int ld(const Tile& x) {
  const Index step = x.strides[1] / static_cast<Index>(size_of(x.dtype));
  return static_cast<int>(std::max<Index>({1, step, x.shape[0]}));
}
/// Blocks are no wider than there are reflectors.
int block(Index ib, Index reflectors) { return static_cast<int>(std::max<Index>(1, std::min(ib, reflectors))); }

void check(int info, const char* who) {
  if (info != 0) throw Error(std::string(who) + ": LAPACK refuses argument " + std::to_string(-info) + "; report it.");
}

template <class T>
struct Lapack;
template <>
struct Lapack<float> {
  static constexpr auto geqrt = blas::sgeqrt_work;
  static constexpr auto tpqrt = blas::stpqrt_work;
  static constexpr auto trmm = blas::strmm;
  static constexpr auto gemm = blas::sgemm;
  static constexpr auto tpmqrt = blas::stpmqrt_work;
};
template <>
struct Lapack<double> {
  static constexpr auto geqrt = blas::dgeqrt_work;
  static constexpr auto tpqrt = blas::dtpqrt_work;
  static constexpr auto trmm = blas::dtrmm;
  static constexpr auto gemm = blas::dgemm;
  static constexpr auto tpmqrt = blas::dtpmqrt_work;
};
template <>
struct Lapack<std::complex<float>> {
  static constexpr auto geqrt = blas::cgeqrt_work;
  static constexpr auto tpqrt = blas::ctpqrt_work;
  static constexpr auto trmm = blas::ctrmm;
  static constexpr auto gemm = blas::cgemm;
  static constexpr auto tpmqrt = blas::ctpmqrt_work;
};
template <>
struct Lapack<std::complex<double>> {
  static constexpr auto geqrt = blas::zgeqrt_work;
  static constexpr auto tpqrt = blas::ztpqrt_work;
  static constexpr auto trmm = blas::ztrmm;
  static constexpr auto gemm = blas::zgemm;
  static constexpr auto tpmqrt = blas::ztpmqrt_work;
};

template <class T>
constexpr char transposed(bool adjoint) {
  return !adjoint ? 'N' : std::is_floating_point_v<T> ? 'T' : 'C';
}

/// What CBLAS wants: numbers as they are, complex ones by their address.
template <class T>
auto scalar(const T& x) {
  if constexpr (std::is_floating_point_v<T>)
    return x;
  else
    return &x;
}

/// C += alpha op(A) B, op: none or the adjoint.
void add_product(double alpha, bool adjoint, const Tile& a, const Tile& b, const Tile& c) {
  if (count(a.shape) == 0) return;
  visit_blas_type(c.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T factor(static_cast<decltype(std::abs(zero))>(alpha)), one(1);
    Lapack<T>::gemm(CblasColMajor, adjoint ? CblasConjTrans : CblasNoTrans, CblasNoTrans, rows_of(c), cols_of(c),
                    rows_of(b), scalar(factor), a.as<T>(), ld(a), b.as<T>(), ld(b), scalar(one), c.as<T>(), ld(c));
  });
}

/// X := op(A) X with a triangle A.
void trmm(CBLAS_UPLO uplo, bool adjoint, CBLAS_DIAG diagonal, const Tile& a, const Tile& x) {
  visit_blas_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T one(1);
    Lapack<T>::trmm(CblasColMajor, CblasLeft, uplo, adjoint ? CblasConjTrans : CblasNoTrans, diagonal, rows_of(x),
                    cols_of(x), scalar(one), a.as<T>(), ld(a), x.as<T>(), ld(x));
  });
}

/// C -= X.
void subtract(const Tile& x, const Tile& c) {
  visit_blas_type(c.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (Index j = 0; j < c.shape[1]; ++j) {
      const T* const from = reinterpret_cast<const T*>(x.data + j * x.strides[1]);
      T* const to = reinterpret_cast<T*>(c.data + j * c.strides[1]);
      for (Index i = 0; i < c.shape[0]; ++i) to[i] -= from[i];
    }
  });
}

}  // namespace

std::size_t qr_work_bytes(Dtype dtype, Index ib, Index cols) {
  return static_cast<std::size_t>(ib * cols) * size_of(dtype);
}

void geqrt(Index ib, const Tile& a, const Tile& t, std::byte* work) {
  if (count(a.shape) == 0) return;
  visit_blas_type(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int nb = block(ib, std::min(a.shape[0], a.shape[1]));
    check(Lapack<T>::geqrt(columns, rows_of(a), cols_of(a), nb, a.as<T>(), ld(a), t.as<T>(), ld(t),
                           reinterpret_cast<T*>(work)),
          "geqrt");
  });
}

void tpqrt(Index ib, bool triangle, const Tile& r, const Tile& b, const Tile& t, std::byte* work) {
  if (count(b.shape) == 0) return;
  visit_blas_type(b.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int nb = block(ib, b.shape[1]);
    check(Lapack<T>::tpqrt(columns, rows_of(b), cols_of(b), triangle ? std::min(rows_of(b), cols_of(b)) : 0, nb,
                           r.as<T>(), ld(r), b.as<T>(), ld(b), t.as<T>(), ld(t), reinterpret_cast<T*>(work)),
          "tpqrt");
  });
}

void gemqrt(Index ib, bool adjoint, const Tile& v, const Tile& t, const Tile& c, std::byte* work) {
  const Index m = v.shape[0], k = std::min(m, v.shape[1]), n = c.shape[1];
  if (k == 0 || count(c.shape) == 0) return;
  ib = block(ib, k);
  const auto item = static_cast<Index>(size_of(c.dtype));
  for (Index step = 0, blocks = ceil_div(k, ib); step < blocks; ++step) {
    const Index at = (adjoint ? step : blocks - 1 - step) * ib, below = std::min(k, at + ib), w = below - at;
    const Tile v1 = subtile(v, {{at, at}, {w, w}}), v2 = subtile(v, {{below, at}, {m - below, w}});
    const Tile c1 = subtile(c, {{at, 0}, {w, n}}), c2 = subtile(c, {{below, 0}, {m - below, n}});
    const Tile x{work, c.dtype, {w, n}, {item, w * item}, 0};
    for (Index j = 0; j < n; ++j)
      std::memcpy(x.data + j * x.strides[1], c1.data + j * c1.strides[1], static_cast<std::size_t>(w * item));
    trmm(CblasLower, true, CblasUnit, v1, x);
    add_product(1, true, v2, c2, x);
    trmm(CblasUpper, adjoint, CblasNonUnit, subtile(t, {{0, at}, {w, w}}), x);
    add_product(-1, false, v2, x, c2);
    trmm(CblasLower, false, CblasUnit, v1, x);
    subtract(x, c1);
  }
}

void tpmqrt(Index ib, bool adjoint, bool triangle, const Tile& v, const Tile& t, const Tile& a, const Tile& b,
            std::byte* work) {
  const Index k = v.shape[1];
  if (k == 0 || count(v.shape) == 0 || count(b.shape) == 0) return;
  visit_blas_type(b.dtype, [&](auto zero) {
    using T = decltype(zero);
    check(Lapack<T>::tpmqrt(columns, 'L', transposed<T>(adjoint), rows_of(b), cols_of(b), static_cast<int>(k),
                            triangle ? rows_of(v) : 0, block(ib, k), v.as<T>(), ld(v), t.as<T>(), ld(t), a.as<T>(),
                            ld(a), b.as<T>(), ld(b), reinterpret_cast<T*>(work)),
          "tpmqrt");
  });
}

void set_identity(Index row, const Tile& to) {
  constexpr std::byte nothing[16]{};
  fill(to, nothing);
  visit_blas_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (Index i = std::max<Index>(0, -row); i < to.shape[0] && i + row < to.shape[1]; ++i)
      *reinterpret_cast<T*>(to.data + i * to.strides[0] + (i + row) * to.strides[1]) = T(1);
  });
}

}  // namespace flagstone::kernel
