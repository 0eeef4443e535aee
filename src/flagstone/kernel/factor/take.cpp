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
  Bits bad = 0;
  for (Index i = 0; i < n; ++i) bad |= static_cast<Bits>((std::bit_cast<Bits>(values[i]) & exponent) == exponent);
  return bad == 0;
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
    constexpr Index parts = sizeof(T) / sizeof(Real);
    std::optional<Element> found;
    for (Index j = 0; j < view.cols; ++j) {
      T* const column = view.as<T>() + j * view.ld;
      const auto [first, last] = rows_of(part, view, j);
      std::fill(column, column + first, T{});
      std::fill(column + last, column + view.rows, T{});
      if constexpr (parts == 2)
        if (op.conjugate)
          for (Index i = first; i < last; ++i) column[i] = std::conj(column[i]);
      if (j < view.rows) column[j] = part == Part::unit_lower ? T{1} : column[j] + static_cast<Real>(shift);
      Real* const run = reinterpret_cast<Real*>(column + first);
      if (found || all_finite(run, parts * (last - first))) continue;
      Index i = 0;
      while (all_finite(run + i, 1)) ++i;
      i = first + i / parts;
      found = view.turned ? Element{j, i} : Element{i, j};
    }
    return found;
  });
}

}  // namespace flagstone::kernel
