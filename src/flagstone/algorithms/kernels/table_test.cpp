// Each kernel of the host's table against its naive twin, through one test: a call on parts of larger tiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/kernels/elementwise.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/kernel/factor/getrf.hpp"
#include "flagstone/kernel/factor/qr.hpp"
#include "flagstone/kernel/reference/reference.hpp"

namespace flagstone {
namespace {

namespace reference = kernel::reference;

struct Entry {
  Kernel kernel;
  Dtype dtype;
};

std::vector<Entry> entries() {
  std::vector<Entry> found;
  for (std::size_t k = 0; k < kernel_count; ++k)
    for (int d = 0; d <= static_cast<int>(Dtype::complex128); ++d)
      if (host_kernels().find(static_cast<Kernel>(k), static_cast<Dtype>(d)) != nullptr)
        found.push_back({static_cast<Kernel>(k), static_cast<Dtype>(d)});
  return found;
}

/// A tile with memory of its own. Values are small integers: every sum is exact in every dtype.
struct Owned {
  Owned(Dtype dtype, const Shape& shape, unsigned seed)
      : bytes(static_cast<std::size_t>(count(shape)) * size_of(dtype)),
        tile{bytes.data(), dtype, shape, c_strides(shape, size_of(dtype)), bytes.size()} {
    std::mt19937 random(seed);
    const bool sums = is_complex(dtype) || dtype == Dtype::float32 || dtype == Dtype::float64;
    if (!sums)
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 2);
    if (sums)
      for (Index i = 0; i < shape[0]; ++i)
        for (Index j = 0; j < shape[1]; ++j) {
          const auto part = [&] { return static_cast<double>(static_cast<int>(random() % 17) - 8); };
          reference::set(tile, i, j, {part(), is_complex(dtype) ? part() : 0});
        }
  }
  Owned(const Owned& other) : bytes(other.bytes), tile(other.tile) { tile.data = bytes.data(); }

  std::vector<std::byte> bytes;
  Tile tile;
};

class EveryKernel : public testing::TestWithParam<Entry> {
 protected:
  static constexpr Index m = 13, n = 9, depth = 21, offset = 3;

  /// Larger than the part by some rows and columns on each side.
  std::uint32_t around(Dtype dtype, Shape part) {
    for (Index& extent : part) extent += 2 * offset;
    tiles_.emplace_back(dtype, part, static_cast<unsigned>(tiles_.size() + 1));
    return static_cast<std::uint32_t>(tiles_.size() - 1);
  }
  TilePart part(Dtype dtype, const Shape& shape, bool transpose = false, bool conjugate = false) {
    const Shape stored = transpose ? Shape{shape[1], shape[0]} : shape;
    return {around(dtype, stored), transpose, conjugate, {{offset, offset}, stored}};
  }
  Tile at(const TilePart& part, std::vector<Owned>& tiles) const { return subtile(tiles[part.access].tile, part.part); }

  /// Runs the call on one copy of the tiles and `twin` on another: all bytes are equal, around the parts too.
  template <class Twin>
  void check(const Call& call, Twin twin) {
    std::vector<Owned> expected = tiles_;
    std::vector<Tile> given;
    for (Owned& owned : tiles_) given.push_back(owned.tile);
    if (scratch_ < given.size())  // as the executor gives it
      given[scratch_].data += 64 - reinterpret_cast<std::uintptr_t>(given[scratch_].data) % 64;
    host_kernels().run(call, given);
    twin(expected);
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      if (i == scratch_) continue;
      EXPECT_EQ(tiles_[i].bytes, expected[i].bytes) << "tile " << i;
    }
  }

  void check_products(Dtype dtype);
  void check_copy(Dtype dtype);
  void check_mirror(Dtype dtype);
  void check_evaluation(Dtype dtype);
  void check_accumulators(Kernel kernel, Dtype dtype);
  void check_take(Dtype dtype);
  void check_herk(Dtype dtype);
  void check_trsm(Dtype dtype);
  void check_potrf(Dtype dtype);
  void check_panels(Kernel kernel, Dtype dtype);
  void check_qr(Kernel kernel, Dtype dtype);
  /// A part becomes lower bidiagonal, twos and ones: whatever is computed with it is exact.
  TilePart bidiagonal(Dtype dtype, Index order);

  std::vector<Owned> tiles_;
  std::size_t scratch_ = 1000;  // which tile holds nothing afterwards
};

void EveryKernel::check_products(Dtype dtype) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool conjugate : {false, true})
        for (const double beta : {0.0, 1.0, 2.0}) {
          tiles_.clear();
          const TilePart a = part(dtype, {m, depth}, transpose_a, conjugate),
                         b = part(dtype, {depth, n}, transpose_b, conjugate), c = part(dtype, {m, n});
          scratch_ = tiles_.size();  // both operands, conjugated
          tiles_.emplace_back(Dtype::uint8, Shape{1, 16 * (m + n) * depth + 4096}, 0);
          const auto room = static_cast<std::uint32_t>(scratch_);
          check(call::gemm(dtype, 3.0, a, b, beta, c, room), [&](std::vector<Owned>& t) {
            if (is_integer(dtype))
              return reference::integer_gemm(3, at(a, t), transpose_a, at(b, t), transpose_b,
                                             static_cast<std::int64_t>(beta), at(c, t));
            reference::gemm(3.0, at(a, t), transpose_a, conjugate, at(b, t), transpose_b, conjugate, beta, at(c, t));
          });
        }
}

void EveryKernel::check_copy(Dtype dtype) {
  const TilePart from = part(dtype, {m, n}), to = part(dtype, {m, n});
  check(call::copy(dtype, from, to), [&](std::vector<Owned>& t) {
    const Tile source = at(from, t), target = at(to, t);
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j)
        std::copy_n(source.data + i * source.strides[0] + j * source.strides[1], size_of(dtype),
                    target.data + i * target.strides[0] + j * target.strides[1]);
  });
}

void EveryKernel::check_mirror(Dtype dtype) {
  for (const bool conjugate : {false, true}) {
    tiles_.clear();
    const auto turned = [&](const Tile& t, Index i, Index j) {
      const reference::Wide value = reference::get(t, i, j);
      return conjugate ? std::conj(value) : value;
    };
    const TilePart from = part(dtype, {m, n}), to = part(dtype, {n, m});
    check(call::mirror(dtype, conjugate, from, to), [&](std::vector<Owned>& t) {
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < n; ++j) reference::set(at(to, t), j, i, turned(at(from, t), i, j));
    });
    for (const Index extent : {Index{1}, n, -n, Index{70}}) {  // less than a square of the kernel, and several
      tiles_.clear();
      const bool transpose = extent < 0;
      TilePart c = part(dtype, {std::abs(extent), std::abs(extent)}, transpose);
      check(call::mirror(dtype, conjugate, c, c), [&](std::vector<Owned>& t) {
        const Tile tile = transpose ? call::turned(at(c, t), {1, 0}) : at(c, t);
        for (Index i = 0; i < std::abs(extent); ++i) {
          for (Index j = 0; j < i; ++j) reference::set(tile, j, i, turned(tile, i, j));
          if (conjugate) reference::set(tile, i, i, reference::get(tile, i, i).real());
        }
      });
    }
  }
}

void EveryKernel::check_evaluation(Dtype dtype) {
  const bool sums = is_complex(dtype) || dtype == Dtype::float32 || dtype == Dtype::float64;
  const bool folds = dtype == Dtype::float64;
  const TilePart a = part(dtype, {n, m}), row = part(dtype, {1, n}), to = part(dtype, {m, n}),
                 state = part(Dtype::float64, {1, 2});
  kernel::Program program;
  int value = program.input(dtype);
  const int added = program.input(dtype);
  if (sums) value = program.apply(kernel::Verb::add, value, added);
  scratch_ = tiles_.size();
  tiles_.emplace_back(Dtype::uint8, Shape{1, static_cast<Index>(kernel::evaluate_scratch(program)) + 64}, 0);

  auto evaluation = std::make_shared<call::Evaluation>();
  evaluation->shape = {m, n};
  evaluation->inputs = {{a.access, a.part, {1, 0}}, {row.access, row.part, {}}};
  evaluation->outputs = {{to.access, value, to.part, false}};
  evaluation->scratch = static_cast<std::uint32_t>(scratch_);
  if (folds) {
    kernel::FoldTarget target;
    target.fold = kernel::Fold::sum, target.value = value;
    target.strides = target.steps = {0, 0};
    evaluation->folds = {{state.access, target}};
  }
  evaluation->program = std::make_shared<const kernel::Program>(program);
  check(call::evaluate(evaluation), [&](std::vector<Owned>& t) {
    const Tile from = at(a, t), bias = at(row, t), target = at(to, t), words = t[state.access].tile;
    reference::Wide sum = 0;
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        std::copy_n(from.data + j * from.strides[0] + i * from.strides[1], size_of(dtype),
                    target.data + i * target.strides[0] + j * target.strides[1]);
        if (!sums) continue;
        sum += reference::get(target, i, j) + reference::get(bias, 0, j);
        reference::set(target, i, j, reference::get(target, i, j) + reference::get(bias, 0, j));
      }
    if (!folds) return;
    reference::set(words, 0, 0, sum);  // high and low part
    reference::set(words, 0, 1, 0);
  });
}

/// Accumulators of a variance (count, mean, squared differences from it) of {1, 3} and {5, 7}, which are exact.
void EveryKernel::check_accumulators(Kernel kernel, Dtype dtype) {
  const auto state = [&](double count, double mean, double squares) {
    tiles_.emplace_back(Dtype::float64, Shape{1, 3}, 0);
    double* words = tiles_.back().tile.as<double>();
    words[0] = count, words[1] = mean, words[2] = squares;
  };
  state(2, 6, 2), state(2, 2, 2);
  if (kernel == Kernel::join)
    return check(call::join(kernel::Fold::var, dtype, 1, 0, 1), [&](std::vector<Owned>& t) {
      double* words = t[1].tile.as<double>();
      words[0] = 4, words[1] = 4, words[2] = 20;
    });
  tiles_.emplace_back(Dtype::float64, Shape{1, 1}, 0);
  check(call::finish({kernel::Fold::var, kernel::Finish::var, dtype, 2, 0}, 1, 0, 2),
        [&](std::vector<Owned>& t) { *t[2].tile.as<double>() = 1; });
}

void EveryKernel::check_take(Dtype dtype) {
  for (const bool transpose : {false, true}) {
    tiles_.clear();
    const TilePart from = part(dtype, {m, m}, transpose, true), to = part(dtype, {m, m});
    check(call::take(dtype, kernel::Part::lower, from, 5, to, {"test", 0, 0}), [&](std::vector<Owned>& t) {
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < m; ++j)
          reference::set(at(to, t), i, j,
                         i < j ? 0 : reference::get(at(from, t), transpose, true, i, j) + (i == j ? 5.0 : 0.0));
    });
  }
  {  // in place, with ones
    tiles_.clear();
    const TilePart both = part(dtype, {m, m});
    check(call::take(dtype, kernel::Part::unit_lower, both, 0, both, {}), [&](std::vector<Owned>& t) {
      for (Index i = 0; i < m; ++i)
        for (Index j = i; j < m; ++j) reference::set(at(both, t), i, j, i == j ? 1 : 0);
    });
  }
  tiles_.clear();
  part(dtype, {m, m}), part(dtype, {m, m});
  reference::set(tiles_[0].tile, offset + 2, offset + 4, std::numeric_limits<double>::infinity());
  std::vector<Tile> given{tiles_[0].tile, tiles_[1].tile};
  try {
    host_kernels().run(call::take(dtype, kernel::Part::lower, {0, true, true, {{offset, offset}, {m, m}}}, 0,
                                  {1, false, false, {{offset, offset}, {m, m}}}, {"test", 100, 200}),
                       given);
    FAIL();
  } catch (const PivotError& error) {
    EXPECT_EQ(error.index, 203);
    EXPECT_THAT(error.what(), testing::HasSubstr("row 104, column 202"));
  }
}

void EveryKernel::check_herk(Dtype dtype) {
  for (const bool transpose : {false, true})
    for (const bool turned : {false, true}) {
      tiles_.clear();
      TilePart a = part(dtype, {n, depth}, transpose, transpose), c = part(dtype, {n, n});
      c.transpose = turned;
      scratch_ = tiles_.size();
      tiles_.emplace_back(Dtype::uint8, Shape{1, 16 * n * depth + 4096}, 0);
      check(call::herk(dtype, kernel::Uplo::lower, 3, a, 2, c, static_cast<std::uint32_t>(scratch_)),
            [&](std::vector<Owned>& t) {
              const Tile x = at(a, t), target = at(c, t);
              for (Index i = 0; i < n; ++i)
                for (Index j = 0; j <= i; ++j) {
                  reference::Wide sum = 0;
                  for (Index k = 0; k < depth; ++k)
                    sum += reference::get(x, transpose, transpose, i, k) *
                           std::conj(reference::get(x, transpose, transpose, j, k));
                  const Index row = turned ? j : i, col = turned ? i : j;
                  const reference::Wide value = 3.0 * sum + 2.0 * reference::get(target, row, col);
                  reference::set(target, row, col, i == j ? value.real() : value);
                }
            });
    }
}

TilePart EveryKernel::bidiagonal(Dtype dtype, Index order) {
  const TilePart made = part(dtype, {order, order});
  const Tile tile = at(made, tiles_);
  for (Index i = 0; i < order; ++i)
    for (Index j = 0; j < order; ++j) reference::set(tile, i, j, i == j ? 2 : i == j + 1 ? 1 : 0);
  return made;
}

void EveryKernel::check_trsm(Dtype dtype) {
  for (const bool adjoint : {false, true}) {
    tiles_.clear();
    TilePart a = bidiagonal(dtype, m);
    const TilePart b = part(dtype, {m, n});
    a.transpose = a.conjugate = adjoint;
    const auto uplo = adjoint ? kernel::Uplo::upper : kernel::Uplo::lower;
    check(call::trsm(dtype, kernel::Side::left, uplo, false, 2.0, a, b),
          [&](std::vector<Owned>& t) { reference::solve(!adjoint, false, 2.0, at(a, t), adjoint, adjoint, at(b, t)); });
    const auto kept = static_cast<std::uint32_t>(tiles_.size());
    tiles_.emplace_back(dtype, Shape{m}, 0);
    check(call::trsm(dtype, kernel::Side::left, uplo, false, 2.0, a, b, {}, TilePart{kept}),
          [&](std::vector<Owned>& t) {
            reference::solve(!adjoint, false, 2.0, at(a, t), adjoint, adjoint, at(b, t));
            for (Index i = 0; i < m; ++i)
              std::memcpy(t[kept].tile.data + i * static_cast<Index>(size_of(dtype)),
                          at(a, t).data + i * (at(a, t).strides[0] + at(a, t).strides[1]), size_of(dtype));
          });
  }
}

void EveryKernel::check_potrf(Dtype dtype) {
  const TilePart a = bidiagonal(dtype, m);
  const Tile tile = at(a, tiles_);
  for (Index i = 0; i < m; ++i) reference::set(tile, i, i, i == 0 ? 4 : 5);  // of L with twos and ones: its products
  for (Index i = 1; i < m; ++i) reference::set(tile, i, i - 1, 2);
  check(call::potrf(dtype, kernel::Uplo::lower, a, {"test", 0, 0}),
        [&](std::vector<Owned>& t) { ASSERT_EQ(reference::cholesky(at(a, t), true), 0); });
  std::vector<Tile> given{tiles_[0].tile};
  reference::set(tile, 4, 4, -100);
  try {
    host_kernels().run(call::potrf(dtype, kernel::Uplo::lower, a, {"test", 1000, 1000}), given);
    FAIL();
  } catch (const PivotError& error) {
    EXPECT_EQ(error.index, 1005);
  }
}

/// A panel whose pivots are the rows below the diagonal: U is a diagonal, and L has nothing below its own.
void EveryKernel::check_panels(Kernel kernel, Dtype dtype) {
  const TilePart a = part(dtype, {m, n});
  tiles_.emplace_back(Dtype::int64, Shape{1, n}, 0);
  const Tile tile = at(a, tiles_);
  std::int64_t* const pivots = tiles_[1].tile.as<std::int64_t>();
  if (kernel == Kernel::laswp) {
    for (Index j = 0; j < n; ++j) pivots[j] = 100 + std::min(j + 2, m - 1);
    return check(call::laswp(dtype, 100, 100, false, {1}, a), [&](std::vector<Owned>& t) {
      for (Index i = 0; i < n; ++i)
        for (Index j = 0, other = std::min(i + 2, m - 1); j < n; ++j) {
          const reference::Wide x = reference::get(at(a, t), i, j);
          reference::set(at(a, t), i, j, reference::get(at(a, t), other, j));
          reference::set(at(a, t), other, j, x);
        }
    });
  }
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) reference::set(tile, i, j, i == j + 1 ? 4 : 0);
  scratch_ = tiles_.size();
  tiles_.emplace_back(Dtype::uint8, Shape{1, static_cast<Index>(kernel::getrf_work_bytes(dtype, m)) + 64}, 0);
  check(call::getrf(dtype, 100, a, {1}, static_cast<std::uint32_t>(scratch_)), [&](std::vector<Owned>& t) {
    for (Index j = 0; j < n; ++j) {
      t[1].tile.as<std::int64_t>()[j] = 100 + j + 1;
      reference::set(at(a, t), j, j, 4), reference::set(at(a, t), j + 1, j, 0);
    }
  });
}

/// The kernel itself is held to its promises beside it (kernel/factor/qr_test.cpp); here, that a call names its parts.
void EveryKernel::check_qr(Kernel kernel, Dtype dtype) {
  constexpr Index ib = 4;
  const auto matrix = [this](const TilePart& part, std::vector<Owned>& tiles) {
    Tile tile = at(part, tiles);
    std::swap(tile.shape[0], tile.shape[1]), std::swap(tile.strides[0], tile.strides[1]);
    return tile;
  };
  const TilePart v = part(dtype, {m, n}, true), t = part(dtype, {ib, n}, true), a = part(dtype, {n, depth}, true),
                 b = part(dtype, {m, depth}, true), r = part(dtype, {n, n}, true);
  scratch_ = tiles_.size();
  tiles_.emplace_back(Dtype::uint8, Shape{1, 16 * ib * depth + 4096}, 0);
  const call::QrOptions options{ib, true, false, static_cast<std::uint32_t>(scratch_)};
  std::vector<std::byte> work(16 * ib * depth);
  if (kernel == Kernel::geqrt)
    check(call::geqrt(dtype, options, t, v),
          [&](auto& x) { kernel::geqrt(ib, matrix(v, x), matrix(t, x), work.data()); });
  if (kernel == Kernel::tpqrt)
    check(call::tpqrt(dtype, options, t, v, r),
          [&](auto& x) { kernel::tpqrt(ib, false, matrix(r, x), matrix(v, x), matrix(t, x), work.data()); });
  if (kernel == Kernel::gemqrt)
    check(call::gemqrt(dtype, options, v, t, b),
          [&](auto& x) { kernel::gemqrt(ib, true, matrix(v, x), matrix(t, x), matrix(b, x), work.data()); });
  if (kernel == Kernel::tpmqrt)
    check(call::tpmqrt(dtype, options, v, t, a, b), [&](auto& x) {
      kernel::tpmqrt(ib, true, false, matrix(v, x), matrix(t, x), matrix(a, x), matrix(b, x), work.data());
    });
}

TEST_P(EveryKernel, ComputesWhatItsTwinDoes) {
  const auto [kernel, dtype] = GetParam();
  const auto each = [](const Tile& tile, auto&& f) {
    for (Index i = 0; i < tile.shape[0]; ++i)
      for (Index j = 0; j < tile.shape[1]; ++j) f(i, j);
  };
  switch (kernel) {
    case Kernel::zero: {
      const TilePart to = part(dtype, {m, n});
      return check(call::zero(dtype, to), [&](std::vector<Owned>& t) {
        const Tile target = at(to, t);
        each(target, [&](Index i, Index j) {
          std::fill_n(target.data + i * target.strides[0] + j * target.strides[1], size_of(dtype), std::byte{0});
        });
      });
    }
    case Kernel::fill: {
      const TilePart to = part(dtype, {m, n});
      const std::complex<double> value{2.5, is_complex(dtype) ? -3.0 : 0.0};
      return check(call::fill(dtype, value, to), [&](std::vector<Owned>& t) {
        each(at(to, t), [&](Index i, Index j) { reference::set(at(to, t), i, j, value); });
      });
    }
    case Kernel::copy:
      return check_copy(dtype);
    case Kernel::copy_lower: {
      const TilePart from = part(dtype, {m, m}), to = part(dtype, {m, m});
      return check(call::copy_lower(dtype, from, to), [&](std::vector<Owned>& t) {
        each(at(to, t), [&](Index i, Index j) {
          if (j <= i) reference::set(at(to, t), i, j, reference::get(at(from, t), i, j));
        });
      });
    }
    case Kernel::add: {
      const TilePart from = part(dtype, {m, n}), to = part(dtype, {m, n});
      return check(call::add(dtype, from, to), [&](std::vector<Owned>& t) {
        each(at(to, t), [&](Index i, Index j) {
          reference::set(at(to, t), i, j, reference::get(at(to, t), i, j) + reference::get(at(from, t), i, j));
        });
      });
    }
    case Kernel::scale: {
      const TilePart c = part(dtype, {m, n});
      return check(call::scale(dtype, 3.0, c), [&](std::vector<Owned>& t) {
        if (is_integer(dtype)) {
          const Tile nothing{nullptr, dtype, {m, 0}, {1, 1}, 0}, row{nullptr, dtype, {0, n}, {1, 1}, 0};
          return reference::integer_gemm(1, nothing, false, row, false, 3, at(c, t));
        }
        each(at(c, t), [&](Index i, Index j) { reference::set(at(c, t), i, j, 3.0 * reference::get(at(c, t), i, j)); });
      });
    }
    case Kernel::gemm:
      return check_products(dtype);
    case Kernel::convert: {
      const Dtype other = dtype == Dtype::float32 ? Dtype::float64 : Dtype::float32;
      const TilePart from = part(other, {m, n}), to = part(dtype, {m, n});
      return check(call::convert(dtype, from, to), [&](std::vector<Owned>& t) {
        each(at(to, t), [&](Index i, Index j) { reference::set(at(to, t), i, j, reference::get(at(from, t), i, j)); });
      });
    }
    case Kernel::take:
      return check_take(dtype);
    case Kernel::geqrt:
    case Kernel::tpqrt:
    case Kernel::gemqrt:
    case Kernel::tpmqrt:
      return check_qr(kernel, dtype);
    case Kernel::identity: {
      const TilePart to = part(dtype, {m, n});
      return check(call::identity(dtype, 2, to), [&](std::vector<Owned>& t) {
        each(at(to, t), [&](Index i, Index j) { reference::set(at(to, t), i, j, i + 2 == j ? 1 : 0); });
      });
    }
    case Kernel::herk:
      return check_herk(dtype);
    case Kernel::trsm:
      return check_trsm(dtype);
    case Kernel::potrf:
      return check_potrf(dtype);
    case Kernel::getrf:
    case Kernel::laswp:
      return check_panels(kernel, dtype);
    case Kernel::mirror:
      return check_mirror(dtype);
    case Kernel::evaluate:
      return check_evaluation(dtype);
    case Kernel::join:
    case Kernel::finish:
      return check_accumulators(kernel, dtype);
    case Kernel::csr_rows_multiply:
    case Kernel::csr_rows_multiply_transposed:
    case Kernel::csr_rows_gram:
      GTEST_SKIP() << "in device_sparse_test.cpp";
    default:
      FAIL() << name_of(kernel) << " has no naive twin here";
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryKernel, testing::ValuesIn(entries()),
                         [](const testing::TestParamInfo<Entry>& info) {
                           return std::string(name_of(info.param.kernel)) + "_" +
                                  std::string(name_of(info.param.dtype));
                         });

TEST(KernelTable, SaysWhatItHasNot) {
  std::vector<Tile> none(3);
  EXPECT_THROW(host_kernels().run(call::gemm(Dtype::float16, 1.0, {0}, {1}, 0.0, {2}), none), Error);
  EXPECT_THROW(host_kernels().enter(Kernel::gemm, {Dtype::float32}, nullptr), Error);
}

}  // namespace
}  // namespace flagstone
