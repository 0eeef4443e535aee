// The kernels of this room against loops that can be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "flagstone/kernel/along/groups.hpp"
#include "flagstone/kernel/along/ranks.hpp"
#include "flagstone/kernel/along/scan.hpp"

namespace flagstone::kernel {
namespace {

template <class T>
Tile tile_of(std::vector<T>& values, const Shape& shape, Dtype dtype) {
  return {reinterpret_cast<std::byte*>(values.data()), dtype, shape, c_strides(shape, sizeof(T)),
          sizeof(T) * values.size()};
}

std::vector<double> numbers(std::size_t n) {
  std::mt19937_64 random(7);
  std::vector<double> values(n);
  for (double& value : values) value = std::normal_distribution<double>()(random);
  return values;
}

/// Cut anywhere, a running sum is what one loop gives.
TEST(Scan, TilesThatFollowOneAnotherGiveTheSumsOfALoop) {
  for (const std::size_t axis : {0u, 1u}) {
    constexpr Index rows = 21, columns = 19;
    std::vector<double> x = numbers(rows * columns), y(x.size()), wanted = x;
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j)
        if ((axis == 0 ? i : j) > 0)
          wanted[static_cast<std::size_t>(i * columns + j)] +=
              wanted[static_cast<std::size_t>(axis == 0 ? (i - 1) * columns + j : i * columns + j - 1)];
    const Shape shape{rows, columns};
    const Tile from = tile_of(x, shape, Dtype::float64), to = tile_of(y, shape, Dtype::float64);
    std::vector<double> carry(static_cast<std::size_t>(axis == 0 ? columns : rows));
    const Tile carried = tile_of(carry, axis == 0 ? Shape{1, columns} : Shape{rows, 1}, Dtype::float64);
    for (Index first = 0; first < shape[axis]; first += 8) {
      Box box = whole(shape);
      box.start[axis] = first, box.shape[axis] = std::min<Index>(8, shape[axis] - first);
      scan({Scan::sum, axis, first == 0, false}, subtile(from, box), subtile(to, box), carried);
    }
    EXPECT_EQ(y, wanted);
  }
}

TEST(Difference, NeighboursOfTheNextTileTooAndSeveralTimes) {
  std::vector<double> x = numbers(40), y(36), work(40);
  const Tile from = tile_of(x, {20, 2}, Dtype::float64), to = tile_of(y, {18, 2}, Dtype::float64);
  for (Index first = 0; first < 18; first += 6) {
    const Index extent = std::min<Index>(6, 20 - first), rest = std::min<Index>(6, 20 - first - extent);
    const Tile own = subtile(from, {{first, 0}, {extent, 2}});
    const Tile next = subtile(from, {{first + extent, 0}, {rest, 2}});
    difference(2, 0, own, &next, subtile(to, {{first, 0}, {std::min<Index>(6, 18 - first), 2}}),
               reinterpret_cast<std::byte*>(work.data()));
  }
  for (std::size_t i = 0; i < 36; ++i) EXPECT_EQ(y[i], (x[i + 4] - x[i + 2]) - (x[i + 2] - x[i]));
}

TEST(Groups, JoinedVariancesAreThoseOfAllRows) {
  constexpr Index rows = 50, columns = 3, groups = 4;
  std::vector<double> x = numbers(rows * columns);
  std::vector<Index> labels(rows);
  for (Index i = 0; i < rows; ++i) labels[static_cast<std::size_t>(i)] = i % 5 - 1;
  const Tile all = tile_of(x, {rows, columns}, Dtype::float64);
  const std::size_t bytes = group_bytes(GroupFold::var, Dtype::float64, groups, columns);
  std::vector<double> one(bytes / 8), other(bytes / 8);
  const auto words = [](std::vector<double>& of) { return reinterpret_cast<std::byte*>(of.data()); };
  group_rows(GroupFold::var, subtile(all, {{0, 0}, {17, columns}}), labels.data(), groups, words(one));
  group_rows(GroupFold::var, subtile(all, {{17, 0}, {rows - 17, columns}}), labels.data() + 17, groups, words(other));
  join_groups(GroupFold::var, Dtype::float64, groups, columns, words(other), words(one));
  for (Index g = 0; g < groups; ++g)
    for (Index j = 0; j < columns; ++j) {
      double mean = 0, squares = 0, n = 0;
      for (Index i = 0; i < rows; ++i)
        if (labels[static_cast<std::size_t>(i)] == g) mean += x[static_cast<std::size_t>(i * columns + j)], ++n;
      mean /= n;
      for (Index i = 0; i < rows; ++i)
        if (labels[static_cast<std::size_t>(i)] == g) {
          const double apart = x[static_cast<std::size_t>(i * columns + j)] - mean;
          squares += apart * apart;
        }
      const auto at = static_cast<std::size_t>(g * columns + j);
      EXPECT_NEAR(one[at], mean, n * 2.3e-16 * 4);  // n eps of numbers of this size
      EXPECT_NEAR(one[static_cast<std::size_t>(groups * columns) + at], squares, n * n * 2.3e-16 * 16);
    }
}

/// Bits in any widths, two tables of counts joined, give the sorted lane's elements.
TEST(Ranks, CountingBitsFindsTheElementsOfASortedLane) {
  constexpr Index length = 301, lanes = 5;
  std::vector<double> x = numbers(length * lanes);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.5;  // equal ones
  const Tile values = tile_of(x, {length, lanes}, Dtype::float64);
  Ranks ranks{.dtype = Dtype::float64, .lane_strides = {0, 1}, .lanes = lanes, .wanted = {0, 7, 150, 151, 300}};
  std::vector<std::byte> state(rank_state_bytes(lanes, ranks.targets()));
  for (int shift = 64; shift > 0;) {
    ranks.bits = std::min(11, shift), ranks.first = shift == 64;
    shift -= ranks.bits, ranks.shift = shift;
    std::vector<std::byte> one(rank_count_bytes(ranks)), other = one;
    count_keys(ranks, subtile(values, {{0, 0}, {100, lanes}}), state.data(), one.data());
    count_keys(ranks, subtile(values, {{100, 0}, {length - 100, lanes}}), state.data(), other.data());
    join_counts(ranks, other.data(), one.data());
    choose_bins(ranks, one.data(), state.data());
  }
  std::vector<double> found(5 * lanes), at_once(5 * lanes);
  write_answers(ranks, state.data(), tile_of(found, {5, lanes}, Dtype::float64));
  std::vector<double> work(x.size());
  select_whole(ranks, values, reinterpret_cast<std::byte*>(work.data()), tile_of(at_once, {5, lanes}, Dtype::float64));
  EXPECT_EQ(found, at_once);
  for (Index l = 0; l < lanes; ++l) {
    std::vector<double> lane;
    for (Index i = 0; i < length; ++i) lane.push_back(x[static_cast<std::size_t>(i * lanes + l)]);
    std::sort(lane.begin(), lane.end());
    for (std::size_t t = 0; t < 5; ++t)
      EXPECT_EQ(found[t * lanes + static_cast<std::size_t>(l)], lane[static_cast<std::size_t>(ranks.wanted[t])]);
  }
}

}  // namespace
}  // namespace flagstone::kernel
