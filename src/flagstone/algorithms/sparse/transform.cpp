#include "flagstone/algorithms/sparse/transform.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "flagstone/algorithms/sparse/value_conversion.hpp"
#include "flagstone/kernel/elementwise/expression.hpp"

namespace flagstone::sparse {
namespace {

template <class F>
decltype(auto) visit_column(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::uint16:
      return f(std::uint16_t{});
    case Dtype::uint32:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

/// Calls f(row of the panel, from, to) for the rows that the stretch touches; from and to count within it.
template <class F>
void for_each_row(const Stretch& s, F&& f) {
  const Index last = s.first + s.count;
  for (Index row = s.row, at = s.first; at < last; ++row) {
    const Index end = std::min(s.pointers[row + 1], last);
    if (end > at) f(row, at - s.first, end - s.first);
    at = std::max(at, end);
  }
}

double widest(float x) { return x; }
double widest(double x) { return x; }
std::complex<double> widest(std::complex<float> x) { return x; }
std::complex<double> widest(std::complex<double> x) { return x; }

template <class Value>
void scale(const Transform::Step& step, const Stretch& s) {
  Value* values = reinterpret_cast<Value*>(s.values);
  if (step.kind == Transform::Step::Kind::scale) {
    for (Index i = 0; i < s.count; ++i) values[i] = static_cast<Value>(widest(values[i]) * step.factors[0]);
  } else if (step.kind == Transform::Step::Kind::rows) {
    for_each_row(s, [&](Index row, Index from, Index to) {
      const double factor = step.factors[static_cast<std::size_t>(s.first_row + row)];
      for (Index i = from; i < to; ++i) values[i] = static_cast<Value>(widest(values[i]) * factor);
    });
  } else {
    visit_column(s.column, [&](auto sample) {
      const auto* columns = reinterpret_cast<const decltype(sample)*>(s.columns);
      for (Index i = 0; i < s.count; ++i) values[i] = static_cast<Value>(widest(values[i]) * step.factors[columns[i]]);
    });
  }
}

std::complex<double> in_single(std::complex<double> x) { return std::complex<double>(std::complex<float>(x)); }
double in_single(double x) { return static_cast<float>(x); }

template <class Value>
void change(const Transform::Step& step, const Stretch& s) {
  using Kind = Transform::Step::Kind;
  Value* values = reinterpret_cast<Value*>(s.values);
  const auto each = [&](auto f) {
    for (Index i = 0; i < s.count; ++i) values[i] = static_cast<Value>(f(widest(values[i])));
  };
  if (step.kind == Kind::power)
    each([n = step.factors[0]](auto value) { return std::pow(value, n); });
  else if (step.kind == Kind::single)
    each([](auto value) { return in_single(value); });
  else if (step.kind == Kind::turn)
    each([factor = std::complex<double>(step.factors[0], step.factors[1])](auto value) {
      if constexpr (std::is_same_v<decltype(value), double>)
        return value;  // never: they were made complex
      else
        return value * factor;
    });
  else if constexpr (std::is_floating_point_v<Value>)
    each([](double value) { return value != 0 ? 1.0 : 0.0; });
  else
    each([](std::complex<double> value) { return std::conj(value); });
}

template <class Value>
void halve_diagonal(const Stretch& s) {
  Value* values = reinterpret_cast<Value*>(s.values);
  visit_column(s.column, [&](auto sample) {
    const auto* columns = reinterpret_cast<const decltype(sample)*>(s.columns);
    for_each_row(s, [&](Index row, Index from, Index to) {
      const auto diagonal = static_cast<decltype(sample)>(s.first_row + row);
      for (Index i = from; i < to; ++i)
        if (columns[i] == diagonal) values[i] *= static_cast<decltype(std::abs(Value{}))>(0.5);
    });
  });
}

/// Complex numbers become real ones, in place.
template <class Real>
void narrow(Transform::Step::Kind kind, const Stretch& s) {
  using Kind = Transform::Step::Kind;
  const auto* from = reinterpret_cast<const std::complex<Real>*>(s.values);
  Real* to = reinterpret_cast<Real*>(s.values);
  for (Index i = 0; i < s.count; ++i) {
    const std::complex<Real> value = from[i];
    to[i] = kind == Kind::real_part        ? value.real()
            : kind == Kind::imaginary_part ? value.imag()
            : kind == Kind::magnitude      ? std::abs(value)
                                           : Real(value != Real{0} ? 1 : 0);
  }
}

/// In float64 whatever Real is: a threshold is a whole number, which float32 may miss.
template <class Real, class Column>
void weigh(const Transform::Step& step, const Stretch& s) {
  const auto of = [](const Array& array) {
    return array ? reinterpret_cast<const double*>(array.store().memory()) : nullptr;
  };
  const double *lengths = of(step.lengths), *thresholds = of(step.thresholds), average = step.factors[0];
  Real* values = reinterpret_cast<Real*>(s.values);
  const auto* columns = reinterpret_cast<const Column*>(s.columns);
  for_each_row(s, [&](Index row, Index from, Index to) {
    const double length = lengths[s.first_row + row];
    for (Index i = from; i < to; ++i) {
      double value = length > 0 ? static_cast<double>(values[i]) * average / length : 0;
      if (thresholds) {
        const double least = thresholds[columns[i]];
        value = std::floor(value + 0.5) >= least ? std::sqrt(least) : 0;
      }
      values[i] = static_cast<Real>(value);
    }
  });
}

template <class Real, class Column, class Place>
Index select(Place place_of, const Stretch& s, Index before, Index* kept) {
  Real* values = reinterpret_cast<Real*>(s.values);
  Column* columns = reinterpret_cast<Column*>(s.columns);
  Index stay = 0, at = 0;
  for (Index row = s.row;; ++row) {
    const Index end = std::min(s.pointers[row + 1] - s.first, s.count);
    for (; at < end; ++at) {
      const Index place = place_of(columns[at]);
      values[stay] = values[at];
      columns[stay] = static_cast<Column>(place);
      stay += place >= 0;
    }
    if (s.pointers[row + 1] - s.first > s.count) break;
    kept[row + 1] = before + stay;
    if (at == s.count) break;
  }
  return stay;
}

}  // namespace

namespace {

using Kind = Transform::Step::Kind;

bool narrows(Kind kind) {
  return kind == Kind::truth || kind == Kind::real_part || kind == Kind::imaginary_part || kind == Kind::magnitude;
}

template <class F>
decltype(auto) visit_value(Dtype dtype, F&& f) {
  return visit_blas_type(dtype, f);  // int64, which no step changes, moves as float64
}

/// One step; `s.dtype` is what values are after it.
void take_step(const Transform::Step& step, Stretch& s, std::byte* scratch) {
  const bool is_now = is_complex(s.dtype);
  if (is_now && narrows(step.kind)) {
    s.dtype = real_part_of(s.dtype);
    return s.dtype == Dtype::float32 ? narrow<float>(step.kind, s) : narrow<double>(step.kind, s);
  }
  if (!is_now && step.kind == Kind::turn) {
    widen_to_complex(s.values, s.dtype, s.count);
    s.dtype = complex_of(s.dtype);
  }
  if (!is_now && (step.kind == Kind::conjugate || step.kind == Kind::real_part)) return;
  if (!is_now && step.kind == Kind::imaginary_part)
    return void(std::memset(s.values, 0, static_cast<std::size_t>(s.count) * size_of(s.dtype)));
  if (step.kind == Kind::map || step.kind == Kind::magnitude) {
    const auto verb = step.kind == Kind::map ? step.verb : kernel::Verb::absolute;
    kernel::map_values(verb, s.dtype, s.values, s.count, scratch);
    std::memcpy(s.values, scratch, static_cast<std::size_t>(s.count) * size_of(s.dtype));
  } else if (step.kind == Kind::frequencies) {
    visit_column(s.column, [&](auto sample) {
      using Column = decltype(sample);
      s.dtype == Dtype::float32 ? weigh<float, Column>(step, s) : weigh<double, Column>(step, s);
    });
  } else if (step.kind == Kind::half_diagonal) {
    visit_value(s.dtype, [&](auto value) { halve_diagonal<decltype(value)>(s); });
  } else if (step.kind > Kind::map) {
    visit_value(s.dtype, [&](auto value) { change<decltype(value)>(step, s); });
  } else {
    visit_value(s.dtype, [&](auto value) { scale<decltype(value)>(step, s); });
  }
}

}  // namespace

bool ends_complex(const Transform* transform, bool begins) {
  for (const auto& step : transform ? transform->steps : std::vector<Transform::Step>{})
    begins = step.kind == Kind::turn || (begins && !narrows(step.kind));
  return begins;
}

bool ever_complex(const Transform* transform, bool begins) {
  for (const auto& step : transform ? transform->steps : std::vector<Transform::Step>{})
    begins = begins || step.kind == Kind::turn;
  return begins;
}

Index apply(const Transform* transform, const std::optional<ColumnRange>& between, const Stretch& stretch, Dtype dtype,
            Index before, Index* kept, std::byte* scratch) {
  static const Transform none;
  const std::vector<Index>& place = transform ? transform->place : none.place;
  Stretch s = stretch;
  for (const auto& step : transform ? transform->steps : none.steps) take_step(step, s, scratch);
  if (is_complex(dtype) && !is_complex(s.dtype)) widen_to_complex(s.values, s.dtype, s.count);
  if (place.empty() && !between) return s.count;
  return visit_column(s.column, [&](auto sample) {
    using Column = decltype(sample);
    const auto chosen = [&](auto place_of) {
      return visit_value(dtype, [&](auto value) { return select<decltype(value), Column>(place_of, s, before, kept); });
    };
    if (!between) return chosen([&](Column column) { return place[column]; });
    const auto [first, last] = *between;
    const auto inside = [=](Index at) { return at >= first && at < last ? at - first : Index{-1}; };
    if (place.empty()) return chosen([&](Column column) { return inside(static_cast<Index>(column)); });
    return chosen([&](Column column) { return inside(place[column]); });
  });
}

}  // namespace flagstone::sparse
