// Counts against the formulas of the paper, and against what runs move; each point computed as often as is said.
#include "flagstone/algorithms/stencil/schedules/counts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "flagstone/algorithms/stencil/skewed/skewed.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::stencil {
namespace {

/// u + 1 at every point: after t steps the field says how often each was computed, and `points` how many in all.
class CountingKernel final : public kernel::PlaneKernel {
 public:
  explicit CountingKernel(const Axes& radius) : radius_(radius) {}
  void run(const kernel::PlaneCall& call, std::byte*) const override {
    for (Index y = 0; y < call.rows; ++y) {
      const auto* from = reinterpret_cast<const double*>(call.planes[radius_[0]] + y * call.pitch);
      auto* to = reinterpret_cast<double*>(call.to + y * call.to_pitch);
      for (Index x = 0; x < call.columns; ++x) to[x] = from[x] + 1;
    }
    const std::lock_guard lock(mutex_);
    points += call.rows * call.columns;
  }
  const Axes& radius() const override { return radius_; }
  double flops() const override { return 1; }
  mutable Index points = 0;

 private:
  Axes radius_;
  mutable std::mutex mutex_;
};

class StencilCounts : public testing::Test {
 protected:
  /// A field of random extents and radius, of 1 to 3 dimensions.
  std::shared_ptr<Problem> random_problem(std::size_t order) {
    auto problem = std::make_shared<Problem>();
    const auto ndim = static_cast<std::size_t>(draw(1, 3));
    problem->axes = axes_of(ndim);
    problem->dtype = Dtype::float64, problem->space.item = 8;
    Shape shape;
    Axes radius{};
    const Index reach = draw(1, 2);
    for (const std::size_t d : problem->axes) {
      shape.push_back(draw(1, ndim == 1 ? 200 : ndim == 2 ? 40 : 18));
      problem->space.shape[d] = shape.back(), problem->space.radius[d] = radius[d] = reach;
    }
    kernel_ = std::make_shared<CountingKernel>(radius);
    problem->kernel = kernel_;
    const auto all = static_cast<std::size_t>(problem->space.whole().count());
    for (auto* arrays : {&problem->from, &problem->to})
      for (std::size_t state = 0; state < order; ++state) {
        memory_.push_back(std::make_unique<std::vector<double>>(all, 5.0));
        arrays->push_back(memory_array(memory_.back()->data(), shape));
      }
    problem->scratch = {folder_.path(), "test", {}};
    return problem;
  }
  Index draw(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random_); }
  Axes random_block(const Problem& problem) {
    Axes block{1, 1, 1};
    for (const std::size_t d : problem.axes) block[d] = draw(1 + problem.space.radius[d], problem.space.shape[d] + 3);
    for (std::size_t d = 0; d < 3; ++d) block[d] = std::min(block[d], problem.space.shape[d]);
    return block;
  }
  void expect_each_once(const Problem& problem) {
    EXPECT_EQ(kernel_->points, problem.steps * problem.space.whole().count());
    const auto& now = *memory_[problem.order()];
    EXPECT_EQ(std::ranges::count(now, 5.0 + static_cast<double>(problem.steps)),
              static_cast<std::ptrdiff_t>(now.size()));
  }

  std::mt19937_64 random_{3};
  std::shared_ptr<CountingKernel> kernel_;
  std::vector<std::unique_ptr<std::vector<double>>> memory_;
  TemporaryDirectory folder_;
  Runtime runtime_{{.memory = 4 * GiB, .workers = 3, .scratch = folder_ / "scratch"}};
};

/// The formula of the reference (Midorikawa and Tan, rebuilt from their text): elements read, written.
std::pair<double, double> paper_al3(const Problem& problem, const Axes& block, Index depth) {
  double read = 2, written = 2;
  for (std::size_t d = 0; d < 3; ++d) {
    const Index n = problem.space.shape[d], b = block[d], h = problem.space.radius[d];
    Index r = 0, w = 0;
    const auto clip = [&](Index low, Index high) {
      return std::max<Index>(0, std::min(high, n) - std::max<Index>(low, 0));
    };
    for (Index k = 0; k * b < n + h * (depth - 1); ++k)
      r += clip(k * b - h * depth, (k + 1) * b + h), w += clip(k * b - h * (depth - 1), (k + 1) * b);
    read *= static_cast<double>(b >= n ? n : r), written *= static_cast<double>(b >= n ? n : w);
  }
  return {read, written};
}

TEST_F(StencilCounts, SkewedTilesMoveWhatTheFormulaSaysAndComputeEachPointOnce) {
  for (int trial = 0; trial < 40; ++trial) {
    memory_.clear();
    const std::size_t order = trial % 2 + 1;
    const auto problem = random_problem(order);
    SkewedScheme scheme{random_block(*problem), draw(1, 5)};
    scheme.planes = draw(1, 6), scheme.rows = draw(0, 3);
    problem->steps = scheme.depth * draw(1, 4) - draw(0, 1);
    if (problem->steps < 1) problem->steps = 1;
    const Axes unit{1, 1, 1};
    Counts moved;
    runtime_.run([&](Graph& graph) { moved = run_skewed(graph, problem, scheme, unit).moved; });
    expect_each_once(*problem);
    const Supersteps each(problem->steps, scheme.depth);
    const Index number = each.number();
    const Skews skews(*problem, scheme, each[0], each[number - 1], unit);
    Counts counted;
    for (Index s = 0; s < number; ++s) {
      const Counts one = skewed_counts(*problem, skews, each[s], s == 0, s + 1 == number);
      counted.read += one.read, counted.written += one.written, counted.updates += one.updates;
      const Counts middle = skewed_counts(*problem, skews, each[s], false, false);
      EXPECT_EQ(std::make_pair(middle.read, middle.written), paper_al3(*problem, scheme.block, each[s]));
    }
    EXPECT_EQ(moved.read, counted.read) << trial;
    EXPECT_EQ(moved.written, counted.written) << trial;
    EXPECT_EQ(moved.updates, counted.updates);
    EXPECT_EQ(counted.updates, static_cast<double>(kernel_->points));
  }
}

TEST_F(StencilCounts, WavefrontsComputeEachPointOnce) {
  for (int trial = 0; trial < 20; ++trial) {
    memory_.clear();
    const auto problem = random_problem(trial % 2 + 1);
    problem->steps = draw(1, 12);
    WavefrontScheme scheme{draw(1, 5), draw(1, 5), draw(4, 30), draw(1, 3)};
    scheme.depth = std::min(scheme.depth, problem->steps);
    scheme.planes = std::min(scheme.planes, problem->space.shape[0]);
    if (!can_cut(*problem)) scheme.strip = problem->space.shape[strip_axis(*problem)];
    runtime_.run([&](Graph& graph) { run_wavefront(graph, problem, scheme); });
    expect_each_once(*problem);
  }
}

TEST_F(StencilCounts, CacheBlocksUpdateWhatIsCounted) {
  for (int trial = 0; trial < 30; ++trial) {
    memory_.clear();
    const auto problem = random_problem(trial % 2 + 1);
    BlockScheme scheme{random_block(*problem), draw(1, 5)};
    scheme.cache = {random_block(*problem), draw(1, 4)};
    problem->steps = scheme.depth * draw(1, 2);
    runtime_.run([&](Graph& graph) { run_blocks(graph, problem, scheme); });
    double updates = 0;
    const Supersteps each(problem->steps, scheme.depth);
    for (Index s = 0; s < each.number(); ++s) updates += nested_counts(*problem, scheme, each[s]).updates;
    EXPECT_EQ(updates, static_cast<double>(kernel_->points)) << trial;
    EXPECT_GE(updates, block_counts(*problem, scheme.block, 1).updates);
  }
}

}  // namespace
}  // namespace flagstone::stencil
