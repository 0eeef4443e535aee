// Products, rank-k updates and triangular solves: cuBLAS, whose matrices lie by columns. A result that lies by rows is
// computed transposed; what has no unit stride, or is conjugated and not transposed, goes through a copy.
#include <algorithm>
#include <vector>

#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/cuda/kernels.hpp"

namespace flagstone::cuda {
namespace {

using kernel::Op;
using kernel::Side;
using kernel::Uplo;

cublasOperation_t blas_op(bool transpose, bool conjugate) {
  return !transpose ? CUBLAS_OP_N : conjugate ? CUBLAS_OP_C : CUBLAS_OP_T;
}

/// An operand in the order of C: by rows, or by columns.
struct Operand {
  Tile seen;  // by columns
  cublasOperation_t op;
};

Operand operand_of(Work& work, const Tile& t, Op op, bool by_rows) {
  const kernel::BlasLayout layout = kernel::blas_layout(t);
  const auto item = static_cast<Index>(size_of(t.dtype));
  const bool conjugate = op.conjugate && is_complex(t.dtype);
  // Stored in the other order, the operand looks transposed. A vector fits both: the one in which BLAS can conjugate.
  const Index straight = by_rows ? layout.row_ld : layout.column_ld;
  const Index flipped = by_rows ? layout.column_ld : layout.row_ld;
  const auto as = [&](Index ld, bool by_columns) {
    Tile seen = by_columns ? t : transposed(t);
    seen.strides = {item, ld * item};
    return seen;
  };
  if (straight > 0 && (op.transpose || !conjugate)) return {as(straight, !by_rows), blas_op(op.transpose, conjugate)};
  if (flipped > 0 && (!op.transpose || !conjugate)) return {as(flipped, by_rows), blas_op(!op.transpose, conjugate)};
  const Tile like_c = by_rows ? transposed(t) : t;
  const Tile packed = work.space.matrix(t.dtype, like_c.shape[0], like_c.shape[1]);
  if (work.runs()) copy(work.stream(), like_c, packed, conjugate);
  return {packed, blas_op(op.transpose, false)};
}

/// The matrix of a stack that meets the one of C's at `place`.
Tile matrix_of(const Tile& stack, const Shape& place) {
  const std::size_t lead = stack.shape.size() - 2;
  Tile matrix{stack.data,
              stack.dtype,
              {stack.shape.end() - 2, stack.shape.end()},
              {stack.strides.end() - 2, stack.strides.end()},
              0};
  for (std::size_t d = 0; d < lead; ++d)
    if (stack.shape[d] > 1) matrix.data += place[place.size() - lead + d] * stack.strides[d];
  return matrix;
}

/// f of each matrix of a stack, with its place.
template <class F>
void each_matrix(const Tile& c, F&& f) {
  if (count(c.shape) == 0) return;
  const Shape lead(c.shape.begin(), c.shape.end() - 2);
  Shape place(lead.size(), 0);
  do f(place);
  while (!lead.empty() && advance(place, lead));
}

struct Extents {
  Index m, n, k;
};
Extents extents_of(const Tile& a, Op op, const Tile& c) {
  return {c.shape[c.shape.size() - 2], c.shape.back(), a.shape[a.shape.size() - (op.transpose ? 2 : 1)]};
}

/// Where one product leaves most of the card idle. By extents alone, so that a result has the same bits whatever runs
/// beside it: cuBLAS chooses its kernel by the number of products as well.
bool small(const Extents& e) {
  constexpr Index longest = 512, volume = Index{1} << 24;
  return e.m <= longest && e.n <= longest && e.k <= volume && e.m * e.n * e.k <= volume;
}

SmallProduct small_product(const Tile& a, Op op_a, const Tile& b, Op op_b, const Tile& c) {
  const auto item = static_cast<Index>(size_of(c.dtype));
  const Tile x = op_a.transpose ? transposed(a) : a, y = op_b.transpose ? transposed(b) : b;
  return {x.data,
          y.data,
          c.data,
          x.strides[0] / item,
          x.strides[1] / item,
          y.strides[0] / item,
          y.strides[1] / item,
          c.strides[0] / item,
          c.strides[1] / item};
}

void collect(const Call& call, std::span<const Tile> tiles, std::vector<SmallProduct>& products) {
  const Tile a = operand(call, 0, tiles), b = operand(call, 1, tiles), c = operand(call, 2, tiles);
  const auto parts = call.operands();
  each_matrix(c, [&](const Shape& place) {
    products.push_back(small_product(matrix_of(a, place), {parts[0].transpose, parts[0].conjugate}, matrix_of(b, place),
                                     {parts[1].transpose, parts[1].conjugate}, matrix_of(c, place)));
  });
}

ProductForm form_of(const Call& call, const Extents& e) {
  const auto parts = call.operands();
  return {call.dtype, e.m, e.n, e.k, parts[0].conjugate, parts[1].conjugate, call.alpha, call.beta};
}

void large_product(Work& work, const Tile& a, const Tile& b, const Tile& c) {
  Columns to(work, c, work.call.beta != 0.0);
  const Operand left = operand_of(work, a, work.op(0), to.turned), right = operand_of(work, b, work.op(1), to.turned);
  if (!work.runs()) return;
  if (to.turned)
    multiply(work.with, {right.op, left.op}, work.call.alpha, right.seen, left.seen, work.call.beta, to.seen);
  else
    multiply(work.with, {left.op, right.op}, work.call.alpha, left.seen, right.seen, work.call.beta, to.seen);
  to.write(work);
}

}  // namespace

void multiply(const Libraries& with, Factors op, std::complex<double> alpha, const Tile& a, const Tile& b,
              std::complex<double> beta, const Tile& c) {
  const auto item = static_cast<Index>(size_of(c.dtype));
  const auto ld = [&](const Tile& t) { return std::max<Index>({1, t.shape[0], t.strides[1] / item}); };
  const Index k = a.shape[op.a == CUBLAS_OP_N ? 1 : 0];
  const bool wide = real_part_of(c.dtype) == Dtype::float64;
  const cublasComputeType_t arithmetic = wide        ? CUBLAS_COMPUTE_64F
                                         : with.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
  const cudaDataType type = type_of(c.dtype);
  const Scalar factor(c.dtype, alpha), keep(c.dtype, beta);
  check(cublasGemmEx_64(with.blas, op.a, op.b, c.shape[0], c.shape[1], k, factor.bytes, a.data, type, ld(a), b.data,
                        type, ld(b), keep.bytes, c.data, type, ld(c), arithmetic, CUBLAS_GEMM_DEFAULT),
        "a product");
}

bool run_small_products(std::span<const Call* const> calls, std::span<const std::span<const Tile>> tiles,
                        cudaStream_t stream) {
  const Call& first = *calls.front();
  const Tile a = operand(first, 0, tiles[0]), c = operand(first, 2, tiles[0]);
  const Extents e = extents_of(a, {first.operands()[0].transpose, false}, c);
  if (!small(e) || e.k == 0 || first.alpha == 0.0) return false;
  std::vector<SmallProduct> products;
  for (std::size_t i = 0; i < calls.size(); ++i) collect(*calls[i], tiles[i], products);
  small_products(stream, form_of(first, e), products);
  return true;
}

void run_gemm(Work& work) {
  const Tile a = work.at(0), b = work.at(1), c = work.at(2);
  const Extents e = extents_of(a, work.op(0), c);
  if (count(c.shape) == 0) return;
  if (e.k == 0 || work.call.alpha == 0.0) {
    if (work.runs()) scale(work.stream(), work.call.beta, c);
    return;
  }
  if (small(e)) {
    if (!work.runs()) return;
    std::vector<SmallProduct> products;
    collect(work.call, work.tiles, products);
    return small_products(work.stream(), form_of(work.call, e), products);
  }
  const std::size_t before = work.space.used();
  each_matrix(c, [&](const Shape& place) {  // one after the other, in one workspace
    work.space.reuse(before);
    large_product(work, matrix_of(a, place), matrix_of(b, place), matrix_of(c, place));
  });
}

void run_scale(Work& work) {
  if (work.runs()) scale(work.stream(), work.call.beta, work.at(0));
}

void run_herk(Work& work) {
  const bool complex = is_complex(work.call.dtype);
  Columns c(work, work.turned(1));
  Op op = work.op(0);
  op.conjugate = op.conjugate != c.turned;  // Cᵀ = conj(C)
  Columns a(work, work.at(0));
  op.transpose = op.transpose != a.turned;
  Tile from = a.seen;
  const Index ld_a = a.ld();
  Index ld = ld_a;
  if (complex && op.transpose != op.conjugate) {  // BLAS has A Aᴴ and Aᴴ A
    const Tile copied = work.space.matrix(from.dtype, from.shape[0], from.shape[1]);
    if (work.runs()) copy(work.stream(), from, copied, true);
    from = copied, ld = std::max<Index>(1, from.shape[0]);
  }
  const Index n = c.seen.shape[0], k = from.shape[op.transpose ? 0 : 1];
  if (!work.runs() || n == 0) return;
  const bool lower = (work.call.value_as<call::Factor>().uplo == Uplo::lower) != c.turned;
  const auto half = lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
  const auto trans = !op.transpose ? CUBLAS_OP_N : complex ? CUBLAS_OP_C : CUBLAS_OP_T;
  const double alpha = work.call.alpha.real(), beta = work.call.beta.real();
  const auto alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
  const auto update = [&](auto* blas_update, auto* type, const auto* factor, const auto* keep) {
    using T = std::remove_pointer_t<decltype(type)>;
    check(blas_update(work.with.blas, half, trans, n, k, factor, from.as<const T>(), ld, keep, c.seen.as<T>(), c.ld()),
          "a rank-k update");
  };
  switch (work.call.dtype) {
    case Dtype::float32:
      update(cublasSsyrk_v2_64, static_cast<float*>(nullptr), &alpha32, &beta32);
      break;
    case Dtype::float64:
      update(cublasDsyrk_v2_64, static_cast<double*>(nullptr), &alpha, &beta);
      break;
    case Dtype::complex64:
      update(cublasCherk_v2_64, static_cast<cuComplex*>(nullptr), &alpha32, &beta32);
      break;
    default:
      update(cublasZherk_v2_64, static_cast<cuDoubleComplex*>(nullptr), &alpha, &beta);
  }
  c.write(work);
}

void run_trsm(Work& work) {
  const auto& form = work.call.value_as<call::Factor>();
  const Tile a = work.at(0), b = work.turned(1);
  if (work.runs()) {
    if (!form.place.who.empty() && !form.unit) find_bad_pivot(work.stream(), diagonal_of(a), work.slot->word());
    if (work.call.operands().size() > 2) copy(work.stream(), diagonal_of(a), work.at(2));
  }
  if (count(b.shape) == 0) return;
  Op op = work.op(0);
  Side side = form.side;
  Uplo uplo = op.transpose ? flipped(form.uplo) : form.uplo;  // the triangle that is stored
  Columns x(work, b), triangle(work, a);
  if (x.turned) side = flipped(side), op.transpose = !op.transpose;  // Xᵀ op(A)ᵀ = alpha Bᵀ
  if (triangle.turned) uplo = flipped(uplo), op.transpose = !op.transpose;
  if (!work.runs()) return;
  const bool conjugated = op.conjugate && is_complex(a.dtype), around = conjugated && !op.transpose;
  const Scalar alpha(a.dtype, around ? std::conj(work.call.alpha) : work.call.alpha);
  if (around) copy(work.stream(), x.seen, x.seen, true);  // conj(A)⁻¹ B = conj(A⁻¹ conj(B))
  const auto solve = [&](auto* blas_trsm, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    check(blas_trsm(work.with.blas, side == Side::left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT,
                    uplo == Uplo::lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER,
                    blas_op(op.transpose, conjugated), form.unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, x.rows(),
                    x.cols(), alpha.as<T>(), triangle.seen.as<const T>(), triangle.ld(), x.seen.as<T>(), x.ld()),
          "a triangular solve");
  };
  switch (a.dtype) {
    case Dtype::float32:
      solve(cublasStrsm_v2_64, static_cast<float*>(nullptr));
      break;
    case Dtype::float64:
      solve(cublasDtrsm_v2_64, static_cast<double*>(nullptr));
      break;
    case Dtype::complex64:
      solve(cublasCtrsm_v2_64, static_cast<cuComplex*>(nullptr));
      break;
    default:
      solve(cublasZtrsm_v2_64, static_cast<cuDoubleComplex*>(nullptr));
  }
  if (around) copy(work.stream(), x.seen, x.seen, true);
  x.write(work);
}

void trsm_verdict(const Call& call, std::span<const Tile>, Found found) {
  if (found == nothing_found) return;
  const call::Place& place = call.value_as<call::Factor>().place;
  const auto i = static_cast<Index>(found / 2);
  if (found % 2 == 0) call::refuse_zero_pivot(place, i);
  call::refuse_not_finite(place, i, i);
}

}  // namespace flagstone::cuda
