// Expressions as programs write them: against a loop over the elements.
#include "flagstone/algorithms/elementwise/fused.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/element_type.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::elementwise {
namespace {

using test::message_of;
using testing::DoubleNear;
using testing::HasSubstr;
constexpr Index m = 130, n = 70;

class FusedTest : public testing::Test {
 protected:
  FusedTest() {
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> uniform(-2, 3);
    for (double& value : x_) value = uniform(random);
    for (double& value : row_) value = uniform(random);
    on_disk_ = create_zarr_array(folder_ / "x.zarr", {m, n}, Dtype::float64, {.chunks = {32, 32}});
    runtime_.write(on_disk_, whole({m, n}), tile_of(x_.data(), {m, n}));
    on_disk_.store().flush();
  }
  double x(Index i, Index j) const { return x_[static_cast<std::size_t>(i * n + j)]; }

  Array on_disk_of_ones(const Shape& shape, Dtype dtype) {
    const Array made = create_zarr_array(folder_ / "ones.zarr", shape, dtype);
    std::vector<double> ones(static_cast<std::size_t>(count(shape)), 1);
    runtime_.write(made, whole(shape), tile_of(ones.data(), shape));
    return made;
  }

  TemporaryDirectory folder_;
  Runtime runtime_{{.memory = 4 * GiB, .workers = 3, .scratch = folder_ / "scratch"}};
  std::vector<double> x_ = std::vector<double>(m * n), row_ = std::vector<double>(n);
  Array on_disk_;
};

TEST_F(FusedTest, OnePassStoresAndReduces) {
  const Array to = create_zarr_array(folder_ / "y.zarr", {m, n}, Dtype::float64, {.chunks = {64, 16}});
  Fused pass;
  const Value v = pass.read(on_disk_), r = pass.read(memory_array(row_.data(), {n}));
  const Value y = select(v > 0, sqrt(abs(v) + 1), 2.0 - v * r / 3);
  pass.store(y, to);
  const Array columns = pass.reduce(Reduce::mean, y, {.axes = {{0}}});
  const Array total = pass.reduce(Reduce::sum, y);
  const Array spread = pass.reduce(Reduce::var, v, {.axes = {{1}}, .keepdims = true, .ddof = 1});
  const Array most = pass.reduce(Reduce::max, maximum(v, r));
  const Array where = pass.reduce(Reduce::argmin, v);
  const Array some = pass.reduce(Reduce::any, v > 2.9);

  const Statistics planned = runtime_.plan(pass), ran = runtime_.run(pass);
  EXPECT_EQ(planned.bytes_read, ran.bytes_read);
  EXPECT_EQ(planned.tasks, ran.tasks);
  to.store().flush();

  std::vector<double> expected(m * n);
  double sum = 0, largest = -10;
  Index least = 0;
  bool above = false;
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      const double a = x(i, j), b = row_[static_cast<std::size_t>(j)];
      expected[static_cast<std::size_t>(i * n + j)] = a > 0 ? std::sqrt(std::abs(a) + 1) : 2.0 - a * b / 3;
      sum += expected[static_cast<std::size_t>(i * n + j)];
      largest = std::max({largest, a, b});
      if (a < x_[static_cast<std::size_t>(least)]) least = i * n + j;
      above = above || a > 2.9;
    }
  const Array found = runtime_.read(to, whole({m, n}));
  for (std::size_t k = 0; k < expected.size(); ++k) ASSERT_EQ(elements_of<double>(found)[k], expected[k]) << k;
  const double bound = 1e-12;  // of the naive sum: count · eps · largest summand
  EXPECT_NEAR(elements_of<double>(total)[0], sum, m * n * bound);
  EXPECT_EQ(elements_of<double>(most)[0], largest);
  EXPECT_EQ(elements_of<std::int64_t>(where)[0], least);
  EXPECT_EQ(elements_of<bool>(some)[0], above);
  ASSERT_EQ(columns.shape(), (Shape{n}));
  ASSERT_EQ(spread.shape(), (Shape{m, 1}));
  for (Index j = 0; j < n; ++j) {
    double mean = 0;
    for (Index i = 0; i < m; ++i) mean += expected[static_cast<std::size_t>(i * n + j)] / m;
    EXPECT_NEAR(elements_of<double>(columns)[static_cast<std::size_t>(j)], mean, m * bound);
  }
  for (Index i = 0; i < m; ++i) {
    double mean = 0, squares = 0;
    for (Index j = 0; j < n; ++j) mean += x(i, j) / n;
    for (Index j = 0; j < n; ++j) squares += (x(i, j) - mean) * (x(i, j) - mean) / (n - 1);
    EXPECT_NEAR(elements_of<double>(spread)[static_cast<std::size_t>(i)], squares, n * bound);
  }
}

TEST_F(FusedTest, TheSameBitsForEveryLimitAndNumberOfWorkers) {
  std::optional<double> bits;
  for (const int workers : {1, 4})
    for (const std::uint64_t more : {2 * MiB, 512 * MiB}) {
      Fused pass;
      const Value v = pass.read(on_disk_);
      const Array total = pass.reduce(Reduce::sum, v * v);
      const std::uint64_t least = Runtime({.memory = 4 * GiB, .workers = workers}).least_memory(pass);
      Runtime({.memory = least + more, .workers = workers, .scratch = folder_ / "scratch"}).run(pass);
      const double found = elements_of<double>(total)[0];
      EXPECT_EQ(bits.value_or(found), found);
      bits = found;
    }
}

TEST_F(FusedTest, DtypesTransposesAndNumbers) {
  std::vector<std::int32_t> whole_numbers(n * m), doubled(m * n);
  std::iota(whole_numbers.begin(), whole_numbers.end(), 0);
  Fused pass;
  const Value k = pass.read(memory_array(whole_numbers.data(), {n, m}), true);  // m x n
  pass.store(k * 2 + 1, memory_array(doubled.data(), {m, n}));
  const Array total = pass.reduce(Reduce::sum, k);
  std::vector<double> narrow(1);
  const Array wide = pass.reduce(Reduce::sum, k.as(Dtype::float32), {.to = memory_array(narrow.data(), {})});
  const Array mean = pass.reduce(Reduce::mean, k);
  runtime_.run(pass);
  EXPECT_EQ(doubled[1], 2 * m + 1);  // element (0, 1) is (1, 0) of what is stored
  const std::int64_t expected = std::int64_t{m * n} * (m * n - 1) / 2;
  EXPECT_EQ(elements_of<std::int64_t>(total)[0], expected);
  EXPECT_EQ(narrow[0], static_cast<double>(expected));
  EXPECT_EQ(elements_of<double>(mean)[0], (m * n - 1) / 2.0);
  EXPECT_TRUE(wide);
}

TEST_F(FusedTest, ComplexValues) {
  std::vector<std::complex<float>> z{{1, 2}, {-3, 4}}, out(2);
  Fused pass;
  const Value v = pass.read(memory_array(z.data(), {2}));
  pass.store(v * std::complex<double>(0, 1), memory_array(out.data(), {2}));
  const Array real = pass.reduce(Reduce::sum, apply(Verb::real, v));
  runtime_.run(pass);
  EXPECT_EQ(out[1], std::complex<float>(-4, -3));
  EXPECT_EQ(elements_of<float>(real)[0], -2);
  EXPECT_THAT(message_of<ShapeError>([&] { pass.reduce(Reduce::sum, v); }), HasSubstr("real and imaginary parts"));
}

TEST_F(FusedTest, NumbersAreExactOrRefused) {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  std::vector<std::int64_t> near{large - 1, large};
  std::vector<std::uint64_t> most{~std::uint64_t{0}};
  std::vector<float> narrow(2);
  const bool flags[] = {true, false};
  Fused pass;
  const Value k = pass.read(memory_array(near.data(), {2})), u = pass.read(memory_array(most.data(), {1}));
  const Value f = pass.read(memory_array(narrow.data(), {2}));
  const Value b = pass.read(memory_array(const_cast<bool*>(flags), {2}));
  const Array same = pass.reduce(Reduce::sum, k == large), all = pass.reduce(Reduce::all, u == ~std::uint64_t{0});
  const Array right = pass.reduce(Reduce::sum, b == true), wrong = pass.reduce(Reduce::sum, b != true);
  runtime_.run(pass);
  EXPECT_EQ(elements_of<std::int64_t>(same)[0], 1);
  EXPECT_TRUE(elements_of<bool>(all)[0]);
  EXPECT_EQ(elements_of<std::int64_t>(right)[0], 1);
  EXPECT_EQ(elements_of<std::int64_t>(wrong)[0], 1);
  const auto says = [](auto&& f) { return message_of<ShapeError>(f); };
  EXPECT_THAT(says([&] { k + std::ldexp(1.0, 63); }), HasSubstr("is no int64"));
  EXPECT_THAT(says([&] { u - (-1); }), HasSubstr("is no uint64"));
  EXPECT_THAT(says([&] { f * 1e300; }), HasSubstr("is no float32"));
  EXPECT_NO_THROW(f * std::numeric_limits<double>::infinity());
  EXPECT_THAT(says([&] { b == 2; }), HasSubstr("is no bool"));
}

TEST_F(FusedTest, OfNoElements) {
  Fused pass;
  const Value v = pass.read(memory_array({0, 3}, Dtype::float64)), k = v.as(Dtype::int32);
  const Array sums = pass.reduce(Reduce::sum, v, {.axes = {{0}}, .to = on_disk_of_ones({3}, Dtype::float64)});
  const Array products = pass.reduce(Reduce::prod, k, {.axes = {{0}}, .keepdims = true});
  const Array all = pass.reduce(Reduce::all, v), mean = pass.reduce(Reduce::mean, v);
  const Array none = pass.reduce(Reduce::max, v, {.axes = {{1}}});
  EXPECT_EQ(runtime_.plan(pass).tasks, runtime_.run(pass).tasks);
  const Array stored = runtime_.read(sums, {{0}, {3}});
  for (const double sum : elements_of<double>(stored)) EXPECT_EQ(sum, 0);
  ASSERT_EQ(products.shape(), (Shape{1, 3}));
  for (const std::int64_t product : elements_of<std::int64_t>(products)) EXPECT_EQ(product, 1);
  EXPECT_TRUE(elements_of<bool>(all)[0]);
  EXPECT_TRUE(std::isnan(elements_of<double>(mean)[0]));
  EXPECT_EQ(none.shape(), Shape{0});
}

TEST_F(FusedTest, WhatDoesNotFitIsNamed) {
  std::vector<float> floats(m * n);
  std::vector<std::int8_t> bytes(n);
  Fused pass, other;
  const Value v = pass.read(on_disk_), f = pass.read(memory_array(floats.data(), {m, n})),
              b = pass.read(memory_array(bytes.data(), {n})), foreign = other.read(on_disk_);
  const auto says = [](auto&& f) { return message_of<ShapeError>(f); };
  EXPECT_THAT(says([&] { v + f; }), HasSubstr("float64 and float32 meet in one expression"));
  EXPECT_THAT(says([&] { v + foreign; }), HasSubstr("values of two passes"));
  EXPECT_THAT(says([&] { select(foreign > 0, v, 0); }), HasSubstr("values of two passes"));
  EXPECT_THAT(says([&] { b * 2.5; }), HasSubstr("2.500000 is no int8"));
  EXPECT_THAT(says([&] { b + 128; }), HasSubstr("is no int8"));
  EXPECT_NO_THROW(b + 127);
  EXPECT_THAT(says([&] { v + std::complex<double>(0, 1); }), HasSubstr("is no float64"));
  EXPECT_THAT(says([&] {
                pass.read(memory_array({m, 3}, Dtype::float64));
              }),
              HasSubstr("130 x 3 was given and the others are 130 x 70; they must broadcast"));
  EXPECT_THAT(says([&] { pass.store(v, memory_array(floats.data(), {m, n})); }), HasSubstr("the array holds float32"));
  EXPECT_THAT(says([&] { pass.store(v, on_disk_); }), HasSubstr("an array that the pass reads"));
  EXPECT_THAT(says([&] { pass.store(foreign, on_disk_); }), HasSubstr("of another pass"));
  const Array to = memory_array({m, n}, Dtype::float64);
  pass.store(v, to);
  EXPECT_THAT(says([&] { pass.store(v + 1, to); }), HasSubstr("stores into twice"));
  EXPECT_THAT(says([&] { pass.read(to); }), HasSubstr("an array that the pass stores into"));
  EXPECT_THAT(says([&] { pass.reduce(Reduce::sum, v, {.axes = {{}}, .to = to}); }), HasSubstr("stores into twice"));
  EXPECT_THAT(says([&] { pass.reduce(Reduce::sum, v, {.axes = {{2}}}); }), HasSubstr("axis 2 of a reduction"));
  EXPECT_THAT(says([&] { pass.reduce(Reduce::sum, v, {.axes = {{0, 0}}}); }), HasSubstr("axis 0 of a reduction"));
  EXPECT_THAT(says([&] { pass.reduce(Reduce::sum, v, {.to = memory_array({n}, Dtype::float64)}); }),
              HasSubstr("they must agree"));
  EXPECT_THAT(says([&] { runtime_.run(Fused()); }), HasSubstr("no array was given"));
  pass.reduce(Reduce::sum, v);
  EXPECT_THAT(says([&] { pass.read(memory_array({2, m, n}, Dtype::float64)); }), HasSubstr("read all arrays first"));
  Fused empty;
  const Value nothing = empty.read(memory_array({0, 3}, Dtype::float64));
  EXPECT_THAT(says([&] { empty.reduce(Reduce::max, nothing); }), HasSubstr("no elements to choose from"));
}

}  // namespace
}  // namespace flagstone::elementwise
