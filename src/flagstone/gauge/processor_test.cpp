#include "flagstone/gauge/processor.hpp"

#include <gtest/gtest.h>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::gauge {
namespace {

constexpr Work brief{.workers = 2, .seconds = 0.01};

void expect_rate(const Rate& rate, double least, double most) {
  EXPECT_GT(rate.elapsed, least);
  EXPECT_LT(rate.elapsed, most);
  // A thread gets no more processor time than there is time; clocks of both kinds tick in some microseconds.
  EXPECT_GE(rate.busy, 0.9 * rate.elapsed);
}

TEST(Processor, RatesHaveTheirUnits) {
  expect_rate(gemm_rate(Dtype::float32, 256, brief), 1e7, 1e13);
  expect_rate(gemm_rate(Dtype::float64, 256, brief), 1e7, 1e13);
  expect_rate(copy_rate(MiB, brief), 1e7, 1e12);
  expect_rate(encode_rate(brief), 1e6, 1e12);
  expect_rate(decode_rate(brief), 1e6, 1e12);
}

TEST(Processor, GivesBlasItsThreadsBack) {
  const int before = kernel::blas_threads();
  gemm_rate(Dtype::float32, 64, brief);
  EXPECT_EQ(kernel::blas_threads(), before);
}

TEST(Processor, RefusesOtherDtypes) {
  EXPECT_THROW(gemm_rate(Dtype::int32, 64, brief), ShapeError);
  EXPECT_THROW(gemm_rate(Dtype::float32, 0, brief), ShapeError);
}

}  // namespace
}  // namespace flagstone::gauge
