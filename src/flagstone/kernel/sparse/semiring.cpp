#include "flagstone/kernel/sparse/semiring.hpp"

#include <cstring>
#include <limits>
#include <type_traits>

#include "flagstone/base/error.hpp"
#include "flagstone/base/real_types.hpp"

namespace flagstone::kernel {
namespace {

template <class T>
constexpr T most = std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
template <class T>
constexpr T least = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();

/// NaN stays, whichever of the two it is. Without a branch: the compiler takes several columns at once.
template <class T>
T smaller(T a, T b) {
  return static_cast<int>(a != a) | static_cast<int>(a < b) ? a : b;
}
template <class T>
T larger(T a, T b) {
  return static_cast<int>(a != a) | static_cast<int>(a > b) ? a : b;
}

/// `infinity` stays; other whole numbers stop at the ends of their range.
template <class T>
T saturated_sum(T a, T b, T infinity) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    T sum;
    if (a == infinity || b == infinity) return infinity;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return b > 0 ? most<T> : least<T>;
  }
}

template <class T>
T saturated_product(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    T product;
    if (!__builtin_mul_overflow(a, b, &product)) return product;
    return (a < 0) == (b < 0) ? most<T> : least<T>;
  }
}

/// Sums of whole numbers wrap.
template <class T>
T wrapped_sum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// What a semiring is: the types of A's values, of X and of the product, what adds nothing, both operations.

template <class V, class X, class Y>
struct Types {
  using Value = V;
  using Vector = X;
  using Block = Y;
};

template <class T>
struct PlusTimes : Types<T, T, T> {
  static constexpr T nothing = 0;
  static T times(T a, T x) {
    if constexpr (std::is_floating_point_v<T>)
      return a * x;
    else
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(x));
  }
  static T plus(T a, T b) { return wrapped_sum(a, b); }
};

template <class T>
struct MinPlus : Types<T, T, T> {
  static constexpr T nothing = most<T>;
  static T times(T a, T x) { return saturated_sum(a, x, most<T>); }
  static T plus(T a, T b) { return smaller(a, b); }
};

template <class T>
struct MaxPlus : Types<T, T, T> {
  static constexpr T nothing = least<T>;
  static T times(T a, T x) { return saturated_sum(a, x, least<T>); }
  static T plus(T a, T b) { return larger(a, b); }
};

template <class T>
struct MaxTimes : MaxPlus<T> {
  static T times(T a, T x) { return saturated_product(a, x); }
};

template <class T>
struct MinFirst : MinPlus<T> {
  using Vector = std::uint8_t;
  static T times(T a, std::uint8_t) { return a; }
};

template <class T>
struct MinSecond : MinPlus<T> {
  using Value = float;
  static T times(float, T x) { return x; }
};

template <class>
struct OrAnd : Types<double, std::uint8_t, std::uint8_t> {
  static constexpr std::uint8_t nothing = 0;
  static std::uint8_t times(double a, std::uint8_t x) { return a != 0 && x != 0; }
  static std::uint8_t plus(std::uint8_t a, std::uint8_t b) { return a != 0 || b != 0; }
};

template <class>
struct PlusPair : Types<float, std::uint8_t, std::int64_t> {
  static constexpr std::int64_t nothing = 0;
  static std::int64_t times(float, std::uint8_t x) { return x != 0; }
  static std::int64_t plus(std::int64_t a, std::int64_t b) { return a + b; }
};

/// Calls f with the semiring of a dtype of the product.
template <template <class> class S, class F>
void with_dtype(Dtype block, F&& f) {
  switch (block) {
    case Dtype::float32:
      return f(S<float>{});
    case Dtype::float64:
      return f(S<double>{});
    case Dtype::int64:
      return f(S<std::int64_t>{});
    default:
      throw ShapeError("semiring: a block is " + std::string(name_of(block)) +
                       "; float32, float64 or int64 is needed.");
  }
}

template <class F>
void with_semiring(Semiring semiring, Dtype block, F&& f) {
  switch (semiring) {
    case Semiring::plus_times:
      return with_dtype<PlusTimes>(block, f);
    case Semiring::min_plus:
      return with_dtype<MinPlus>(block, f);
    case Semiring::max_plus:
      return with_dtype<MaxPlus>(block, f);
    case Semiring::max_times:
      return with_dtype<MaxTimes>(block, f);
    case Semiring::or_and:
      return f(OrAnd<void>{});
    case Semiring::min_first:
      return with_dtype<MinFirst>(block, f);
    case Semiring::min_second:
      return with_dtype<MinSecond>(block, f);
    case Semiring::plus_pair:
      return f(PlusPair<void>{});
  }
}

/// A block as raw pointers; rows are `step` elements apart.
template <class T>
struct Rows {
  T* elements;
  std::uint8_t* there;  // null: all are there
  Index step, there_step, width;

  T* row(Index i) const { return elements + i * step; }
  std::uint8_t* there_row(Index i) const { return there ? there + i * there_step : nullptr; }
};

Index leading(const Tile& tile, Index rows, Index width, std::size_t item) {
  const auto bytes = static_cast<Index>(item);
  if (tile.shape != Shape{rows, width} || size_of(tile.dtype) != item)
    throw ShapeError("semiring: a block is " + to_string(tile.shape) + " " + std::string(name_of(tile.dtype)) + "; " +
                     to_string({rows, width}) + " of " + std::to_string(item) + " bytes is needed.");
  if ((width > 1 && tile.strides[1] != bytes) || tile.strides[0] % bytes != 0)
    throw ShapeError("semiring: a block is not row-major.");
  return tile.strides[0] / bytes;
}

template <class T>
Rows<T> rows_of(const SemiringBlock& block, Index rows, Index width) {
  Rows<T> made{block.elements.as<T>(), nullptr, leading(block.elements, rows, width, sizeof(T)), 0, width};
  if (!block.there.data) return made;
  made.there = block.there.as<std::uint8_t>();
  made.there_step = leading(block.there, rows, width, 1);
  return made;
}

/// t := t + a x for what is there of x.
template <class S>
void add_row(typename S::Value a, const typename S::Vector* x, const std::uint8_t* there, typename S::Block* t,
             std::uint8_t* found, Index width) {
  if (!there && !found) {  // a loop without branches
    for (Index k = 0; k < width; ++k) t[k] = S::plus(t[k], S::times(a, x[k]));
    return;
  }
  for (Index k = 0; k < width; ++k) {
    if (there && !there[k]) continue;
    t[k] = S::plus(t[k], S::times(a, x[k]));
    if (found) found[k] = 1;
  }
}

template <class S, class Column>
void gather(const CsrRows& a, const Rows<typename S::Vector>& x, const Rows<typename S::Block>& t, bool on) {
  const auto* values = reinterpret_cast<const typename S::Value*>(a.values);
  const auto* columns = reinterpret_cast<const Column*>(a.columns);
  constexpr bool stops = std::is_same_v<S, OrAnd<void>>;
  for (Index i = 0; i < a.rows; ++i) {
    auto* row = t.row(i);
    std::uint8_t* found = t.there_row(i);
    for (Index k = 0; !on && k < t.width; ++k) row[k] = S::nothing;
    if (found && !on) std::memset(found, 0, static_cast<std::size_t>(t.width));
    for (Index p = a.pointers[i] - a.pointers[0]; p < a.pointers[i + 1] - a.pointers[0]; ++p) {
      const auto column = static_cast<Index>(columns[p]);
      add_row<S>(values[p], x.row(column), x.there_row(column), row, found, t.width);
      if (stops && t.width == 1 && row[0]) break;
    }
  }
}

/// The same of one column that is all there: its sum stays in a register.
template <class S, class Column>
void gather_vector(const CsrRows& a, const Rows<typename S::Vector>& x, const Rows<typename S::Block>& t, bool on) {
  const auto* values = reinterpret_cast<const typename S::Value*>(a.values);
  const auto* columns = reinterpret_cast<const Column*>(a.columns);
  constexpr bool stops = std::is_same_v<S, OrAnd<void>>;
  for (Index i = 0; i < a.rows; ++i) {
    typename S::Block sum = on ? *t.row(i) : S::nothing;
    for (Index p = a.pointers[i] - a.pointers[0]; p < a.pointers[i + 1] - a.pointers[0]; ++p) {
      if (stops && sum) break;
      sum = S::plus(sum, S::times(values[p], *x.row(static_cast<Index>(columns[p]))));
    }
    *t.row(i) = sum;
  }
}

template <class S, class Column>
void scatter(const CsrRows& a, const Rows<typename S::Vector>& t, const Rows<typename S::Block>& y) {
  const auto* values = reinterpret_cast<const typename S::Value*>(a.values);
  const auto* columns = reinterpret_cast<const Column*>(a.columns);
  for (Index i = 0; i < a.rows; ++i) {
    const auto* row = t.row(i);
    const std::uint8_t* there = t.there_row(i);
    for (Index p = a.pointers[i] - a.pointers[0]; p < a.pointers[i + 1] - a.pointers[0]; ++p) {
      const auto column = static_cast<Index>(columns[p]);
      add_row<S>(values[p], row, there, y.row(column), y.there_row(column), y.width);
    }
  }
}

template <class F>
void with_column(Dtype column, F&& f) {
  switch (column) {
    case Dtype::uint16:
      return f(std::uint16_t{});
    case Dtype::uint32:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

}  // namespace

Dtype semiring_values(Semiring semiring, Dtype real) {
  if (semiring == Semiring::or_and) return Dtype::float64;
  return semiring == Semiring::plus_pair || semiring == Semiring::min_second ? Dtype::float32 : real;
}

Dtype semiring_vector(Semiring semiring, Dtype real) {
  const bool truths =
      semiring == Semiring::or_and || semiring == Semiring::plus_pair || semiring == Semiring::min_first;
  return truths ? Dtype::boolean : real;
}

Dtype semiring_block(Semiring semiring, Dtype real) {
  if (semiring == Semiring::or_and) return Dtype::boolean;
  return semiring == Semiring::plus_pair ? Dtype::int64 : real;
}

void semiring_start(Semiring semiring, const SemiringBlock& to) {
  const Index rows = to.elements.shape.at(0), width = to.elements.shape.at(1);
  with_semiring(semiring, to.elements.dtype, [&]<class S>(S) {
    const auto block = rows_of<typename S::Block>(to, rows, width);
    for (Index i = 0; i < rows; ++i) {
      for (Index k = 0; k < width; ++k) block.row(i)[k] = S::nothing;
      if (block.there) std::memset(block.there_row(i), 0, static_cast<std::size_t>(width));
    }
  });
}

void csr_semiring(Semiring semiring, const CsrRows& a, const SemiringBlock& x, const SemiringBlock& t, bool on) {
  const Index width = x.elements.shape.at(1);
  with_semiring(semiring, t.elements.dtype, [&]<class S>(S) {
    const auto from = rows_of<typename S::Vector>(x, a.cols, width);
    const auto to = rows_of<typename S::Block>(t, a.rows, width);
    with_column(a.column_dtype, [&]<class Column>(Column) {
      if (width == 1 && !from.there && !to.there)
        gather_vector<S, Column>(a, from, to, on);
      else
        gather<S, Column>(a, from, to, on);
    });
  });
}

void csr_semiring_transposed(Semiring semiring, const CsrRows& a, const SemiringBlock& t, const SemiringBlock& y) {
  const Index width = t.elements.shape.at(1);
  with_semiring(semiring, y.elements.dtype, [&]<class S>(S) {
    const auto from = rows_of<typename S::Vector>(t, a.rows, width);
    const auto to = rows_of<typename S::Block>(y, a.cols, width);
    with_column(a.column_dtype, [&]<class Column>(Column) { scatter<S, Column>(a, from, to); });
  });
}

void semiring_join(Semiring semiring, const SemiringBlock& from, const SemiringBlock& to) {
  const Index rows = to.elements.shape.at(0), width = to.elements.shape.at(1);
  with_semiring(semiring, to.elements.dtype, [&]<class S>(S) {
    const auto source = rows_of<typename S::Block>(from, rows, width),
               target = rows_of<typename S::Block>(to, rows, width);
    for (Index i = 0; i < rows; ++i)
      for (Index k = 0; k < width; ++k) {
        target.row(i)[k] = S::plus(target.row(i)[k], source.row(i)[k]);
        if (target.there && source.there && source.there_row(i)[k]) target.there_row(i)[k] = 1;
      }
  });
}

namespace {

/// Elements of a tile with any strides.
template <class T>
struct Strided {
  explicit Strided(const Tile& tile)
      : data(tile.data), row(tile.data ? tile.strides[0] : 0), column(tile.data ? tile.strides[1] : 0) {}
  T at(Index i, Index j) const {
    T value;
    std::memcpy(&value, data + i * row + j * column, sizeof value);
    return value;
  }
  void set(Index i, Index j, T value) const { std::memcpy(data + i * row + j * column, &value, sizeof value); }

  std::byte* data;
  Index row, column;
};

template <class S, class Stored>
void merge_elements(const SemiringMerge& merge, const Tile& to) {
  using Block = typename S::Block;
  const Strided<Block> t(merge.t);
  const Strided<Stored> old(merge.old), y(to);
  const Strided<std::uint8_t> mask(merge.mask);
  const bool by_rows = merge.mask.data && merge.mask.shape[1] == 1;
  Index next = 0;  // row of T
  for (Index i = 0; i < to.shape[0]; ++i) {
    const bool row = !by_rows || (mask.at(i, 0) != 0) != merge.complement;
    const Index from = merge.compact ? next : i;
    if (row) ++next;
    for (Index j = 0; j < to.shape[1]; ++j) {
      const bool wanted = by_rows || !merge.mask.data ? row : (mask.at(i, j) != 0) != merge.complement;
      const Block before = merge.old.data ? static_cast<Block>(old.at(i, j)) : S::nothing;
      if (!wanted)
        y.set(i, j, static_cast<Stored>(before));
      else
        y.set(i, j, static_cast<Stored>(merge.old.data ? S::plus(before, t.at(from, j)) : t.at(from, j)));
    }
  }
}

}  // namespace

void semiring_merge(Semiring semiring, const SemiringMerge& merge, const Tile& y) {
  with_semiring(semiring, merge.t.dtype, [&]<class S>(S) {
    using Block = typename S::Block;
    if (y.dtype == merge.t.dtype) return merge_elements<S, Block>(merge, y);
    if constexpr (std::is_same_v<S, PlusTimes<std::int64_t>>) {
      visit_real_type(y.dtype, [&](auto sample) {
        if constexpr (std::is_integral_v<decltype(sample)>) merge_elements<S, decltype(sample)>(merge, y);
      });
    } else {
      throw ShapeError("semiring: the product is " + std::string(name_of(merge.t.dtype)) + " and Y " +
                       std::string(name_of(y.dtype)) + "; they must agree.");
    }
  });
}

}  // namespace flagstone::kernel
