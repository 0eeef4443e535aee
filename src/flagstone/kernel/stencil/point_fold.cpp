#include "flagstone/kernel/stencil/point_fold.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <type_traits>

#include "flagstone/base/error.hpp"
#include "flagstone/base/real_types.hpp"

namespace flagstone::kernel {
namespace {

template <class T>
constexpr bool is_complex_type = false;
template <class R>
constexpr bool is_complex_type<std::complex<R>> = true;

/// Numbers in the order of values: of floats -0 comes before 0, so that no result depends on who came first.
template <class T>
std::int64_t key_of(T value) {
  if constexpr (std::is_same_v<T, float>) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    return bits ^ ((bits >> 31) & 0x7fffffff);
  } else if constexpr (std::is_same_v<T, double>) {
    const auto bits = std::bit_cast<std::int64_t>(value);
    return bits ^ ((bits >> 63) & std::numeric_limits<std::int64_t>::max());
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return static_cast<std::int64_t>(value ^ (std::uint64_t{1} << 63));
  } else {
    return static_cast<std::int64_t>(value);
  }
}

template <class T>
T from_key(std::int64_t key) {
  if constexpr (std::is_same_v<T, float>) {
    const auto bits = static_cast<std::int32_t>(key);
    return std::bit_cast<float>(bits ^ ((bits >> 31) & 0x7fffffff));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(key ^ ((key >> 63) & std::numeric_limits<std::int64_t>::max()));
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return static_cast<std::uint64_t>(key) ^ (std::uint64_t{1} << 63);
  } else {
    return static_cast<T>(key);
  }
}

template <class T>
T element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class F>
void visit_field_type(Dtype dtype, F&& f) {
  if (dtype == Dtype::complex64) return f(std::complex<float>{});
  if (dtype == Dtype::complex128) return f(std::complex<double>{});
  visit_real_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>) f(zero);
  });
}

bool is_signed(Dtype dtype) { return dtype >= Dtype::int8 && dtype <= Dtype::int64; }

}  // namespace

FoldKind point_fold_from_name(std::string_view name) {
  constexpr std::string_view names[] = {"max", "min", "sum", "l2", "change"};
  for (std::size_t i = 0; i < std::size(names); ++i)
    if (names[i] == name) return static_cast<FoldKind>(i);
  throw ShapeError("stencil: there is no reduction '" + std::string(name) + "'.");
}

Dtype dtype_of_fold(FoldKind kind, Dtype field) {
  switch (kind) {
    case FoldKind::max:
    case FoldKind::min:
      if (is_complex(field)) throw ShapeError("stencil: complex numbers have no largest and no least one.");
      return field;
    case FoldKind::sum:
      if (is_complex(field)) return Dtype::complex128;
      return !is_integer(field) ? Dtype::float64 : is_signed(field) ? Dtype::int64 : Dtype::uint64;
    case FoldKind::l2:
      return Dtype::float64;
    case FoldKind::change:
      break;
  }
  return is_integer(field) ? Dtype::uint64 : real_part_of(field);
}

PointFold::PointFold(Dtype dtype, std::vector<FoldKind> kinds, bool check)
    : dtype_(dtype), kinds_(std::move(kinds)), check_(check) {}

bool PointFold::has(FoldKind kind) const { return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end(); }

template <class T>
void PointFold::add_row(const std::byte* from, const std::byte* to, Index n, Index first) {
  const auto item = static_cast<Index>(sizeof(T));
  const auto each = [&](auto&& f) {
    for (Index i = 0; i < n; ++i) f(element<T>(to + i * item));
  };
  if constexpr (!std::is_integral_v<T>) {
    bool finite = true;
    each([&](T value) {
      if constexpr (is_complex_type<T>)
        finite &= std::isfinite(value.real()) && std::isfinite(value.imag()),
            nan_ |= std::isnan(value.real()) || std::isnan(value.imag());
      else
        finite &= std::isfinite(value), nan_ |= std::isnan(value);
    });
    for (Index i = 0; check_ && !finite && i < n; ++i) {
      const T value = element<T>(to + i * item);
      if (std::isfinite(std::real(value)) && std::isfinite(std::imag(value))) continue;
      bad_ = std::min(bad_, first + i);
      break;
    }
  }
  for (const FoldKind kind : kinds_) switch (kind) {
      case FoldKind::max:
        if constexpr (!is_complex_type<T>) each([&](T value) { most_ = std::max(most_, key_of(value)); });
        break;
      case FoldKind::min:
        if constexpr (!is_complex_type<T>) each([&](T value) { least_ = std::min(least_, key_of(value)); });
        break;
      case FoldKind::sum:
        each([&](T value) {
          if constexpr (std::is_integral_v<T>)
            whole_ += static_cast<std::uint64_t>(value);
          else if constexpr (is_complex_type<T>)
            sum_.add(value.real()), imaginary_.add(value.imag());
          else
            sum_.add(value);
        });
        break;
      case FoldKind::l2:
        each([&](T value) {
          const auto square = [&](double x) { squares_.add(x * x); };
          if constexpr (is_complex_type<T>)
            square(value.real()), square(value.imag());
          else
            square(static_cast<double>(value));
        });
        break;
      case FoldKind::change:
        for (Index i = 0; i < n; ++i) {
          const T now = element<T>(to + i * item), before = element<T>(from + i * item);
          if constexpr (std::is_integral_v<T>) {
            const auto a = static_cast<std::uint64_t>(now), b = static_cast<std::uint64_t>(before);
            change_ = std::max(change_, key_of(now > before ? a - b : b - a));
          } else {
            const auto size = std::abs(now - before);
            nan_change_ |= std::isnan(size);
            change_ = std::max(change_, key_of(size));
          }
        }
        break;
    }
}

void PointFold::add(const Points& from, const Points& to, const Range3& range, const Axes& shape) {
  if (range.empty()) return;
  points_ += range.count();
  visit_field_type(dtype_, [&](auto zero) {
    for (Index z = range.first[0]; z < range.last[0]; ++z)
      for (Index y = range.first[1]; y < range.last[1]; ++y)
        add_row<decltype(zero)>(from.at(z, y, range.first[2]), to.at(z, y, range.first[2]), range.extent(2),
                                (z * shape[1] + y) * shape[2] + range.first[2]);
  });
}

void PointFold::merge(const PointFold& other) {
  points_ += other.points_, whole_ += other.whole_;
  bad_ = std::min(bad_, other.bad_), nan_ |= other.nan_, nan_change_ |= other.nan_change_;
  most_ = std::max(most_, other.most_), least_ = std::min(least_, other.least_);
  change_ = std::max(change_, other.change_);
  if (has(FoldKind::sum)) sum_.add(other.sum_), imaginary_.add(other.imaginary_);
  if (has(FoldKind::l2)) squares_.add(other.squares_);
}

void PointFold::value(FoldKind kind, std::byte* to) const {
  const auto put = [&](auto value) { std::memcpy(to, &value, sizeof(value)); };
  if (kind == FoldKind::l2) return put(std::sqrt(squares_.value()));
  if (kind == FoldKind::sum) {
    if (is_integer(dtype_)) return put(whole_);
    if (is_complex(dtype_)) return put(std::complex<double>(sum_.value(), imaginary_.value()));
    return put(sum_.value());
  }
  const std::int64_t key = kind == FoldKind::max ? most_ : kind == FoldKind::min ? least_ : change_;
  const bool nan = kind == FoldKind::change ? nan_change_ : nan_;
  visit_real_type(dtype_of_fold(kind, dtype_), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>) put(nan ? std::numeric_limits<T>::quiet_NaN() : from_key<T>(key));
  });
}

double PointFold::number(FoldKind kind) const {
  std::byte bytes[16] = {};
  value(kind, bytes);
  double found = 0;
  visit_field_type(dtype_of_fold(kind, dtype_), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!is_complex_type<T>)
      found = static_cast<double>(element<T>(bytes));
    else
      found = std::abs(element<T>(bytes));
  });
  return found;
}

}  // namespace flagstone::kernel
