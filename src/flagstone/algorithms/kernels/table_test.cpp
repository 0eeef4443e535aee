// Each kernel of the host's table against its naive twin, through one test: a call on parts of larger tiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "flagstone/algorithms/kernels/elementwise.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/testing/every_kernel.hpp"

namespace flagstone {

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
  try {  // looked at where it is, as it is seen; the place is of the transpose
    host_kernels().run(call::look(dtype, kernel::Part::lower, true, {0, true, false, {{offset, offset}, {m, m}}},
                                  {"test", 100, 200, call::Whose::matrix, true}),
                       given);
    FAIL();
  } catch (const PivotError& error) {
    EXPECT_EQ(error.row, 202);
    EXPECT_EQ(error.col, 104);
  }
}

namespace {

std::vector<KernelOfTable> entries() {
  std::vector<KernelOfTable> found;
  for (std::size_t k = 0; k < kernel_count; ++k)
    for (int d = 0; d <= static_cast<int>(Dtype::complex128); ++d)
      if (host_kernels().find(static_cast<Kernel>(k), static_cast<Dtype>(d)) != nullptr)
        found.push_back({static_cast<Kernel>(k), static_cast<Dtype>(d)});
  return found;
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
                         [](const testing::TestParamInfo<KernelOfTable>& info) {
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
