// Rows of weights against their naive twin, each instruction set that this processor has; ghosts against their rules.
#include "flagstone/kernel/stencil/weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/reference/stencil.hpp"
#include "flagstone/kernel/stencil/edges.hpp"
#include "flagstone/kernel/stencil/weight_row.hpp"

namespace flagstone::kernel {
namespace {

template <class T>
constexpr Dtype dtype_of_test() {
  if constexpr (std::is_same_v<T, float>) return Dtype::float32;
  if constexpr (std::is_same_v<T, double>) return Dtype::float64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return Dtype::uint8;
  if constexpr (std::is_same_v<T, std::complex<float>>) return Dtype::complex64;
  if constexpr (std::is_same_v<T, std::complex<double>>) return Dtype::complex128;
  return Dtype::int64;
}

template <class T>
class WeightsTest : public testing::Test {
 protected:
  static constexpr Index rows = 3, columns = 151, reach = 2, wide = columns + 2 * reach;

  WeightsTest() {
    std::mt19937 random(5);
    for (auto* part : {&field_, &before_, &k_, &s_})
      for (T& value : *part) {
        value = static_cast<T>(static_cast<int>(random() % 200)) / static_cast<T>(7);
        if constexpr (!std::is_arithmetic_v<T>) value += T{0, static_cast<typename T::value_type>(random() % 200)};
      }
  }
  T at(Index z, Index y, Index x) const {
    return field_[static_cast<std::size_t>(((z + reach) * (rows + 2 * reach) + y + reach) * wide + x + reach)];
  }

  void check(WeightsForm form, const std::vector<WeightedNeighbour>& neighbours) {
    const auto kernel = weights_kernel(dtype_of_test<T>(), form, neighbours);
    ASSERT_LE(kernel->radius()[0], reach);
    std::vector<const std::byte*> planes;
    for (Index dz = -kernel->radius()[0]; dz <= kernel->radius()[0]; ++dz)
      planes.push_back(reinterpret_cast<const std::byte*>(&field_[0]) +
                       ((dz + reach) * (rows + 2 * reach) + reach) * wide * Index{sizeof(T)} +
                       reach * Index{sizeof(T)});
    const CoefficientRows coefficients[] = {
        {reinterpret_cast<const std::byte*>(&k_[0]), columns * Index{sizeof(T)}, sizeof(T)},
        {reinterpret_cast<const std::byte*>(&s_[0]), Index{sizeof(T)}, 0}};
    std::vector<T> made(rows * columns, T{77});
    std::vector<std::byte> scratch(kernel->scratch_bytes());
    PlaneCall call{rows,
                   columns,
                   reinterpret_cast<std::byte*>(&made[0]),
                   columns * Index{sizeof(T)},
                   planes.data(),
                   wide * Index{sizeof(T)},
                   reinterpret_cast<const std::byte*>(&before_[0]),
                   columns * Index{sizeof(T)},
                   coefficients};
    kernel->run(call, scratch.data());
    for (Index y = 0; y < rows; ++y)
      for (Index x = 0; x < columns; ++x) {
        const auto i = static_cast<std::size_t>(y * columns + x);
        const T sum = reference::weighted_sum<T>(
            neighbours, [&](const Axes& offset) { return at(offset[0], y + offset[1], x + offset[2]); });
        EXPECT_EQ(made[i],
                  reference::next_value<T>(form, sum, at(0, y, x), before_[i], k_[i], s_[static_cast<std::size_t>(y)]))
            << "row " << y << ", column " << x;
      }
  }

  std::vector<T> field_ = std::vector<T>(5 * (rows + 2 * reach) * wide);
  std::vector<T> before_ = std::vector<T>(rows * columns), k_ = before_, s_ = before_;
};

using Types = testing::Types<float, double, std::complex<float>, std::complex<double>, std::uint8_t, std::int64_t>;
TYPED_TEST_SUITE(WeightsTest, Types);

TYPED_TEST(WeightsTest, RowsAreThoseOfTheTwin) {
  using enum WeightsForm;
  const std::vector<WeightedNeighbour> star{{{0, 0, 0}, -6}, {{0, 0, 1}, 1}, {{0, 0, -1}, 1}, {{0, 1, 0}, 1},
                                            {{0, -1, 0}, 1}, {{1, 0, 0}, 1}, {{-1, 0, 0}, 1}, {{2, 0, 0}, 3},
                                            {{0, -2, 0}, 3}, {{0, 0, 2}, 5}};
  std::vector<WeightedNeighbour> box;
  for (Index z = -1; z <= 1; ++z)
    for (Index y = -1; y <= 1; ++y)
      for (Index x = -1; x <= 1; ++x) box.push_back({{z, y, x}, static_cast<double>(1 + (z * z + y * y + x * x) % 3)});
  for (const WeightsForm form : {sum, grow, grow_source, swing, wave}) this->check(form, star), this->check(form, box);
  if constexpr (std::is_floating_point_v<TypeParam>) this->check(damped_wave, star);
}

/// A real coefficient, of a complex field: both parts are multiplied, and divided.
TEST(Weights, DampingOfComplexFields) {
  using Z = std::complex<double>;
  const auto kernel = weights_kernel(Dtype::complex128, WeightsForm::damped_wave, {{{0, 0, 0}, 2}});
  const Z now{3, -5}, before{7, 11}, k{0, 0.5}, s{1, 0};
  Z to;
  const auto* const plane = reinterpret_cast<const std::byte*>(&now);
  const CoefficientRows given[] = {{reinterpret_cast<const std::byte*>(&k), 0, 0},
                                   {reinterpret_cast<const std::byte*>(&s), 0, 0}};
  std::vector<std::byte> scratch(kernel->scratch_bytes());
  kernel->run(
      {1, 1, reinterpret_cast<std::byte*>(&to), 16, &plane, 16, reinterpret_cast<const std::byte*>(&before), 16, given},
      scratch.data());
  EXPECT_EQ(to, (2.0 * now - (1.0 - s) * before + k * 2.0 * now) / 2.0);
}

TEST(Weights, RefusesWhatHasNoRow) {
  EXPECT_THROW(weights_kernel(Dtype::float32, WeightsForm::sum, {{{0, 0, 0}, {0, 1}}}), ShapeError);
  EXPECT_THROW(weights_kernel(Dtype::int32, WeightsForm::sum, {{{0, 0, 0}, 0.5}}), ShapeError);
  EXPECT_THROW(weights_kernel(Dtype::int32, WeightsForm::damped_wave, {{{0, 0, 0}, 1}}), ShapeError);
}

TEST(Edges, GhostsTakeTheirSources) {
  Space space;
  space.shape = {1, 1, 3}, space.radius = {0, 0, 7};
  const auto sources = [&](Edge edge) {
    std::vector<Index> found;
    space.edges[2][0].edge = space.edges[2][1].edge = edge;
    for (Index at = -4; at < 7; ++at) found.push_back(ghost_source(space, 2, at).at);
    return found;
  };
  EXPECT_THAT(sources(Edge::periodic), testing::ElementsAre(2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0));
  EXPECT_THAT(sources(Edge::neumann), testing::ElementsAre(2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0));
  EXPECT_THAT(sources(Edge::mirror), testing::ElementsAre(0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2));
  space.edges[2][0].edge = Edge::fixed;
  EXPECT_EQ(ghost_source(space, 2, -1).kind, GhostSource::low);
  EXPECT_EQ(ghost_source(space, 2, 6).kind, GhostSource::low) << "mirrored beyond the other edge";
}

}  // namespace
}  // namespace flagstone::kernel
