#include "flagstone/kernel/elementwise/expression.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "flagstone/base/error.hpp"

namespace flagstone::kernel {
namespace {

Tile tile_of(std::vector<float>& values, Shape shape) {
  const Shape strides = c_strides(shape, sizeof(float));
  return {reinterpret_cast<std::byte*>(values.data()), Dtype::float32, shape, strides, values.size() * sizeof(float)};
}

std::vector<float> numbers(std::size_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> range(0.1f, 3.0f);
  std::vector<float> values(n);
  for (float& value : values) value = range(rng);
  return values;
}

void run(const Program& program, const Shape& shape, const std::vector<Tile>& inputs,
         const std::vector<StoreTarget>& stores, const std::vector<FoldTarget>& folds = {}) {
  std::vector<std::byte> scratch(evaluate_scratch(program) + 64);
  auto* aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
  evaluate(program, shape, inputs, stores, folds, aligned);
}

TEST(Expression, FusesVerbsOverTilesOfAnyStrides) {
  const float two = 2;
  Program program;
  const int a = program.input(Dtype::float32), b = program.input(Dtype::float32);
  const int c = program.constant(Dtype::float32, &two);
  const int result = program.apply(Verb::log1p, program.apply(Verb::add, program.apply(Verb::multiply, a, c), b));
  const Index rows = 37, cols = 5003;
  auto x = numbers(rows * cols, 1), row = numbers(cols, 2), out = std::vector<float>(rows * cols);
  Tile broadcast = tile_of(row, {1, cols});
  broadcast.shape = {rows, cols}, broadcast.strides[0] = 0;
  // x is transposed in memory.
  Tile turned = tile_of(x, {cols, rows});
  std::swap(turned.shape[0], turned.shape[1]), std::swap(turned.strides[0], turned.strides[1]);
  run(program, {rows, cols}, {turned, broadcast}, {{result, tile_of(out, {rows, cols})}});
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) {
      const double wanted = std::log1p(2.0 * x[j * rows + i] + row[j]);
      ASSERT_NEAR(out[i * cols + j], wanted, 4 * 0x1p-23 * wanted) << i << ", " << j;
    }
}

TEST(Expression, AValueDoesNotDependOnItsPlace) {
  Program program;
  const int result = program.apply(Verb::exp, program.input(Dtype::float32));
  for (Index n : {1, 3, 15, 16, 17, 100, 2047, 2048, 2049}) {
    std::vector<float> x(n, 1.2345f), out(n);
    run(program, {n}, {tile_of(x, {n})}, {{result, tile_of(out, {n})}});
    for (float value : out) ASSERT_EQ(value, out[0]) << n;
    ASSERT_NEAR(out[0], std::exp(1.2345), 1e-6);
  }
}

TEST(Expression, NoVerbGivesAnElementOtherBitsElsewhere) {
  // The same three values over and over: each result is that of the first three, wherever it stands and however many
  // elements there are.
  std::mt19937 rng(5);
  std::uniform_real_distribution<double> range(0.2, 1.8);
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128, Dtype::int32})
    for (int v = 0; v < static_cast<int>(Verb::select); ++v) {
      const auto verb = static_cast<Verb>(v);
      Program program;
      const int a = program.input(dtype), b = program.input(dtype);
      int result = -1;
      try {
        result = verb < Verb::add ? program.apply(verb, a) : program.apply(verb, a, b);
      } catch (const ShapeError&) {
        continue;  // not of this dtype
      }
      const Index n = 6 * 1031;
      const std::size_t item = size_of(dtype), out = size_of(program.dtype(result));
      std::vector<std::byte> x(n * item), y(n * item);
      for (int k = 0; k < 3; ++k)
        for (std::byte* to : {x.data() + k * item, y.data() + k * item}) {
          const double re = range(rng), im = range(rng);
          const std::complex<float> narrow(static_cast<float>(re), static_cast<float>(im));
          const std::complex<double> wide(re, im);
          const std::int32_t whole = 1 + static_cast<std::int32_t>(3 * re);
          const bool is_narrow = real_part_of(dtype) == Dtype::float32;
          const void* from = dtype == Dtype::int32 ? static_cast<const void*>(&whole)
                             : is_narrow           ? static_cast<const void*>(&narrow)
                                                   : &wide;
          std::memcpy(to, from, item);
        }
      for (std::size_t i = 3 * item; i < x.size(); ++i) x[i] = x[i - 3 * item], y[i] = y[i - 3 * item];
      for (const Index many : {3, 6, 12, 15, 33, 63, 66, 300, 6 * 1031}) {
        std::vector<std::byte> found(n * out);
        const auto tile = [&](std::vector<std::byte>& of, Dtype kind) {
          return Tile{of.data(), kind, {many}, {static_cast<Index>(size_of(kind))}, 0};
        };
        run(program, {many}, {tile(x, dtype), tile(y, dtype)}, {{result, tile(found, program.dtype(result))}});
        for (std::size_t i = 3 * out; i < many * out; ++i)
          ASSERT_EQ(found[i], found[i - 3 * out]) << "verb " << v << " of " << name_of(dtype) << ", " << many;
      }
    }
}

struct Case {
  Fold fold;
  Finish finish;
};

TEST(Expression, FoldsAlongEitherDimensionAndJoinsTiles) {
  const Index rows = 83, cols = 2100;
  auto x = numbers(rows * cols, 3);
  for (const auto& [fold, finish] : {Case{Fold::sum, Finish::mean}, Case{Fold::var, Finish::var},
                                     Case{Fold::max, Finish::value}, Case{Fold::prod, Finish::value}}) {
    for (const bool along : {false, true}) {  // reduce columns, rows
      Program program;
      const int value = program.input(Dtype::float32);
      const Index results = along ? rows : cols;
      const int words = accumulator_words(fold, Dtype::float32);
      std::vector<double> total(results * words), part(results * words);
      auto* to = reinterpret_cast<std::byte*>(total.data());
      auto* from = reinterpret_cast<std::byte*>(part.data());
      // Two tiles along the reduced dimension.
      for (int half = 0; half < 2; ++half) {
        std::byte* state = half == 0 ? to : from;
        fold_nothing(fold, Dtype::float32, results, state);
        Box box{{0, 0}, {rows, cols}};
        const std::size_t d = along ? 1 : 0;
        const Index cut = box.shape[d] / 3;
        box.start[d] = half * cut, box.shape[d] = half == 0 ? cut : box.shape[d] - cut;
        const Tile tile = subtile(tile_of(x, {rows, cols}), box);
        FoldTarget target{fold, value, state, results, along ? Shape{1, 0} : Shape{0, 1}, 0, {}};
        run(program, box.shape, {tile}, {}, {target});
      }
      join_accumulators(fold, Dtype::float32, results, from, to);
      std::vector<double> found(results);
      const Tile out{reinterpret_cast<std::byte*>(found.data()), Dtype::float64, {results}, {8}, 0};
      const double count = static_cast<double>(along ? cols : rows);
      finish_accumulators({fold, finish, Dtype::float32, count, 0}, results, to, out);
      for (Index k = 0; k < results; ++k) {
        double sum = 0, squares = 0, most = 0, product = 1;
        const Index n = along ? cols : rows;
        const auto at = [&](Index i) { return static_cast<double>(along ? x[k * cols + i] : x[i * cols + k]); };
        for (Index i = 0; i < n; ++i) sum += at(i), most = std::max(most, at(i)), product *= at(i);
        for (Index i = 0; i < n; ++i) squares += (at(i) - sum / count) * (at(i) - sum / count);
        const double wanted = fold == Fold::sum   ? sum / count
                              : fold == Fold::var ? squares / count
                              : fold == Fold::max ? most
                                                  : product;
        ASSERT_NEAR(found[k], wanted, 1e-12 * std::abs(wanted) * static_cast<double>(n)) << k;
      }
    }
  }
}

TEST(Expression, SumsOfFloat64KeepWhatRoundingTakesInEveryLane) {
  for (const Index n : {1, 3, 15, 16, 17, 333, 4096}) {  // short runs, one block, several
    std::vector<double> x;
    for (Index i = 0; i < n; ++i) x.insert(x.end(), {1e16, 1.0, -1e16});
    const auto count = static_cast<Index>(x.size());
    Program program;
    const int value = program.input(Dtype::float64);
    std::vector<double> state(accumulator_words(Fold::sum, Dtype::float64));
    auto* words = reinterpret_cast<std::byte*>(state.data());
    fold_nothing(Fold::sum, Dtype::float64, 1, words);
    const Tile tile{reinterpret_cast<std::byte*>(x.data()), Dtype::float64, {count}, {8}, 0};
    run(program, {count}, {tile}, {}, {{Fold::sum, value, words, 1, {0}, 0, {}}});
    double found = 0;
    finish_accumulators({Fold::sum, Finish::value, Dtype::float64, 1, 0}, 1, words,
                        {reinterpret_cast<std::byte*>(&found), Dtype::float64, {}, {}, 0});
    EXPECT_EQ(found, static_cast<double>(n)) << n;
  }
}

/// The Euclidean norm of x, folded as two parts that are joined, along a run or value by value.
double norm_of(const std::vector<double>& x, Index cut, bool each) {
  Program program;
  const int value = program.input(Dtype::float64);
  std::vector<double> states(6);
  auto* to = reinterpret_cast<std::byte*>(states.data());
  auto* from = reinterpret_cast<std::byte*>(states.data() + 3);
  for (std::byte* state : {to, from}) fold_nothing(Fold::norm, Dtype::float64, 1, state);
  for (const bool second : {false, true}) {
    const Index first = second ? cut : 0, n = second ? static_cast<Index>(x.size()) - cut : cut;
    if (n == 0) continue;
    auto* data = reinterpret_cast<std::byte*>(const_cast<double*>(x.data() + first));
    const Tile tile{data, Dtype::float64, each ? Shape{n, 1} : Shape{n}, each ? Shape{8, 8} : Shape{8}, 0};
    run(program, tile.shape, {tile}, {},
        {{Fold::norm, value, second ? from : to, 1, each ? Shape{0, 1} : Shape{0}, 0, {}}});
  }
  join_accumulators(Fold::norm, Dtype::float64, 1, from, to);
  double found = 0;
  finish_accumulators({Fold::norm, Finish::value, Dtype::float64, 1, 0}, 1, to,
                      {reinterpret_cast<std::byte*>(&found), Dtype::float64, {}, {}, 0});
  return found;
}

TEST(Expression, NormsOfAllSizesNeitherOverflowNorUnderflow) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const double denormal = std::numeric_limits<double>::denorm_min();
  for (const bool each : {false, true})
    for (const double one : {0.0, denormal, 1e-310, 1e-200, 1e-120, 1.0, 1e144, 1e145, 1e200, 1e307})
      for (const double other : {0.0, denormal, 1e-200, 1.0, 1e200, 1e307})
        for (const Index n : {1, 5, 40}) {
          std::vector<double> x(static_cast<std::size_t>(n), one);
          x.resize(static_cast<std::size_t>(3 * n), -other);
          const auto wide = [](double v) { return static_cast<long double>(v); };
          const auto wanted =
              static_cast<double>(std::sqrt(wide(n) * wide(one) * wide(one) + 2 * wide(n) * wide(other) * wide(other)));
          for (const Index cut : {Index{0}, Index{1}, n, 2 * n})
            ASSERT_NEAR(norm_of(x, cut, each), wanted, 4e-16 * wanted + denormal) << one << " " << other << " " << n;
          x[0] = inf;
          EXPECT_EQ(norm_of(x, n, each), inf);
          x.back() = nan;
          EXPECT_TRUE(std::isnan(norm_of(x, n, each)));
        }
}

TEST(Expression, SmallIntegersWrapAndAreNotPromoted) {
  Program program;
  const int a = program.input(Dtype::int8), b = program.input(Dtype::int8);
  for (const Verb verb : {Verb::add, Verb::multiply, Verb::right_shift, Verb::floor_divide, Verb::remainder})
    EXPECT_EQ(program.dtype(program.apply(verb, a, b)), Dtype::int8);
  std::vector<std::int8_t> x{-128, 127, -7, -7, 5}, y{-1, 2, 2, 3, 0}, out(5);
  const auto view = [](std::vector<std::int8_t>& v) {
    return Tile{reinterpret_cast<std::byte*>(v.data()), Dtype::int8, {5}, {1}, 5};
  };
  Program division;
  const int p = division.input(Dtype::int8), q = division.input(Dtype::int8);
  const int result = division.apply(Verb::floor_divide, p, q);
  run(division, {5}, {view(x), view(y)}, {{result, view(out)}});
  EXPECT_EQ(out, (std::vector<std::int8_t>{-128, 63, -4, -3, 0}));
}

TEST(Expression, EveryByteOfABooleanButZeroIsTrue) {
  std::vector<std::uint8_t> x(256), turned(256), as_int(256), is_equal(256);
  std::iota(x.begin(), x.end(), std::uint8_t{0});
  const auto view = [](std::vector<std::uint8_t>& v, Dtype dtype) {
    return Tile{reinterpret_cast<std::byte*>(v.data()), dtype, {256}, {1}, 256};
  };
  const bool yes = true;
  Program program;
  const int a = program.input(Dtype::boolean);
  const int one = program.constant(Dtype::boolean, &yes);
  std::vector<std::byte> words(8 * static_cast<std::size_t>(accumulator_words(Fold::sum, Dtype::int64)));
  fold_nothing(Fold::sum, Dtype::int64, 1, words.data());
  const FoldTarget sum{
      .fold = Fold::sum, .value = program.cast(a, Dtype::int64), .words = words.data(), .results = 1, .strides = {0}};
  run(program, {256}, {view(x, Dtype::boolean)},
      {{program.apply(Verb::invert, a), view(turned, Dtype::boolean)},
       {program.cast(a, Dtype::uint8), view(as_int, Dtype::uint8)},
       {program.apply(Verb::equal, a, one), view(is_equal, Dtype::boolean)}},
      {sum});
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(turned[i], i == 0) << i;
    EXPECT_EQ(as_int[i], i != 0) << i;
    EXPECT_EQ(is_equal[i], i != 0) << i;
  }
  std::int64_t total = 0;
  Tile to{reinterpret_cast<std::byte*>(&total), Dtype::int64, {1}, {8}, 8};
  finish_accumulators({.fold = Fold::sum, .finish = Finish::value, .dtype = Dtype::int64, .count = 256}, 1,
                      words.data(), to);
  EXPECT_EQ(total, 255);
}

TEST(Expression, RefusesWhatIsNotDefined) {
  Program program;
  const int b = program.input(Dtype::boolean), c = program.input(Dtype::complex64), f = program.input(Dtype::float32);
  EXPECT_THROW(program.apply(Verb::subtract, b, b), ShapeError);
  EXPECT_THROW(program.apply(Verb::less, c, c), ShapeError);
  EXPECT_THROW(program.apply(Verb::add, c, f), ShapeError);
  EXPECT_THROW(verb_from_name("nonsense"), ShapeError);
}

}  // namespace
}  // namespace flagstone::kernel
