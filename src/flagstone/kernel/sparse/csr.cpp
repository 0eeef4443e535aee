#include "flagstone/kernel/sparse/csr.hpp"

#include <algorithm>
#include <complex>
#include <string>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/sparse/csr_rows.hpp"

namespace flagstone::kernel {
namespace {

/// The widest instruction set that this processor runs.
const SparseTable& table() {
  static const SparseTable& chosen = []() -> const SparseTable& {
#ifdef FLAGSTONE_WIDE_KERNELS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
      return sparse_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return sparse_avx2;
#endif
    return sparse_baseline;
  }();
  return chosen;
}

/// Checks a row-major block of columns and says its leading dimension in elements.
Index leading(const char* who, const Tile& t, Index rows, Index width, Dtype dtype) {
  const auto item = static_cast<Index>(size_of(t.dtype));
  if (t.dtype != dtype || dtype < Dtype::float32)
    throw ShapeError(std::string(who) + ": blocks are " + std::string(name_of(t.dtype)) + " and " +
                     std::string(name_of(dtype)) + "; one dtype, float32, float64 or complex, is needed.");
  if (t.shape.size() != 2 || t.shape[0] != rows || t.shape[1] != width)
    throw ShapeError(std::string(who) + ": a block is " + to_string(t.shape) + "; " + to_string({rows, width}) +
                     " is needed.");
  if ((width > 1 && t.strides[1] != item) || t.strides[0] % item != 0)
    throw ShapeError(std::string(who) + ": a block is not row-major.");
  return t.strides[0] / item;
}

void run(const CsrRows& a, Dtype dtype, SparseJob job, bool ordered = false) {
  if (a.rows == 0 || job.width == 0) return;
  const int column = a.column_dtype == Dtype::uint16 ? 0 : a.column_dtype == Dtype::uint32 ? 1 : 2;
  job.rows = a.rows, job.cols = a.cols, job.pointers = a.pointers, job.values = a.values, job.columns = a.columns;
  const int kind = static_cast<int>(dtype) - static_cast<int>(Dtype::float32);
  (ordered ? table().ordered : table().at)[kind][column](job);
}

template <class From, class To>
Index unpack(const std::byte* from, Index n, Index cols, std::byte* to) {
  // The range is looked at once at the end: the loop stays free of branches.
  const From* source = reinterpret_cast<const From*>(from);
  To* target = reinterpret_cast<To*>(to);
  From least = 0, most = 0;
  for (Index i = 0; i < n; ++i) {
    const From index = source[i];
    least = index < least ? index : least;
    most = index > most ? index : most;
    target[i] = static_cast<To>(index);
  }
  const auto good = [&](From index) {
    return index >= 0 && static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(cols);
  };
  if (n == 0 || (good(least) && good(most))) return -1;
  for (Index i = 0; i < n; ++i)
    if (!good(source[i])) return i;
  return cols > 0 ? -1 : 0;
}

template <class From>
Index unpack_from(const std::byte* from, Index n, Index cols, std::byte* to) {
  switch (column_dtype_for(cols)) {
    case Dtype::uint16:
      return unpack<From, std::uint16_t>(from, n, cols, to);
    case Dtype::uint32:
      return unpack<From, std::uint32_t>(from, n, cols, to);
    default:
      return unpack<From, std::uint64_t>(from, n, cols, to);
  }
}

}  // namespace

Dtype column_dtype_for(Index cols) {
  return cols <= (Index{1} << 16) ? Dtype::uint16 : cols <= (Index{1} << 32) ? Dtype::uint32 : Dtype::uint64;
}

Index unpack_columns(const std::byte* from, Dtype from_dtype, Index n, Index cols, std::byte* to) {
  switch (from_dtype) {
    case Dtype::int8:
      return unpack_from<std::int8_t>(from, n, cols, to);
    case Dtype::int16:
      return unpack_from<std::int16_t>(from, n, cols, to);
    case Dtype::int32:
      return unpack_from<std::int32_t>(from, n, cols, to);
    case Dtype::int64:
      return unpack_from<std::int64_t>(from, n, cols, to);
    case Dtype::uint8:
      return unpack_from<std::uint8_t>(from, n, cols, to);
    case Dtype::uint16:
      return unpack_from<std::uint16_t>(from, n, cols, to);
    case Dtype::uint32:
      return unpack_from<std::uint32_t>(from, n, cols, to);
    case Dtype::uint64:
      return unpack_from<std::uint64_t>(from, n, cols, to);
    default:
      throw FormatError("csr: column indices are " + std::string(name_of(from_dtype)) +
                        "; an integer dtype is needed.");
  }
}

void csr_multiply(const CsrRows& a, const Tile& x, const double* shift_row, const Tile& t) {
  SparseJob job{};
  job.width = x.shape[1];
  job.x = x.data, job.ldx = leading("csr_multiply", x, a.cols, job.width, t.dtype);
  job.t = t.data, job.ldt = leading("csr_multiply", t, a.rows, job.width, t.dtype);
  job.shift = shift_row;
  run(a, t.dtype, job);
}

void csr_multiply_ordered(const CsrRows& a, const Tile& x, bool accumulate, const Tile& t) {
  SparseJob job{};
  job.width = x.shape[1];
  job.x = x.data, job.ldx = leading("csr_multiply", x, a.cols, job.width, t.dtype);
  job.t = t.data, job.ldt = leading("csr_multiply", t, a.rows, job.width, t.dtype);
  job.accumulate = accumulate;
  run(a, t.dtype, job, true);
}

void csr_multiply_transposed(const CsrRows& a, const Tile& t, const Tile& y, double* sums, bool conjugated) {
  SparseJob job{};
  job.conjugated = conjugated;
  job.width = t.shape[1];
  job.t = t.data, job.ldt = leading("csr_multiply_transposed", t, a.rows, job.width, y.dtype);
  job.y = y.data, job.ldy = leading("csr_multiply_transposed", y, a.cols, job.width, y.dtype);
  job.sums = sums;
  run(a, y.dtype, job);
}

void csr_scatter(const CsrRecords& a, const Tile& t, const Tile& y, bool conjugated) {
  SparseJob job{};
  job.conjugated = conjugated;
  job.width = t.shape[1];
  job.t = t.data, job.ldt = leading("csr_scatter", t, t.shape[0], job.width, y.dtype);
  job.y = y.data, job.ldy = leading("csr_scatter", y, y.shape[0], job.width, y.dtype);
  job.rows = a.count, job.records = a.data;
  const int kind = static_cast<int>(y.dtype) - static_cast<int>(Dtype::float32);
  if (a.count > 0 && job.width > 0) table().scattered[kind](job);
}

void csr_gram(const CsrRows& a, const Tile& x, const double* shift_row, const Tile& t, const Tile& y, double* sums,
              bool ordered) {
  SparseJob job{};
  job.width = x.shape[1];
  job.x = x.data, job.ldx = leading("csr_gram", x, a.cols, job.width, y.dtype);
  job.y = y.data, job.ldy = leading("csr_gram", y, a.cols, job.width, y.dtype);
  if (t.data) job.t = t.data, job.ldt = leading("csr_gram", t, a.rows, job.width, y.dtype);
  job.shift = shift_row, job.sums = sums, job.conjugated = true;
  run(a, y.dtype, job, ordered);
}

void csr_moments(const CsrRows& a, Dtype value_dtype, double* moments) {
  if (a.rows == 0) return;
  const Index first = a.pointers[0], last = a.pointers[a.rows];
  const auto add = [&](const auto* values, const auto* columns) {
    for (Index p = 0; p < last - first; ++p) {
      const auto value = static_cast<double>(values[p]);
      moments[columns[p]] += value, moments[a.cols + static_cast<Index>(columns[p])] += value * value;
    }
  };
  const auto of_columns = [&](const auto* values) {
    if (a.column_dtype == Dtype::uint16) return add(values, reinterpret_cast<const std::uint16_t*>(a.columns));
    if (a.column_dtype == Dtype::uint32) return add(values, reinterpret_cast<const std::uint32_t*>(a.columns));
    return add(values, reinterpret_cast<const std::uint64_t*>(a.columns));
  };
  if (value_dtype == Dtype::float32) return of_columns(reinterpret_cast<const float*>(a.values));
  of_columns(reinterpret_cast<const double*>(a.values));
}

void shift_row(const double* mu, const Tile& x, double* s) {
  const Index width = x.shape[1], ld = leading("shift_row", x, x.shape[0], width, x.dtype);
  std::fill(s, s + width, 0.0);
  visit_blas_type(x.dtype, [&](auto sample) {
    if constexpr (std::is_floating_point_v<decltype(sample)>)
      for (Index j = 0; j < x.shape[0]; ++j) {
        const auto* row = x.as<const decltype(sample)>() + j * ld;
        for (Index k = 0; k < width; ++k) s[k] += mu[j] * static_cast<double>(row[k]);
      }
  });
}

namespace {

/// Y += partial, of complex numbers.
void merge_complex(const Tile& partial, const Tile& y) {
  const Index width = y.shape[1], ld = leading("shift_merge", y, y.shape[0], width, Dtype::complex128);
  const Index from_ld = leading("shift_merge", partial, y.shape[0], width, partial.dtype);
  visit_blas_type(partial.dtype, [&](auto sample) {
    for (Index j = 0; j < y.shape[0]; ++j) {
      const auto* from = partial.as<const decltype(sample)>() + j * from_ld;
      std::complex<double>* to = y.as<std::complex<double>>() + j * ld;
      for (Index k = 0; k < width; ++k) to[k] += std::complex<double>(from[k]);
    }
  });
}

}  // namespace

void shift_merge(const Tile& partial, const double* mu, const double* sums, const Tile& y) {
  if (is_complex(y.dtype)) {
    if (partial.data) merge_complex(partial, y);
    return;
  }
  const Index width = y.shape[1], ld = leading("shift_merge", y, y.shape[0], width, Dtype::float64);
  const auto merge = [&]<class Real>(const Real* from, Index from_ld) {
    for (Index j = 0; j < y.shape[0]; ++j) {
      double* to = y.as<double>() + j * ld;
      if (from)
        for (Index k = 0; k < width; ++k) to[k] += static_cast<double>(from[j * from_ld + k]);
      if (mu)
        for (Index k = 0; k < width; ++k) to[k] -= mu[j] * sums[k];
    }
  };
  if (!partial.data) return merge(static_cast<const double*>(nullptr), 0);
  const Index from_ld = leading("shift_merge", partial, y.shape[0], width, partial.dtype);
  if (partial.dtype == Dtype::float32)
    merge(partial.as<const float>(), from_ld);
  else
    merge(partial.as<const double>(), from_ld);
}

}  // namespace flagstone::kernel
