// gemm on disk pointers against a naive product in memory. The whole file is compared with a model byte for byte: what
// is beside C, between its rows and in the sectors that it shares, must not change.
#include "flagstone/flash/gemm.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::flash {
namespace {

using ::testing::HasSubstr;

template <class T>
struct FlashGemm : testing::Test {
  FlashGemm() {
    RuntimeOptions options;
    options.memory = resident_bytes() + 512 * MiB;
    options.workers = 2;
    options.scratch = directory / "scratch";
    runtime = std::make_unique<Runtime>(options);
  }
  TemporaryDirectory directory;
  std::unique_ptr<Runtime> runtime;
  std::mt19937_64 random{21};
};
using Elements = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(FlashGemm, Elements);

template <class T>
struct real_of {
  using type = T;
};
template <class T>
struct real_of<std::complex<T>> {
  using type = T;
};

template <class T>
T number(std::mt19937_64& random) {
  const auto part = [&] { return static_cast<typename real_of<T>::type>(static_cast<int>(random() % 201) - 100) / 64; };
  if constexpr (std::is_floating_point_v<T>)
    return part();
  else
    return {part(), part()};
}

/// A matrix of a random call: stored rows x cols, `leading` apart, from byte `offset` of the file.
struct Part {
  Index rows, cols, leading;
  std::uint64_t offset;
};

/// The file in memory; elements may lie at any byte.
template <class T>
struct Bytes {
  std::vector<char> bytes;
  T get(const Part& x, Index i, Index j) const {
    T value;
    std::memcpy(&value, &bytes[place(x, i, j)], sizeof(T));
    return value;
  }
  void set(const Part& x, Index i, Index j, T value) { std::memcpy(&bytes[place(x, i, j)], &value, sizeof(T)); }
  static std::size_t place(const Part& x, Index i, Index j) {
    return x.offset + static_cast<std::size_t>(i * x.leading + j) * sizeof(T);
  }
};

template <class T>
T conjugated(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value;
  else
    return std::conj(value);
}

/// A random call on one file that holds A, B and C between bytes of others.
template <class T>
struct Random {
  Order order;
  Transpose ta, tb;
  Index m, n, k;
  T alpha, beta;
  Part a, b, c;
  Bytes<T> before;

  explicit Random(std::mt19937_64& random) {
    order = random() % 2 ? Order::row_major : Order::column_major;
    const Transpose ops[] = {Transpose::none, Transpose::plain, Transpose::conjugate};
    ta = ops[random() % 3], tb = ops[random() % 3];
    const auto extent = [&] { return static_cast<Index>(1 + random() % (random() % 4 ? 40 : 300)); };
    m = extent(), n = extent(), k = random() % 20 ? extent() : 0;
    if (random() % 10 == 0)  // rows of C wider than a tile
      m = 1 + m % 30, n += 2048, k = k % 30;
    const T scales[] = {T{}, T{1}, T(-1), number<T>(random)};
    alpha = scales[random() % 4], beta = scales[random() % 4];
    std::uint64_t end = random() % 3 ? random() % 5000 : 0;
    const auto part = [&](Index rows, Index cols, Transpose op) {
      if ((op != Transpose::none) != (order == Order::column_major)) std::swap(rows, cols);
      const Index pads[] = {0, 1, 7, 100};
      Part x{rows, cols, std::max<Index>(1, cols) + pads[random() % 4], end};
      end += static_cast<std::uint64_t>(rows * x.leading) * sizeof(T) + random() % 600;
      return x;
    };
    a = part(m, k, ta), c = part(m, n, Transpose::none), b = part(k, n, tb);
    before.bytes.resize(end + 3000 * sizeof(T));
    for (char& byte : before.bytes) byte = static_cast<char>(random() % 100);
    for (const Part& x : {a, b, c}) fill(x, random);
  }
  void fill(const Part& x, std::mt19937_64& random) {
    for (Index i = 0; i < x.rows; ++i)
      for (Index j = 0; j < x.cols; ++j) before.set(x, i, j, number<T>(random));
  }
  T element(const Part& x, Index i, Index j) const {
    return order == Order::row_major ? before.get(x, i, j) : before.get(x, j, i);
  }
  T op(const Part& x, Transpose t, Index i, Index j) const {
    if (t == Transpose::none) return element(x, i, j);
    return t == Transpose::plain ? element(x, j, i) : conjugated(element(x, j, i));
  }
  /// The naive product in double precision, and the bound of its rounding.
  std::pair<std::complex<double>, double> expected(Index i, Index j) const {
    std::complex<double> sum = 0;
    double size = 0;
    for (Index p = 0; p < k; ++p) {
      const auto term = std::complex<double>(op(a, ta, i, p)) * std::complex<double>(op(b, tb, p, j));
      sum += term;
      size += std::abs(term);
    }
    sum *= std::complex<double>(alpha);
    size *= std::abs(std::complex<double>(alpha));
    if (beta != T{}) {
      const auto old = std::complex<double>(beta) * std::complex<double>(element(c, i, j));
      sum += old;
      size += std::abs(old);
    }
    const double eps = std::numeric_limits<typename real_of<T>::type>::epsilon();
    return {sum, 4 * static_cast<double>(k + 3) * eps * size + 1e-300};
  }
  std::string text() const {
    return std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k) + " order " +
           std::to_string(static_cast<int>(order)) + " ops " + std::to_string(static_cast<int>(ta)) + " " +
           std::to_string(static_cast<int>(tb)) + " C at " + std::to_string(c.offset) + " ld " +
           std::to_string(c.leading);
  }
};

template <class T>
flash_ptr<T> written(const std::string& path, const Bytes<T>& content, std::uint64_t offset) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(content.bytes.data(), static_cast<std::streamsize>(content.bytes.size()));
  return {FlashFile::open(path, MapMode::update), offset};
}
template <class T>
flash_ptr<T> at(const flash_ptr<T>& p, std::uint64_t offset) {
  return {p.file(), offset};
}

std::vector<char> content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Every element of C within its bound, every other byte as it was.
template <class T>
void check(const Random<T>& call, std::vector<char> after) {
  const Bytes<T> now{std::move(after)};
  ASSERT_EQ(now.bytes.size(), call.before.bytes.size());
  for (Index i = 0; i < call.m; ++i)
    for (Index j = 0; j < call.n; ++j) {
      const auto [exact, bound] = call.expected(i, j);
      const T got = call.order == Order::row_major ? now.get(call.c, i, j) : now.get(call.c, j, i);
      ASSERT_LE(std::abs(std::complex<double>(got) - exact), bound) << i << " " << j << ": " << call.text();
    }
  Bytes<T> others = now;
  for (Index i = 0; i < call.c.rows; ++i)
    for (Index j = 0; j < call.c.cols; ++j) others.set(call.c, i, j, call.before.get(call.c, i, j));
  ASSERT_TRUE(others.bytes == call.before.bytes) << "bytes beside C changed: " << call.text();
}

TYPED_TEST(FlashGemm, RandomCallsAreRightAndChangeNothingElse) {
  using T = TypeParam;
  const std::string path = this->directory / "m.bin";
  for (int i = 0; i < 40; ++i) {
    const Random<T> call(this->random);
    const auto p = written(path, call.before, 0);
    gemm(*this->runtime, call.order, call.ta, call.tb, call.m, call.n, call.k, call.alpha, at(p, call.a.offset),
         call.a.leading, at(p, call.b.offset), call.b.leading, call.beta, at(p, call.c.offset), call.c.leading);
    check(call, content_of(path));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(FlashGemm, MemoryAndDiskMixAndGiveTheSameBits) {
  using T = TypeParam;
  const std::string path = this->directory / "m.bin";
  for (int i = 0; i < 25; ++i) {
    Random<T> call(this->random);
    const auto p = written(path, call.before, 0);
    const auto dense = [&](const Part& x) {  // aligned, as plain pointers are
      std::vector<T> values(static_cast<std::size_t>(x.rows * x.leading + 1));
      for (Index r = 0; r < x.rows; ++r)
        for (Index q = 0; q < x.cols; ++q)
          values[static_cast<std::size_t>(r * x.leading + q)] = call.before.get(x, r, q);
      return values;
    };
    std::vector<T> a = dense(call.a), b = dense(call.b), c = dense(call.c);
    const auto run = [&](const auto& pa, const auto& pb, const auto& pc) {
      gemm(*this->runtime, call.order, call.ta, call.tb, call.m, call.n, call.k, call.alpha, pa, call.a.leading, pb,
           call.b.leading, call.beta, pc, call.c.leading);
    };
    run(a.data(), static_cast<const T*>(b.data()), c.data());
    if (i % 2)
      run(a.data(), at(p, call.b.offset), at(p, call.c.offset));
    else
      run(flash_ptr<const T>(at(p, call.a.offset)), b.data(), at(p, call.c.offset));
    const std::vector<char> after = content_of(path);
    check(call, after);
    const Bytes<T> now{after};
    for (Index r = 0; r < call.c.rows; ++r)
      for (Index q = 0; q < call.c.cols; ++q)
        ASSERT_EQ(now.get(call.c, r, q), c[static_cast<std::size_t>(r * call.c.leading + q)]) << call.text();
    if (testing::Test::HasFatalFailure()) return;
  }
}

// C is A, C is B, C overlaps A by part: CBLAS leaves these undefined, here the operand is copied first.
TYPED_TEST(FlashGemm, ResultsThatOverlapOperandsAreRight) {
  using T = TypeParam;
  const std::string path = this->directory / "m.bin";
  for (int i = 0; i < 12; ++i) {
    Random<T> call(this->random);
    call.ta = call.tb = Transpose::none;
    call.m = call.n = call.k = 1 + static_cast<Index>(this->random() % 120);
    const Index shift = i % 4 == 3 ? 5 * call.m + 3 : 0;
    for (Part* x : {&call.a, &call.b, &call.c}) *x = {call.m, call.m, call.m + 9, 77};
    call.b.offset = i % 4 == 2 ? 77 : 77 + 400'000 * sizeof(T);
    call.a.offset = i % 4 == 1 ? 77 + 800'000 * sizeof(T) : 77 + static_cast<std::uint64_t>(shift) * sizeof(T);
    if (i % 4 == 1) call.b.offset = 77;
    call.before.bytes.assign(1'000'000 * sizeof(T), 'x');
    for (const Part& x : {call.a, call.b, call.c}) call.fill(x, this->random);
    const auto p = written(path, call.before, 0);
    gemm(*this->runtime, call.order, call.ta, call.tb, call.m, call.n, call.k, call.alpha, at(p, call.a.offset),
         call.a.leading, at(p, call.b.offset), call.b.leading, call.beta, at(p, call.c.offset), call.c.leading);
    check(call, content_of(path));
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Three column blocks of one matrix: their rows share sectors.
TYPED_TEST(FlashGemm, ColumnBlocksOfOneMatrixMultiplyInPlace) {
  using T = TypeParam;
  const std::string path = this->directory / "m.bin";
  Random<T> call(this->random);
  call.order = Order::row_major;
  call.ta = call.tb = Transpose::none;
  call.m = call.n = call.k = 150;
  call.a = {150, 150, 470, 13}, call.b = call.c = call.a;
  call.b.offset += 155 * sizeof(T), call.c.offset += 311 * sizeof(T);
  call.before.bytes.assign(151 * 470 * sizeof(T) + 13, 'x');
  for (const Part& x : {call.a, call.b, call.c}) call.fill(x, this->random);
  const auto p = written(path, call.before, 0);
  const Statistics stats =
      gemm(*this->runtime, call.order, call.ta, call.tb, call.m, call.n, call.k, call.alpha, at(p, call.a.offset),
           call.a.leading, at(p, call.b.offset), call.b.leading, call.beta, at(p, call.c.offset), call.c.leading);
  check(call, content_of(path));
  EXPECT_GT(stats.tasks, 0u);
}

// More than one tile of C each way, in no more memory than that takes: tiles are written, evicted and read again while
// their neighbours in the same sectors travel.
TEST(FlashGemmTiles, ShareSectorsInLittleMemory) {
  TemporaryDirectory directory;
  std::mt19937_64 random(5);
  Random<double> call(random);
  call.order = Order::row_major;
  call.ta = call.tb = Transpose::none;
  call.m = 1100, call.n = 1043, call.k = 31;
  call.alpha = 1.5, call.beta = -0.5;
  call.c = {call.m, call.n, 1051, 1001};
  call.a = {call.m, call.k, 33, 1'300 * 1051 * 8};
  call.b = {call.k, call.n, call.n, call.a.offset + 1101 * 33 * 8};
  call.before.bytes.assign(call.b.offset + 31 * 1043 * 8 + 7, 'y');
  for (const Part& x : {call.a, call.b, call.c}) call.fill(x, random);
  const std::string path = directory / "m.bin";
  const auto p = written(path, call.before, 0);
  const auto run = [&](std::uint64_t memory) {
    Runtime runtime({.memory = memory, .workers = 2, .scratch = directory / "scratch"});
    gemm(runtime, call.order, call.ta, call.tb, call.m, call.n, call.k, call.alpha, at(p, call.a.offset),
         call.a.leading, at(p, call.b.offset), call.b.leading, call.beta, at(p, call.c.offset), call.c.leading);
  };
  const auto least = [&]() -> std::uint64_t {
    try {
      run(MiB);
    } catch (const BudgetError& error) {
      return error.least;
    }
    return 0;
  };
  ASSERT_GT(least(), 0u) << "one MiB cannot be enough";
  ASSERT_TRUE(content_of(path) == call.before.bytes) << "refused, and C was touched";
  run(least() + 4 * MiB);  // once more: the test's own memory has changed
  check(call, content_of(path));
}

TEST(StoredMatrixTest, WhatIsEmptyOverlapsNothing) {
  std::vector<double> x(12);
  const StoredMatrix c("gemm", "c", Order::row_major, {Place::of(x.data()), 4}, 3, 4, Dtype::float64);
  const StoredMatrix none("gemm", "b", Order::row_major, {Place::of(x.data() + 5), 4}, 3, 0, Dtype::float64);
  EXPECT_FALSE(overlap(c, none));
  EXPECT_FALSE(overlap(none, c));
}

TEST(FlashGemmErrors, AreOneSentenceBeforeAnythingIsTouched) {
  TemporaryDirectory directory;
  Runtime runtime({.memory = resident_bytes() + 256 * MiB, .workers = 1, .scratch = directory / "scratch"});
  auto p = map_file<float>(directory / "m.bin", MapMode::create, 1000);
  const auto message = [&](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const auto call = [&](Index m, Index n, Index k, Index lda, Index ldb, Index ldc, auto c) {
    return message([&] {
      gemm(runtime, Order::row_major, Transpose::none, Transpose::none, m, n, k, 1, p, lda, p, ldb, 0, c, ldc);
    });
  };
  EXPECT_THAT(call(-1, 2, 2, 2, 2, 2, p), HasSubstr("must not be negative"));
  EXPECT_THAT(call(2, 2, 5, 4, 5, 5, p), HasSubstr("lda is 4 and a stored row of a has 5 elements"));
  EXPECT_THAT(call(40, 40, 10, 10, 40, 40, p + 100), HasSubstr("reach beyond the 4000 bytes of"));
  EXPECT_THAT(call(2, 2, 2, 2, 2, 2, static_cast<float*>(nullptr)), HasSubstr("null pointer"));
  const auto reading = map_file<float>(directory / "m.bin");
  EXPECT_THAT(call(2, 2, 2, 2, 2, 2, reading), HasSubstr("mapped for reading"));
  EXPECT_EQ(call(0, 5, 5, 5, 5, 5, p), "none");
  p.ptr[5] = 7;
  runtime.asks_for_scratch("", 0);  // C lies over A, which is copied first
  EXPECT_THAT(call(9, 9, 9, 9, 9, 9, p), HasSubstr("gemm: needs 324 B of scratch, and '"));
  EXPECT_EQ(p.ptr[5], 7);
  runtime.asks_for_scratch("", {});
  auto dead = p;
  unmap_file(p);
  EXPECT_FALSE(p);
  float value;
  EXPECT_THAT(message([&] { read_sync(&value, dead, Contiguous{1}); }), HasSubstr("was unmapped or freed"));
}

}  // namespace
}  // namespace flagstone::flash
