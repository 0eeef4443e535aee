// Tile QR in LAPACK's format: cuSOLVER's factors of a tile, or of a triangle on a tile stacked in workspace, whose
// reflectors have zeros where the triangle had them; the triangular factors of blocks of ib reflectors from V's
// products.
#include <algorithm>

#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/cuda/kernels.hpp"

namespace flagstone::cuda {
namespace {

using kernel::Part;

constexpr Index few = 64;  // reflectors whose T one block of threads makes

Tile rows(const Tile& t, Index first, Index n) { return subtile(t, {{first, 0}, {n, t.shape[1]}}); }
Tile cols(const Tile& t, Index first, Index n) { return subtile(t, {{0, first}, {t.shape[0], n}}); }
Tile corner(const Tile& t, Index m, Index n) { return subtile(t, {{0, 0}, {m, n}}); }

cublasOperation_t adjoint_op(Dtype dtype) { return is_complex(dtype) ? CUBLAS_OP_C : CUBLAS_OP_T; }

/// A := R and V of Householder's factorization, tau beside it.
void factor(Work& work, const Tile& a, std::byte* tau) {
  const cudaDataType type = type_of(a.dtype);
  const Index m = a.shape[0], n = a.shape[1], ld = a.strides[1] / static_cast<Index>(size_of(a.dtype));
  std::size_t device = 0, host = 0;
  check(cusolverDnXgeqrf_bufferSize(work.with.solver, work.with.params, m, n, type, a.data, ld, type, tau, type,
                                    &device, &host),
        "a QR factorization");
  std::byte* const memory = work.space.take(device);
  int* const info = reinterpret_cast<int*>(work.space.take(sizeof(int)));
  if (!work.runs()) return;
  check(cusolverDnXgeqrf(work.with.solver, work.with.params, m, n, type, a.data, ld, type, tau, type, memory, device,
                         work.slot->host_bytes(host), host, info),
        "a QR factorization");
}

/// T of a block of reflectors from their products G = VᴴV and tau: blocks of a few by one launch, then two, four, ...
/// of those side by side, T of [V1 V2] being [T1, -T1 (V1ᴴV2) T2; 0, T2].
void triangle_of(Work& work, const Tile& g, const std::byte* tau, const Tile& t, const Tile& product) {
  const Index n = t.shape[1];
  const auto item = static_cast<Index>(size_of(t.dtype));
  const auto block = [](const Tile& x, Index i, Index j, Index m, Index k) { return subtile(x, {{i, j}, {m, k}}); };
  if (n > few) fill(work.stream(), t, Scalar(t.dtype, 0.0).bytes);
  for (Index j = 0; j < n; j += few) {
    const Index w = std::min(few, n - j);
    reflector_triangle(work.stream(), block(g, j, j, w, w), tau + j * item, block(t, j, j, w, w));
  }
  for (Index half = few; half < n; half *= 2)
    for (Index j = 0; j + half < n; j += 2 * half) {
      const Index at = j + half, w = std::min(half, n - at);
      const Tile right = corner(product, half, w);
      multiply(work.with, {CUBLAS_OP_N, CUBLAS_OP_N}, 1.0, block(g, j, at, half, w), block(t, at, at, w, w), 0.0,
               right);
      multiply(work.with, {CUBLAS_OP_N, CUBLAS_OP_N}, -1.0, block(t, j, j, half, half), right, 0.0,
               block(t, j, at, half, w));
    }
}

/// Blocks of T, ib columns each, from what `v` has below the (unit) triangle of each, or below an identity.
template <class Block>
void triangles(Work& work, Index ib, Index reflectors, const Tile& t, const std::byte* tau, Block&& block) {
  ib = std::min(ib, reflectors);
  const Tile products = work.space.matrix(t.dtype, ib, ib), beside = work.space.matrix(t.dtype, ib, ib);
  if (!work.runs()) return;
  const auto item = static_cast<Index>(size_of(t.dtype));
  for (Index j = 0; j < reflectors; j += ib) {
    const Index n = std::min(ib, reflectors - j);
    const Tile v = block(j, n), g = corner(products, n, n);
    multiply(work.with, {adjoint_op(t.dtype), CUBLAS_OP_N}, 1.0, v, v, 0.0, g);
    triangle_of(work, g, tau + j * item, corner(cols(t, j, n), n, n), beside);
  }
}

/// V with its ones and zeros: m x k.
Tile explicit_reflectors(Work& work, const Tile& v, Index k, Part part) {
  const Tile made = work.space.matrix(v.dtype, v.shape[0], k);
  if (work.runs()) take(work.stream(), part, cols(v, 0, k), false, 0, made, false, nullptr);
  return made;
}

/// The products of a block of reflectors with its triangle: W, and op(T) W beside it. T comes with whatever lies under
/// its diagonal, so the product is with a copy that has zeros there: a product of squares is faster than cuBLAS's
/// triangular one.
struct Products {
  Products(Work& work, Dtype dtype, Index ib, Index cols)
      : work(work),
        given(work.space.matrix(dtype, ib, cols)),
        made(work.space.matrix(dtype, ib, cols)),
        whole(work.space.matrix(dtype, ib, ib)) {}
  Tile w(Index n) const { return rows(given, 0, n); }
  Tile by_triangle(bool adjoint, const Tile& t) const {
    const Index n = t.shape[1];
    const Tile triangle = corner(whole, n, n), product = rows(made, 0, n);
    take(work.stream(), Part::upper, t, false, 0, triangle, false, nullptr);
    multiply(work.with, {adjoint ? adjoint_op(t.dtype) : CUBLAS_OP_N, CUBLAS_OP_N}, 1.0, triangle, w(n), 0.0, product);
    return product;
  }

  Work& work;
  Tile given, made, whole;
};

/// f(first, n) of each block of reflectors, in the order in which op(Q) applies them.
template <class F>
void each_block(Index ib, Index reflectors, bool adjoint, F&& f) {
  const Index blocks = ceil_div(reflectors, ib);
  for (Index b = 0; b < blocks; ++b) {
    const Index first = (adjoint ? b : blocks - 1 - b) * ib;
    f(first, std::min(ib, reflectors - first));
  }
}

const call::QrOptions& options_of(const Work& work) { return work.call.value_as<call::Qr>().options; }

}  // namespace

void run_geqrt(Work& work) {
  const Tile t = work.turned(0), a = work.turned(1);
  const Index m = a.shape[0], k = std::min(m, a.shape[1]), ib = options_of(work).ib;
  if (k == 0) return;
  Columns to = Columns::upright(work, a), triangle = Columns::upright(work, t);
  std::byte* const tau = work.space.take(static_cast<std::size_t>(k) * size_of(a.dtype));
  factor(work, to.seen, tau);
  const Tile block = work.space.matrix(a.dtype, m, std::min(ib, k));
  triangles(work, ib, k, triangle.seen, tau, [&](Index j, Index n) {
    const Tile from = subtile(to.seen, {{j, j}, {m - j, n}}), v = corner(block, m - j, n);
    take(work.stream(), Part::unit_lower, from, false, 0, v, false, nullptr);
    return v;
  });
  to.write(work), triangle.write(work);
}

void run_tpqrt(Work& work) {
  const Tile t = work.turned(0), b = work.turned(1), r = work.turned(2);
  const call::QrOptions& o = options_of(work);
  const Index m = b.shape[0], n = b.shape[1];
  if (m == 0 || n == 0) return;
  const Part part = o.triangle ? Part::upper : Part::all;
  Columns triangle = Columns::upright(work, t);
  const Tile stack = work.space.matrix(b.dtype, n + m, n), upper = rows(stack, 0, n), lower = rows(stack, n, m);
  if (work.runs()) {
    take(work.stream(), Part::upper, r, false, 0, upper, false, nullptr);
    take(work.stream(), part, b, false, 0, lower, false, nullptr);
  }
  std::byte* const tau = work.space.take(static_cast<std::size_t>(n) * size_of(b.dtype));
  factor(work, stack, tau);
  triangles(work, o.ib, n, triangle.seen, tau, [&](Index j, Index width) { return cols(lower, j, width); });
  triangle.write(work);
  if (!work.runs()) return;
  copy_upper(work.stream(), upper, r);
  if (o.triangle)
    copy_upper(work.stream(), lower, b);
  else
    copy(work.stream(), lower, b);
}

void run_gemqrt(Work& work) {
  const Tile given = work.turned(0), t = work.turned(1), c = work.turned(2);
  const call::QrOptions& o = options_of(work);
  const Index k = std::min(given.shape[0], given.shape[1]), ib = std::min(o.ib, k);
  if (k == 0 || count(c.shape) == 0) return;
  const Tile v = explicit_reflectors(work, given, k, Part::unit_lower);
  Columns to = Columns::upright(work, c), triangle = Columns::upright(work, t);
  const Products products(work, c.dtype, ib, c.shape[1]);
  if (!work.runs()) return;
  each_block(ib, k, o.adjoint, [&](Index j, Index n) {
    const Index m = v.shape[0] - j;
    const Tile block = subtile(v, {{j, j}, {m, n}}), below = rows(to.seen, j, m), w = products.w(n);
    multiply(work.with, {adjoint_op(c.dtype), CUBLAS_OP_N}, 1.0, block, below, 0.0, w);
    const Tile product = products.by_triangle(o.adjoint, corner(cols(triangle.seen, j, n), n, n));
    multiply(work.with, {CUBLAS_OP_N, CUBLAS_OP_N}, -1.0, block, product, 1.0, below);
  });
  to.write(work);
}

void run_tpmqrt(Work& work) {
  const Tile given = work.turned(0), t = work.turned(1), a = work.turned(2), b = work.turned(3);
  const call::QrOptions& o = options_of(work);
  const Index k = given.shape[1], ib = std::min(o.ib, k);
  if (count(given.shape) == 0 || count(b.shape) == 0) return;
  const Tile v = o.triangle ? explicit_reflectors(work, given, k, Part::upper) : Columns::upright(work, given).seen;
  Columns upper = Columns::upright(work, a), lower = Columns::upright(work, b), triangle = Columns::upright(work, t);
  const Products products(work, b.dtype, ib, b.shape[1]);
  if (!work.runs()) return;
  each_block(ib, k, o.adjoint, [&](Index j, Index n) {
    const Tile block = cols(v, j, n), above = rows(upper.seen, j, n), w = products.w(n);
    copy(work.stream(), above, w);
    multiply(work.with, {adjoint_op(b.dtype), CUBLAS_OP_N}, 1.0, block, lower.seen, 1.0, w);
    const Tile product = products.by_triangle(o.adjoint, corner(cols(triangle.seen, j, n), n, n));
    subtract(work.stream(), product, above);
    multiply(work.with, {CUBLAS_OP_N, CUBLAS_OP_N}, -1.0, block, product, 1.0, lower.seen);
  });
  upper.write(work), lower.write(work);
}

}  // namespace flagstone::cuda
