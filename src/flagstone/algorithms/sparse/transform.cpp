#include "flagstone/algorithms/sparse/transform.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

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

template <class Real>
void scale(const Transform::Step& step, const Stretch& s) {
  Real* values = reinterpret_cast<Real*>(s.values);
  if (step.kind == Transform::Step::Kind::scale) {
    for (Index i = 0; i < s.count; ++i) values[i] = static_cast<Real>(values[i] * step.factors[0]);
  } else if (step.kind == Transform::Step::Kind::rows) {
    for_each_row(s, [&](Index row, Index from, Index to) {
      const double factor = step.factors[static_cast<std::size_t>(s.first_row + row)];
      for (Index i = from; i < to; ++i) values[i] = static_cast<Real>(values[i] * factor);
    });
  } else {
    visit_column(s.column, [&](auto sample) {
      const auto* columns = reinterpret_cast<const decltype(sample)*>(s.columns);
      for (Index i = 0; i < s.count; ++i) values[i] = static_cast<Real>(values[i] * step.factors[columns[i]]);
    });
  }
}

template <class Real>
void change(const Transform::Step& step, const Stretch& s) {
  using Kind = Transform::Step::Kind;
  Real* values = reinterpret_cast<Real*>(s.values);
  const auto each = [&](auto f) {
    for (Index i = 0; i < s.count; ++i) values[i] = static_cast<Real>(f(values[i]));
  };
  if (step.kind == Kind::power)
    each([n = step.factors[0]](Real value) { return std::pow(static_cast<double>(value), n); });
  else if (step.kind == Kind::single)
    each([](Real value) { return static_cast<float>(value); });
  else
    each([](Real value) { return value != 0 ? 1 : 0; });
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

Index apply(const Transform* transform, const std::optional<ColumnRange>& between, const Stretch& s, Index before,
            Index* kept, std::byte* scratch) {
  static const Transform none;
  const std::vector<Index>& place = transform ? transform->place : none.place;
  for (const auto& step : transform ? transform->steps : none.steps) {
    if (step.kind == Transform::Step::Kind::map) {
      kernel::map_values(step.verb, s.real, s.values, s.count, scratch);
      std::memcpy(s.values, scratch, static_cast<std::size_t>(s.count) * size_of(s.real));
    } else if (step.kind == Transform::Step::Kind::frequencies) {
      visit_column(s.column, [&](auto sample) {
        using Column = decltype(sample);
        s.real == Dtype::float32 ? weigh<float, Column>(step, s) : weigh<double, Column>(step, s);
      });
    } else if (step.kind > Transform::Step::Kind::map) {
      s.real == Dtype::float32 ? change<float>(step, s) : change<double>(step, s);
    } else if (s.real == Dtype::float32) {
      scale<float>(step, s);
    } else {
      scale<double>(step, s);
    }
  }
  if (place.empty() && !between) return s.count;
  return visit_column(s.column, [&](auto sample) {
    using Column = decltype(sample);
    const auto chosen = [&](auto place_of) {
      return s.real == Dtype::float32 ? select<float, Column>(place_of, s, before, kept)
                                      : select<double, Column>(place_of, s, before, kept);
    };
    if (!between) return chosen([&](Column column) { return place[column]; });
    const auto [first, last] = *between;
    const auto inside = [=](Index at) { return at >= first && at < last ? at - first : Index{-1}; };
    if (place.empty()) return chosen([&](Column column) { return inside(static_cast<Index>(column)); });
    return chosen([&](Column column) { return inside(place[column]); });
  });
}

}  // namespace flagstone::sparse
