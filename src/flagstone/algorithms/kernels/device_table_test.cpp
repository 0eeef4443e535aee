// Products and elements on each device; copies, and what is refused.
#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/testing/device_table.hpp"

namespace flagstone {
namespace {

using namespace test;
using kernel::Part;

class DeviceTable : public DeviceFixture {};

TEST_P(DeviceTable, Products) {
  struct Extents {
    Index m, n, k;
  };
  std::vector<Extents> sizes{{13, 9, 21}, {70, 65, 40}};
  if (cuda_) sizes.push_back({520, 33, 40});  // the library's kernel, not that of small tiles
  for (const auto& [m, n, k] : sizes)
    for (const Layout a_layout : layouts())
      for (const Layout c_layout : layouts())
        for (int ops = 0; ops < (complex_ ? 16 : 4); ++ops) {
          if (m > 100 && a_layout == Layout::strided && c_layout != Layout::rows) continue;
          const bool ta = ops & 1, tb = ops & 2, ca = ops & 4, cb = ops & 8;
          tiles_.clear();
          const Wide alpha = scalar(1.5, -0.5), beta = ops == 3 ? 0 : scalar(-0.5, 2);
          const std::uint32_t a = place(dtype_, ta ? k : m, ta ? m : k, a_layout),
                              b = place(dtype_, tb ? n : k, tb ? k : n, ops & 1 ? Layout::rows : Layout::columns),
                              c = place(dtype_, m, n, c_layout), s = scratch(16 * (m + n) * k + 4096);
          if (beta == 0.0)
            for (Index j = 0; j < n; ++j) set(here(c), m / 2, j, std::nan(""));
          const Matrix x = op(read(a), ta, ca), y = op(read(b), tb, cb), z = read(c), product = x * y;
          const Matrix want = beta == 0.0 ? sum(alpha, product, 0, product) : sum(alpha, product, beta, z);
          run(call::gemm(dtype_, alpha, {a, ta, ca, {}}, {b, tb, cb, {}}, beta, {c}, s), {c}, m == 70 ? 3 : 1);
          expect_near(read(c), want, 8 * std::sqrt(static_cast<double>(k)) * x.norm() * y.norm(),
                      std::to_string(m) + ", ops " + std::to_string(ops));
        }
}

TEST_P(DeviceTable, ProductsOfStacks) {
  tiles_.clear();
  const std::uint32_t a = place(dtype_, 6 * 5, 7, Layout::rows), b = place(dtype_, 7, 4, Layout::rows),
                      c = place(dtype_, 6 * 5, 4, Layout::rows);
  const Matrix want = read(a) * read(b);
  // Six matrices of five rows, all times the same one.
  for (const std::uint32_t i : {a, c})
    for (Tile* t : {&tiles_[i].here, &tiles_[i].there})
      t->shape = {6, 5, t->shape[1]}, t->strides = {5 * t->strides[0], t->strides[0], t->strides[1]};
  for (Tile* t : {&tiles_[b].here, &tiles_[b].there})
    t->shape.insert(t->shape.begin(), 1), t->strides.insert(t->strides.begin(), 0);
  run(call::gemm(dtype_, 1, {a}, {b}, 0, {c}), {c});
  Tile& t = tiles_[c].here;
  t.shape = {30, 4}, t.strides = {t.strides[1], t.strides[2]};
  expect_near(read(c), want, 8 * want.norm(), "stack");
}

TEST_P(DeviceTable, ElementsAsTheyAre) {
  for (const Layout from_layout : layouts())
    for (const Layout to_layout : layouts()) {
      tiles_.clear();
      const Index m = 45, n = 70;
      const std::uint32_t a = place(dtype_, m, n, from_layout), b = place(dtype_, m, n, to_layout),
                          c = place(dtype_, n, m, to_layout), q = place(dtype_, n, n, to_layout);
      const Matrix x = read(a), y = read(b), w = read(q);
      run(call::add(dtype_, {a}, {b}), {b});
      expect_near(read(b), sum(1, x, 1, y), 2 * x.norm(), "add");
      run(call::copy(dtype_, {a}, {b}), {b});
      EXPECT_EQ(read(b).x, x.x);
      run(call::scale(dtype_, 2, {b}), {b});
      EXPECT_EQ(read(b).x, sum(2, x, 0, x).x);
      set(here(b), 3, 3, std::nan(""));
      run(call::scale(dtype_, 0, {b}), {b});
      EXPECT_EQ(read(b).norm(), 0);
      run(call::fill(dtype_, scalar(2.5, -3), {b, false, false, {{2, 3}, {10, 20}}}), {b});
      EXPECT_EQ(get(here(b), 11, 22), scalar(2.5, -3));
      EXPECT_EQ(get(here(b), 12, 22), 0.0);
      EXPECT_NEAR(read(b).norm(), std::sqrt(200 * std::norm(scalar(2.5, -3))), 1e-3);
      run(call::zero(dtype_, {b, false, false, {{0, 0}, {12, 70}}}), {b});
      EXPECT_EQ(read(b).norm(), 0);
      for (const bool conjugate : conjugations()) {
        run(call::mirror(dtype_, conjugate, {a}, {c}), {c});
        EXPECT_EQ(read(c).x, op(x, true, conjugate).x);
        run(call::mirror(dtype_, conjugate, {q}, {q}), {q});
        const Matrix mirrored = read(q), low = triangle(w, true);
        EXPECT_EQ(mirrored.at(50, 20), low.at(50, 20));
        EXPECT_EQ(mirrored.at(20, 50), conjugate ? std::conj(low.at(50, 20)) : low.at(50, 20));
        if (conjugate) {
          EXPECT_EQ(mirrored.at(7, 7), low.at(7, 7).real());
        }
      }
      run(call::identity(dtype_, 2, {b}), {b});
      EXPECT_EQ(get(here(b), 5, 7), 1.0);
      EXPECT_NEAR(read(b).norm(), std::sqrt(45.0), 1e-5);
      if (complex_) continue;
      const std::uint32_t other = place(dtype_ == Dtype::float32 ? Dtype::float64 : Dtype::float32, m, n, from_layout);
      const Matrix wide = read(other);
      run(call::convert(dtype_, {other}, {b}), {b});
      expect_near(read(b), wide, wide.norm(), "convert");
    }
}

/// Of any bytes: booleans that are neither 0 nor 1 are true, as NumPy has it.
TEST_P(DeviceTable, EveryRealDtypeIsConverted) {
  if (complex_) GTEST_SKIP() << "of real dtypes";
  const Index m = 13, n = 29;
  for (const Dtype dtype : {Dtype::boolean, Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64, Dtype::uint8,
                            Dtype::uint16, Dtype::uint32, Dtype::uint64, Dtype::float16}) {
    tiles_.clear();
    const std::uint32_t a = place(dtype, m, n, Layout::rows), b = place(dtype_, m, n, Layout::columns);
    std::vector<std::byte> memory(static_cast<std::size_t>(m * n) * size_of(dtype_));
    const Tile want{memory.data(), dtype_, {m, n}, c_strides({m, n}, size_of(dtype_)), memory.size()};
    kernel::convert(here(a), nullptr, want);
    run(call::convert(dtype_, {a}, {b}), {b});
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        const double got = get(here(b), i, j).real(), expected = get(want, i, j).real();
        EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
            << name_of(dtype) << " at " << i << ", " << j << ": " << got << ", not " << expected;
      }
  }
}

TEST_P(DeviceTable, PartsAreTaken) {
  for (const Layout from_layout : layouts())
    for (const Layout to_layout : layouts()) {
      if (to_layout == Layout::strided) continue;  // the host has no order of it either
      for (const Part part : {Part::all, Part::lower, Part::upper, Part::unit_lower})
        for (const bool transpose : {false, true})
          for (const bool conjugate : conjugations()) {
            tiles_.clear();
            const Index n = 37;
            const std::uint32_t a = place(dtype_, n, n, from_layout), b = place(dtype_, n, n, to_layout);
            Matrix want = op(read(a), transpose, conjugate);
            if (part != Part::all) want = triangle(want, part != Part::upper);
            for (Index i = 0; i < n; ++i) want.at(i, i) = part == Part::unit_lower ? 1.0 : want.at(i, i) + 5.0;
            run(call::take(dtype_, part, {a, transpose, conjugate, {}}, 5, {b}, {"test", 0, 0}), {b});
            expect_near(read(b), want, n, "taken");
            if (part != Part::lower) continue;
            set(here(a), transpose ? 4 : 20, transpose ? 20 : 4, std::numeric_limits<double>::infinity());
            set(here(a), transpose ? 20 : 4, transpose ? 4 : 20, std::nan(""));  // in the triangle that is not taken
            try {
              run(call::take(dtype_, part, {a, transpose, conjugate, {}}, 0, {b}, {"test", 100, 200}), {b});
              FAIL();
            } catch (const PivotError& error) {
              EXPECT_EQ(error.index, 205);
              EXPECT_THAT(error.what(), testing::HasSubstr("row 120, column 204"));
            }
          }
    }
}

TEST_P(DeviceTable, CopiesOfStridedBoxes) {
  const auto item = static_cast<Index>(size_of(dtype_));
  for (int round = 0; round < 40; ++round) {
    const std::size_t dims = 1 + random_() % 4;
    Shape shape, order(dims);
    for (std::size_t d = 0; d < dims; ++d)
      shape.push_back(1 + static_cast<Index>(random_() % 9)), order[d] = static_cast<Index>(d);
    const auto strided = [&](std::vector<std::byte>& memory) {
      Tile t{nullptr, dtype_, shape, Shape(dims), 0};
      if (round % 3 == 0) std::shuffle(order.begin(), order.end(), random_);
      Index step = item * (round % 5 == 0 ? 2 : 1);
      for (const Index d : order) t.strides[d] = step, step *= shape[d] + static_cast<Index>(random_() % 3);
      memory.assign(static_cast<std::size_t>(step + item), std::byte{0});
      for (std::byte& b : memory) b = static_cast<std::byte>(random_());
      return t;
    };
    std::vector<std::byte> from_memory, there_memory, to_memory;
    Tile from = strided(from_memory), there = strided(there_memory), to = strided(to_memory);
    from.data = from_memory.data(), to.data = to_memory.data(), there.data = device_->memory();
    std::vector<std::byte> want = to_memory;
    Tile twin = to;
    twin.data = want.data();
    copy(from, twin);
    wait([&](auto done) { device_->copy_in(from, there, done); });
    wait([&](auto done) { device_->copy_out(there, to, done); });
    ASSERT_EQ(to_memory, want) << to_string(shape);
  }
}

TEST_P(DeviceTable, LongCopiesLockedInPlaceAndNot) {
  const auto item = static_cast<Index>(size_of(dtype_));
  const Index m = cuda_ ? 3000 : 300, n = (cuda_ ? 20'000'000 : 2'000'000) / item / m,
              pitch = (n + 5) * item;  // beyond any buffer on the way
  std::vector<std::byte> memory(static_cast<std::size_t>(m * pitch)), back(memory.size());
  for (std::size_t i = 0; i < memory.size(); i += 61) memory[i] = static_cast<std::byte>(random_());
  for (const Index rows : {m, Index{1}}) {
    const Tile from{memory.data(), dtype_, {rows, rows == 1 ? m * n : n}, {pitch, item}, 0};
    Tile there = from, to = from;
    there.data = device_->memory(), there.strides = c_strides(from.shape, size_of(dtype_)), to.data = back.data();
    for (const bool locked : {false, true}) {
      std::fill(back.begin(), back.end(), std::byte{0});
      if (locked) device_->lock_pages(memory), device_->lock_pages(back);
      wait([&](auto done) { device_->copy_in(from, there, done); });
      wait([&](auto done) { device_->copy_out(there, to, done); });
      if (locked) device_->unlock_pages(memory), device_->unlock_pages(back);
      for (Index i = 0; i < rows; ++i)
        ASSERT_EQ(
            std::memcmp(from.data + i * pitch, to.data + i * pitch, static_cast<std::size_t>(from.shape[1] * item)), 0)
            << "row " << i;
    }
  }
}

TEST_P(DeviceTable, OneRunAsTheOther) {
  for (const Index m : {60, 530}) {
    tiles_.clear();
    const std::uint32_t a = place(dtype_, m, 40, Layout::rows), b = place(dtype_, 40, 50, Layout::rows),
                        c = place(dtype_, m, 50, Layout::rows);
    const Call product = call::gemm(dtype_, 1, {a}, {b}, 0, {c});
    run(product, {c});
    const std::vector<std::byte> first = tiles_[c].memory;
    run(product, {c}, m == 60 ? 60 : 5);  // whatever runs beside it
    EXPECT_EQ(tiles_[c].memory, first);
  }
}

/// The mantissa is cut where it was asked for, and there alone.
TEST_P(DeviceTable, Tf32IsComputedWhereItIsNamed) {
  if (!cuda_ || dtype_ != Dtype::float32) GTEST_SKIP() << "of cards and float32";
  // Parts that begin at 16 bytes, in rows of a multiple of that: the matrix units read nothing else.
  const std::uint32_t a = place(dtype_, 520, 65, Layout::rows), b = place(dtype_, 64, 521, Layout::rows),
                      c = place(dtype_, 520, 521, Layout::rows);
  const TilePart x{a, false, false, {{0, 1}, {520, 64}}}, y{b, false, false, {{0, 1}, {64, 520}}},
      z{c, false, false, {{0, 1}, {520, 520}}};
  const auto of = [&](const TilePart& part) { return matrix(subtile(here(part.access), part.part)); };
  const Matrix want = of(x) * of(y);
  const double size = of(x).norm() * of(y).norm();
  const Call product = call::gemm(dtype_, 1, x, y, 0, z);
  run(product, {c});
  EXPECT_LE(sum(1, of(z), -1, want).norm(), 1e-6 * size);
  device_ = open_cuda(0, std::uint64_t{1} << 28, "tf32");
  run(product, {c});
  EXPECT_GT(sum(1, of(z), -1, want).norm(), 1e-6 * size);
  EXPECT_LE(sum(1, of(z), -1, want).norm(), 1e-3 * size);
}

TEST_P(DeviceTable, WhatIsNotThereIsRefused) {
  if (!cuda_) GTEST_SKIP() << "of cards";
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([] { open_cuda(0, std::uint64_t{1} << 50); }), testing::HasSubstr("is free; give less"));
  EXPECT_THAT(message([] { open_cuda(0, 1000); }), testing::HasSubstr("at least 64 MiB is needed"));
  EXPECT_THAT(message([] { open_cuda(99, std::uint64_t{1} << 28); }), testing::HasSubstr("device 99 was asked for"));
  EXPECT_FALSE(device_->runs(Call(Kernel::csr_multiply, dtype_, {})));
  EXPECT_FALSE(device_->runs(call::gemm(Dtype::int32, 1, {0}, {1}, 0, {2})));
  const auto memory = open_cuda_memory(0, 1000);
  EXPECT_EQ(memory->properties().memory, 1024u);
  EXPECT_FALSE(memory->runs(call::zero(dtype_, {0})));
}

/// Ends CUDA for the process: run by itself, with --gtest_also_run_disabled_tests.
TEST_P(DeviceTable, DISABLED_ALostDeviceSaysSo) {
  if (!cuda_) GTEST_SKIP() << "of cards";
  const std::uint32_t a = place(dtype_, 64, 64, Layout::rows);
  std::vector<Tile> nowhere{tiles_[a].there};
  nowhere[0].data = device_->memory() + (std::int64_t{1} << 44);
  const std::vector<Call> calls{call::identity(dtype_, 0, {0})};
  const std::vector<DeviceWork> batch{{calls, nowhere, nullptr}};
  for (int queue = 0; queue < 3; ++queue) {  // the others hear of it, too
    try {
      wait([&](auto done) { device_->launch(batch, queue, done); });
      FAIL();
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("nothing more in this process"));
    }
  }
  Tile there = tiles_[a].there;
  there.data = device_->memory();
  EXPECT_THROW(wait([&](auto done) { device_->copy_in(tiles_[a].here, there, done); }), DeviceError);
  EXPECT_THROW(open_cuda(0, std::uint64_t{1} << 28), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTable, testing::ValuesIn(every_device_and_dtype()), name_of_param);

}  // namespace
}  // namespace flagstone
