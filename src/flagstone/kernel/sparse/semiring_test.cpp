// Products over semirings against their definition.
#include "flagstone/kernel/sparse/semiring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "flagstone/base/element_type.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/reference/semiring.hpp"

namespace flagstone::kernel {
namespace {

/// Values with what is special among them: infinities, NaN, the ends of the range.
template <class T>
std::vector<T> special(std::size_t n, unsigned seed, bool nan) {
  using Limits = std::numeric_limits<T>;
  std::mt19937 random(seed);
  const std::vector<T> some{0,
                            1,
                            static_cast<T>(-1),
                            3,
                            static_cast<T>(-7),
                            Limits::max(),
                            Limits::lowest(),
                            Limits::max() / 2 + 2,
                            static_cast<T>(nan ? Limits::quiet_NaN() : T{2})};
  std::vector<T> made(n);
  for (T& value : made) value = some[random() % some.size()];
  return made;
}

std::vector<std::uint8_t> some_of(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> made(n);
  for (auto& byte : made) byte = random() % 3 != 0;
  return made;
}

/// Rows of uneven length, some empty, columns unsorted; pointers do not begin at 0.
template <class Column>
struct Pattern {
  Index rows, cols;
  std::vector<Index> pointers{17};
  std::vector<Column> columns;

  Pattern(Index m, Index n) : rows(m), cols(n) {
    std::mt19937 random(5);
    for (Index i = 0; i < m; ++i) {
      for (unsigned k = i % 4 == 1 ? 0 : random() % 6; k > 0; --k)
        columns.push_back(static_cast<Column>(random() % static_cast<unsigned>(n)));
      pointers.push_back(17 + static_cast<Index>(columns.size()));
    }
  }
  CsrRows with(const void* values) const {
    return {rows,
            cols,
            pointers.data(),
            static_cast<const std::byte*>(values),
            reinterpret_cast<const std::byte*>(columns.data()),
            dtype_of<Column>()};
  }
};

template <class T>
SemiringBlock block_of(std::vector<T>& elements, std::vector<std::uint8_t>& there, Index rows, Index width) {
  SemiringBlock made{tile_of(elements.data(), {rows, width}), {}};
  if (!there.empty()) made.there = tile_of(there.data(), {rows, width});
  return made;
}

/// NaN equals NaN.
template <class T>
bool same(T a, T b) {
  return a == b || (a != a && b != b);
}

template <class Value, class Vector, class Block, class Column>
void check(Semiring semiring, Index width, bool partial, bool transposed) {
  const Pattern<Column> a(23, 19);
  const Index from = transposed ? a.rows : a.cols, to = transposed ? a.cols : a.rows;
  const bool nan = std::is_floating_point_v<Block>;
  const auto values = special<Value>(a.columns.size(), 1, nan);
  auto x = special<Vector>(static_cast<std::size_t>(from * width), 2, nan);
  if (sizeof(Vector) == 1)
    for (auto& one : x) one = one != 0;
  auto there = partial ? some_of(x.size(), 3) : std::vector<std::uint8_t>{};
  std::vector<Block> y(static_cast<std::size_t>(to * width), Block{77});
  std::vector<std::uint8_t> found(partial ? y.size() : 0, 9);
  const SemiringBlock in = block_of(x, there, from, width), out = block_of(y, found, to, width);
  if (transposed) {
    semiring_start(semiring, out);
    csr_semiring_transposed(semiring, a.with(values.data()), in, out);
  } else {
    csr_semiring(semiring, a.with(values.data()), in, out);
  }
  std::vector<std::vector<Block>> terms(y.size());
  for (Index i = 0; i < a.rows; ++i)
    for (Index p = a.pointers[i] - 17; p < a.pointers[i + 1] - 17; ++p)
      for (Index k = 0; k < width; ++k) {
        const Index column = static_cast<Index>(a.columns[p]);
        const auto source = static_cast<std::size_t>((transposed ? i : column) * width + k);
        if (partial && !there[source]) continue;
        Block term = static_cast<Block>(x[source]);  // of min_second and, as there is a pair or none, plus_pair
        if (semiring == Semiring::or_and)
          term = values[p] != 0 && x[source] != 0;
        else if (semiring != Semiring::plus_pair && semiring != Semiring::min_second)
          term = reference::semiring_times(semiring, static_cast<Block>(values[p]), term);
        terms[static_cast<std::size_t>((transposed ? column : i) * width + k)].push_back(term);
      }
  std::vector<Block> nothing(1);
  std::vector<std::uint8_t> none;
  semiring_start(semiring, block_of(nothing, none, 1, 1));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto sum = reference::semiring_sum(semiring, terms[i]);
    // Whole numbers stop at infinity, which adds nothing.
    EXPECT_TRUE(same(y[i], sum.value_or(nothing[0])))
        << name_of(semiring) << " " << width << " " << partial << " " << transposed << " at " << i << ": " << +y[i]
        << " is not " << +sum.value_or(nothing[0]);
    if (partial) {
      EXPECT_EQ(found[i], sum.has_value());
    }
  }
}

template <class Value, class Vector, class Block>
void check_all(Semiring semiring) {
  for (const Index width : {1, 3})
    for (const bool partial : {false, true})
      for (const bool transposed : {false, true}) {
        check<Value, Vector, Block, std::uint16_t>(semiring, width, partial, transposed);
        check<Value, Vector, Block, std::uint32_t>(semiring, width, partial, transposed);
        check<Value, Vector, Block, std::uint64_t>(semiring, width, partial, transposed);
      }
}

TEST(Semiring, ProductsMatchTheirDefinition) {
  for (std::size_t i = 0; i < semiring_count; ++i) {
    const auto semiring = static_cast<Semiring>(i);
    if (semiring == Semiring::or_and) {
      check_all<double, std::uint8_t, std::uint8_t>(semiring);
    } else if (semiring == Semiring::plus_pair) {
      check_all<float, std::uint8_t, std::int64_t>(semiring);
    } else if (semiring == Semiring::min_first) {
      check_all<float, std::uint8_t, float>(semiring);
      check_all<std::int64_t, std::uint8_t, std::int64_t>(semiring);
    } else if (semiring == Semiring::min_second) {
      check_all<float, double, double>(semiring);
      check_all<float, std::int64_t, std::int64_t>(semiring);
    } else {
      check_all<float, float, float>(semiring);
      check_all<double, double, double>(semiring);
      check_all<std::int64_t, std::int64_t, std::int64_t>(semiring);
    }
  }
}

TEST(Semiring, BlocksJoinElementByElement) {
  std::vector<std::int64_t> a{1, 5, std::numeric_limits<std::int64_t>::max()}, b{3, 2, 7};
  std::vector<std::uint8_t> there_a{1, 0, 0}, there_b{0, 1, 0};
  semiring_join(Semiring::min_plus, block_of(a, there_a, 3, 1), block_of(b, there_b, 3, 1));
  EXPECT_EQ(b, (std::vector<std::int64_t>{1, 2, 7}));
  EXPECT_EQ(there_b, (std::vector<std::uint8_t>{1, 1, 0}));
}

TEST(Semiring, BlocksThatDoNotFitAreRefused) {
  const Pattern<std::uint16_t> a(4, 5);
  std::vector<float> values(a.columns.size()), x(5), y(3);
  std::vector<std::uint8_t> none;
  EXPECT_THROW(
      csr_semiring(Semiring::min_plus, a.with(values.data()), block_of(x, none, 5, 1), block_of(y, none, 3, 1)),
      ShapeError);
  EXPECT_THROW(semiring_from_name("times_plus"), Error);
}

}  // namespace
}  // namespace flagstone::kernel
