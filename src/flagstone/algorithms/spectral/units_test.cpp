#include "flagstone/algorithms/spectral/units.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::spectral {
namespace {

constexpr Index n = 16, width = 3;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A = (1 + i) 2^power on its diagonal, times A again where `squares`: few bits, so that nothing is ever rounded that
/// does not leave the range.
Operator diagonal(int power, bool squares, double factor = 1) {
  return {n,
          [=](Graph& graph, const Array& x, const Array& y) {
            if (graph.planning()) return;
            const auto from = elements_of<double>(x), to = elements_of<double>(y);
            for (Index i = 0; i < n * width; ++i) {
              const double a = factor * std::ldexp(static_cast<double>(1 + i / width), power);
              to[i] += squares ? a * (a * from[i]) : a * from[i];
            }
          },
          squares};
}

/// What an operator made of X: (1 + i + j) / 64.
struct Seen {
  std::vector<double> first, second;  // F, of two applications
  int exponent = 0, beside = 0;
};

Seen seen(const Operator& op) {
  Seen found;
  Runtime runtime({.memory = 1 * GiB, .workers = 1, .scratch = ::testing::TempDir()});
  runtime.run([&](Graph& graph) {
    const Array x = memory_array({n, width}, Dtype::float64);
    for (Index i = 0; i < n * width; ++i)
      elements_of<double>(x)[i] = static_cast<double>(1 + i / width + i % width) / 64;
    TallBlock block(graph, {n, width, 2, Dtype::float64}, 0, "units");
    Units units;
    for (std::vector<double>* f : {&found.first, &found.second}) {
      block.load_columns(x, 0, width);
      units.apply(graph, op, block);
      for (Index i = 0; i < n * width && !graph.planning(); ++i) {
        f->push_back(elements_of<double>(block.f())[i]);
        EXPECT_EQ(elements_of<double>(block.x())[i], elements_of<double>(x)[i]);
      }
    }
    found.exponent = units.exponent(), found.beside = units.beside();
  });
  return found;
}

TEST(Units, AnyFiniteMatrixIsSeenToTheBit) {
  for (const bool squares : {false, true}) {
    const std::vector<double> plain = seen(diagonal(0, squares)).first;
    for (const int power : {0, 100, -100, 300, -300, 340, -340, 500, -500, 990, -990, 1019, -1030, -1074}) {
      if (squares && std::abs(power) > 990) continue;
      SCOPED_TRACE((squares ? "2^2*" : "2^") + std::to_string(power));
      const Seen found = seen(diagonal(power, squares));
      const int made = squares ? 2 * power : power;
      if (std::abs(made) <= 300) {
        EXPECT_EQ(found.exponent, 0);
      } else {
        EXPECT_NEAR(found.exponent, made, 10);
      }
      EXPECT_EQ(found.beside, std::abs(made) < 900 ? 0 : std::abs(made) < 1100 ? 1 : 2);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        EXPECT_EQ(std::ldexp(found.first[i], found.exponent - made), plain[i]);
        EXPECT_EQ(found.second[i], found.first[i]);
      }
    }
  }
}

TEST(Units, SquaresThatNoUnitsHoldAreRefused) {
  for (const int power : {1008, -1010, -1030}) EXPECT_THROW(seen(diagonal(power, true)), NumericalError) << power;
}

TEST(Units, ZerosAndNaNTellNothing) {
  for (const bool squares : {false, true})
    for (const double factor : {0.0, nan}) {
      const Seen found = seen(diagonal(0, squares, factor));
      EXPECT_EQ(found.exponent, 0);
      EXPECT_EQ(found.beside, 2);  // each application looks again
      for (const double f : found.second) EXPECT_TRUE(factor == 0 ? f == 0 : std::isnan(f));
    }
}

}  // namespace
}  // namespace flagstone::spectral
