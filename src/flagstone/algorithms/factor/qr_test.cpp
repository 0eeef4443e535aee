// QR by tiles of several cuts, square ones and those of a card: R and Q against the matrix itself, at budgets that
// choose slabs and streamed panels, on the host and on a device.
#include "flagstone/algorithms/factor/qr.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone::linalg {
namespace {

using Values = std::vector<double>;

Array array_of(Values& values, Index rows, Index cols) {
  return memory_array(reinterpret_cast<std::byte*>(values.data()), {rows, cols}, Dtype::float64, {});
}

void run(std::uint64_t budget, std::uint64_t device, const std::function<void(Graph&)>& build) {
  RuntimeOptions options;
  options.workers = 2;
  options.scratch = std::filesystem::temp_directory_path();
  if (device > 0) options.devices = {open_emulated({.memory = device})};
  const auto ring = make_ring();
  Executor(*ring, options, {options.scratch, "test", {}}, budget, {}).run(build);
}

Values random(Index count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(generator);
  return values;
}

/// max |XᵀX - Y| of X (m x n) over the largest |Y|.
double gram_error(const Values& x, Index m, Index n, const Values& y) {
  double worst = 0, largest = 0;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j <= i; ++j) {
      double sum = 0;
      for (Index k = 0; k < m; ++k) sum += x[k * n + i] * x[k * n + j];
      worst = std::max(worst, std::abs(sum - y[i * n + j])), largest = std::max(largest, std::abs(y[i * n + j]));
    }
  return worst / largest;
}

Values gram(const Values& x, Index m, Index n) {
  Values y(static_cast<std::size_t>(n * n));
  for (Index k = 0; k < m; ++k)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) y[i * n + j] += x[k * n + i] * x[k * n + j];
  return y;
}

struct Case {
  Index m, n;
  QrCut cut;
};

// Eight columns a tile; the same shape with square tiles beside tall ones, one group and several.
constexpr QrCut square{8, 1, 4096, 4, 8}, tall{8, 4, 4096, 2, 8}, chain{8, 4, 4096, 1000, 4};

class Cuts : public testing::TestWithParam<Case> {};

TEST_P(Cuts, AreFactorsAtEveryBudget) {
  const auto& [m, n, cut] = GetParam();
  const Index k = std::min(m, n);
  Values a = random(m * n, 1), first_r, first_q;
  const Values want = gram(a, m, n);
  const double bound = 1e-14 * static_cast<double>(m);
  for (const auto& [budget, device] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {64 * MiB, 0}, {512 * KiB, 0}, {128 * KiB, 0}, {64 * MiB, 512 * KiB}}) {
    Values r(static_cast<std::size_t>(k * n)), alone = r, q(static_cast<std::size_t>(m * k));
    run(budget, device, [&](Graph& graph) { qr_r(graph, {array_of(a, m, n)}, {array_of(alone, k, n)}, {.cut = cut}); });
    run(budget, device,
        [&](Graph& graph) { qr(graph, {array_of(a, m, n)}, {array_of(q, m, k)}, {array_of(r, k, n)}, {.cut = cut}); });
    for (Index i = 0; i < k; ++i)
      for (Index j = 0; j < i; ++j) ASSERT_EQ(r[i * n + j], 0) << i << ", " << j;
    EXPECT_LE(gram_error(r, k, n, want), bound);
    EXPECT_EQ(alone, r);
    Values one(static_cast<std::size_t>(k * k));
    for (Index i = 0; i < k; ++i) one[i * k + i] = 1;
    EXPECT_LE(gram_error(q, m, k, one), bound);
    double worst = 0;
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        double sum = 0;
        for (Index l = 0; l < k; ++l) sum += q[i * k + l] * r[l * n + j];
        worst = std::max(worst, std::abs(sum - a[i * n + j]));
      }
    EXPECT_LE(worst, bound * 10);
    if (first_r.empty()) first_r = r, first_q = q;
    EXPECT_EQ(r, first_r);  // an order is no matter of bits
    EXPECT_EQ(q, first_q);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Cuts,
                         testing::Values(Case{300, 60, square}, Case{300, 60, tall}, Case{300, 60, chain},
                                         Case{101, 100, tall}, Case{100, 101, tall}, Case{97, 97, chain},
                                         Case{40, 90, tall}, Case{33, 61, chain}, Case{1000, 7, tall}));

}  // namespace
}  // namespace flagstone::linalg
