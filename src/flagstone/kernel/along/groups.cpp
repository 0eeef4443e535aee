#include "flagstone/kernel/along/groups.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/base/two_sum.hpp"

namespace flagstone::kernel {
namespace {

/// Columns of one row that lie one after the other in the accumulators: x[j stride] goes to column first + j.
template <class F>
void for_each_row(const Tile& values, F f) {
  const std::size_t ndim = values.shape.size();
  const bool flat = ndim < 2;
  const Index run = flat ? 1 : values.shape[ndim - 1], stride = flat ? 0 : values.strides[ndim - 1];
  Shape extents(values.shape.begin() + (flat ? ndim : 1), values.shape.end() - (flat ? 0 : 1));
  Shape place(extents.size(), 0);
  for (Index i = 0; i < values.shape[0]; ++i) {
    Index first = 0;
    do {
      const std::byte* data = values.data + i * values.strides[0];
      for (std::size_t d = 0; d < place.size(); ++d) data += place[d] * values.strides[d + 1];
      f(i, data, stride, run, first);
      first += run;
    } while (advance(place, extents));
  }
}

template <class T>
T at(const std::byte* data, Index j, Index stride) {
  return *reinterpret_cast<const T*>(data + j * stride);
}

template <class T>
void sum_rows(const Tile& values, const Index* labels, Index groups, Index columns, std::byte* words) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  auto* sums = reinterpret_cast<Sum*>(words);
  Sum* const low = sums + groups * columns;  // of float64 alone
  for_each_row(values, [&](Index i, const std::byte* data, Index stride, Index run, Index first) {
    if (labels[i] < 0) return;
    Sum* __restrict to = sums + labels[i] * columns + first;
    if constexpr (std::is_same_v<T, double>) {
      Sum* __restrict rest = low + labels[i] * columns + first;
      if (stride == sizeof(T)) {
        const T* x = reinterpret_cast<const T*>(data);
        for (Index j = 0; j < run; ++j) add_to(to[j], rest[j], x[j]);
      } else {
        for (Index j = 0; j < run; ++j) add_to(to[j], rest[j], at<T>(data, j, stride));
      }
    } else if (stride == sizeof(T)) {
      const T* x = reinterpret_cast<const T*>(data);
      for (Index j = 0; j < run; ++j) to[j] += static_cast<Sum>(x[j]);
    } else {
      for (Index j = 0; j < run; ++j) to[j] += static_cast<Sum>(at<T>(data, j, stride));
    }
  });
}

/// Welford's update: the rows of a group share their number, so that a row divides once.
template <class T>
void var_rows(const Tile& values, const Index* labels, Index groups, Index columns, std::byte* words) {
  auto* means = reinterpret_cast<double*>(words);
  double* const squares = means + groups * columns;
  double* const numbers = squares + groups * columns;
  for_each_row(values, [&](Index i, const std::byte* data, Index stride, Index run, Index first) {
    if (labels[i] < 0) return;
    if (first == 0) numbers[labels[i]] += 1;
    const double share = 1 / numbers[labels[i]];
    double* __restrict mean = means + labels[i] * columns + first;
    double* __restrict square = squares + labels[i] * columns + first;
    for (Index j = 0; j < run; ++j) {
      const auto x = static_cast<double>(at<T>(data, j, stride));
      const double apart = x - mean[j];
      mean[j] += apart * share;
      square[j] += apart * (x - mean[j]);
    }
  });
}

template <class F>
void visit(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::float32:
      return f(float{});
    case Dtype::float64:
      return f(double{});
    case Dtype::int64:
      return f(std::int64_t{});
    case Dtype::uint64:
      return f(std::uint64_t{});
    default:
      throw ShapeError("groups: " + std::string(name_of(dtype)) +
                       " was given; float32, float64 or 64 bits are needed.");
  }
}

}  // namespace

int group_words(GroupFold fold, Dtype dtype) { return fold == GroupFold::var || dtype == Dtype::float64 ? 2 : 1; }

std::size_t group_bytes(GroupFold fold, Dtype dtype, Index groups, Index columns) {
  const Index words = group_words(fold, dtype) * groups * columns + (fold == GroupFold::var ? groups : 0);
  return 8 * static_cast<std::size_t>(words);
}

void group_rows(GroupFold fold, const Tile& values, const Index* labels, Index groups, std::byte* words) {
  if (count(values.shape) == 0) return;
  const Index columns = count(values.shape) / values.shape[0];
  visit(values.dtype, [&](auto sample) {
    using T = decltype(sample);
    fold == GroupFold::sum ? sum_rows<T>(values, labels, groups, columns, words)
                           : var_rows<T>(values, labels, groups, columns, words);
  });
}

void join_groups(GroupFold fold, Dtype dtype, Index groups, Index columns, const std::byte* from, std::byte* to) {
  const Index n = groups * columns;
  if (fold == GroupFold::sum && dtype != Dtype::float64) {
    visit(dtype, [&](auto sample) {
      using Sum = std::conditional_t<std::is_floating_point_v<decltype(sample)>, double, std::uint64_t>;
      for (Index i = 0; i < n; ++i) reinterpret_cast<Sum*>(to)[i] += reinterpret_cast<const Sum*>(from)[i];
    });
    return;
  }
  const auto* a = reinterpret_cast<const double*>(from);
  auto* b = reinterpret_cast<double*>(to);
  if (fold == GroupFold::sum) {
    for (Index i = 0; i < n; ++i) b[n + i] += a[n + i], add_to(b[i], b[n + i], a[i]);
    return;
  }
  for (Index g = 0; g < groups; ++g) {
    const double more = a[2 * n + g], had = b[2 * n + g], all = more + had;
    if (more == 0) continue;
    for (Index i = g * columns; i < (g + 1) * columns; ++i) {
      const double apart = a[i] - b[i];
      b[i] += apart * (more / all);
      b[n + i] += a[n + i] + apart * apart * (had * more / all);
    }
    b[2 * n + g] = all;
  }
}

}  // namespace flagstone::kernel
