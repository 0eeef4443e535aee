#include "flagstone/kernel/factor/take.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/layout.hpp"
#include "flagstone/kernel/dense/rearrange.hpp"

namespace flagstone::kernel {
namespace {

template <class Real>
bool all_finite(const Real* values, Index n) {  // by their exponents: a loop that is vectorized
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<Real>::infinity());
  constexpr Bits least = exponent & (~exponent + 1);
  Bits carried = 0;  // to the bit of the sign, by an exponent of ones
  for (Index i = 0; i < n; ++i) carried |= (std::bit_cast<Bits>(values[i]) & exponent) + least;
  return carried >> (8 * sizeof(Bits) - 1) == 0;
}

/// Rows [first, last) of column j, by columns, belong to the part.
struct Rows {
  Index first, last;
};

Rows rows_of(Part part, const ColumnView& view, Index j) {
  if (part == Part::all) return {0, view.rows};
  const bool lower = (part != Part::upper) != view.turned;
  return lower ? Rows{std::min<Index>(j, view.rows), view.rows} : Rows{0, std::min<Index>(j + 1, view.rows)};
}

/// The first element among rows [first, last) of column j that is NaN or Inf.
template <class T>
std::optional<Element> first_bad(const ColumnView& view, Index j, Index first, Index last) {
  using Real = decltype(std::real(T{}));
  constexpr Index parts = sizeof(T) / sizeof(Real);
  const Real* const run = reinterpret_cast<const Real*>(view.as<T>() + j * view.ld + first);
  if (all_finite(run, parts * (last - first))) return {};
  Index i = 0;
  while (all_finite(run + i, 1)) ++i;
  i = first + i / parts;
  return view.turned ? Element{j, i} : Element{i, j};
}

}  // namespace

std::optional<Element> take(Part part, const Tile& from, Op op, double shift, const Tile& to) {
  const ColumnView view = column_view("take", to);
  Tile source = from;
  if (op.transpose) std::swap(source.shape[0], source.shape[1]), std::swap(source.strides[0], source.strides[1]);
  if (source.shape != to.shape || from.dtype != to.dtype)
    throw ShapeError("take: " + to_string(source.shape) + " " + std::string(name_of(from.dtype)) + " was given for " +
                     to_string(to.shape) + " " + std::string(name_of(to.dtype)) + "; they must agree.");
  if (source.data != to.data) rearrange(source, to);
  return visit_blas_type(to.dtype, [&]<class T>(T) -> std::optional<Element> {
    using Real = decltype(std::real(T{}));
    std::optional<Element> found;
    for (Index j = 0; j < view.cols; ++j) {
      T* const column = view.as<T>() + j * view.ld;
      const auto [first, last] = rows_of(part, view, j);
      std::fill(column, column + first, T{});
      std::fill(column + last, column + view.rows, T{});
      if constexpr (sizeof(T) == 2 * sizeof(Real))
        if (op.conjugate)
          for (Index i = first; i < last; ++i) column[i] = std::conj(column[i]);
      if (j < view.rows) column[j] = part == Part::unit_lower ? T{1} : column[j] + static_cast<Real>(shift);
      if (!found) found = first_bad<T>(view, j, first, last);
    }
    return found;
  });
}

std::optional<Element> look(Part part, bool unit, const Tile& x) {
  const ColumnView view = column_view("look", x);
  const bool lower = (part == Part::lower) != view.turned;
  return visit_blas_type(x.dtype, [&]<class T>(T) -> std::optional<Element> {
    for (Index j = 0; j < view.cols; ++j) {
      auto [first, last] = rows_of(part, view, j);
      if (unit && lower) first = std::min<Index>(j + 1, view.rows);
      if (unit && !lower) last = std::min<Index>(j, view.rows);
      if (const auto found = first_bad<T>(view, j, first, last)) return found;
    }
    return {};
  });
}

}  // namespace flagstone::kernel
