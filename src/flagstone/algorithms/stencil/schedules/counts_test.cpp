// Counts against the formulas of the paper, and against what runs move; each point computed as often as is said.
#include "flagstone/algorithms/stencil/schedules/counts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "flagstone/algorithms/stencil/field/field_stage.hpp"
#include "flagstone/algorithms/stencil/skewed/skewed.hpp"
#include "flagstone/algorithms/stencil/skewed/tile_memory.hpp"
#include "flagstone/algorithms/stencil/skewed/working_arrays.hpp"
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
  /// Several fields; each stage of a step adds 1 to some of them, and looks at one far away.
  std::shared_ptr<Problem> random_system() {
    const std::shared_ptr<Problem> problem = random_problem(static_cast<std::size_t>(draw(1, 3)));
    const auto fields = static_cast<Index>(problem->order());
    problem->kernel = nullptr, problem->space.radius = {};
    added_.assign(problem->order(), 0);
    for (Index stage = 0, stages = draw(1, 3); stage < stages; ++stage) {
      kernel::Program program;
      std::vector<FieldInput> inputs;
      std::vector<std::pair<std::size_t, int>> replaced;
      const double one = 1;
      const int constant = program.constant(Dtype::float64, &one);
      for (Index field = 0; field < fields; ++field) {
        if (field != stage % fields && draw(0, 1) == 0) continue;
        const auto number = static_cast<std::size_t>(field);
        inputs.push_back({false, number, {}});
        replaced.emplace_back(number, program.apply(kernel::Verb::add, program.input(Dtype::float64), constant));
        ++added_[number];
      }
      inputs.push_back({false, static_cast<std::size_t>(draw(0, fields - 1)), {}});
      program.input(Dtype::float64);
      for (const std::size_t d : problem->axes)
        problem->space.radius[d] += std::abs(inputs.back().offset[d] = draw(-2, 2));
      problem->stages.push_back(expression_stage(program, std::move(replaced), Dtype::float64, std::move(inputs)));
    }
    return problem;
  }
  Index draw(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random_); }
  Axes random_block(const Problem& problem) {
    Axes block{1, 1, 1};
    for (const std::size_t d : problem.axes) {
      const Index most = problem.space.shape[d] + 3;
      block[d] = draw(std::min(most, 1 + problem.space.radius[d]), most);
    }
    for (std::size_t d = 0; d < 3; ++d) block[d] = std::min(block[d], problem.space.shape[d]);
    return block;
  }
  void expect_each_once(const Problem& problem) {
    EXPECT_EQ(kernel_->points, problem.steps * problem.space.whole().count());
    const auto& now = *memory_[problem.order()];
    EXPECT_EQ(std::ranges::count(now, 5.0 + static_cast<double>(problem.steps)),
              static_cast<std::ptrdiff_t>(now.size()));
  }

  /// Skewed tiles of random blocks: what they move is what is counted, and in between the paper's formula.
  void expect_skewed_counts(const std::shared_ptr<Problem>& problem);

  std::mt19937_64 random_{3};
  std::vector<Index> added_;  // to each field of a system, in a step
  std::shared_ptr<CountingKernel> kernel_;
  std::vector<std::unique_ptr<std::vector<double>>> memory_;
  TemporaryDirectory folder_;
  Runtime runtime_{{.memory = 4 * GiB, .workers = 3, .scratch = folder_ / "scratch"}};
};

/// The formula of the reference (Midorikawa and Tan, rebuilt from their text), a level for each stage: elements read,
/// written.
std::pair<double, double> paper_al3(const Problem& problem, const Axes& block, Index depth) {
  const Slots slots(problem);
  const Index levels = depth * slots.versions().stages();
  auto read = static_cast<double>(slots.number()), written = read;
  for (std::size_t d = 0; d < 3; ++d) {
    const Index n = problem.space.shape[d], b = block[d], h = slots.versions().radius()[d];
    Index r = 0, w = 0;
    const auto clip = [&](Index low, Index high) {
      return std::max<Index>(0, std::min(high, n) - std::max<Index>(low, 0));
    };
    for (Index k = 0; k * b < n + h * (levels - 1); ++k)
      r += clip(k * b - h * levels, (k + 1) * b + h), w += clip(k * b - h * (levels - 1), (k + 1) * b);
    read *= static_cast<double>(b >= n ? n : r), written *= static_cast<double>(b >= n ? n : w);
  }
  return {read, written};
}

void StencilCounts::expect_skewed_counts(const std::shared_ptr<Problem>& problem) {
  SkewedScheme scheme{random_block(*problem), draw(1, 5)};
  scheme.planes = draw(1, 6), scheme.rows = draw(0, 3);
  problem->steps = std::max<Index>(1, scheme.depth * draw(1, 4) - draw(0, 1));
  const Axes unit{1, 1, 1};
  Counts moved;
  runtime_.run([&](Graph& graph) { moved = run_skewed(graph, problem, scheme, unit).moved; });
  const Supersteps each(problem->steps, scheme.depth);
  const Index number = each.number();
  const Skews skews(*problem, scheme, each[0], each[number - 1], unit);
  const std::vector<Index> depths = skews.depths(each);
  for (std::size_t d = 0; d < 3; ++d) {
    const Index most = d == 0 ? scheme.planes : problem->space.shape[d];
    EXPECT_GE(skews.most_cells(d, depths, most), static_cast<Index>(skews.cuts(d, depths, most).size()) - 1);
  }
  Counts counted;
  for (Index s = 0; s < number; ++s) {
    const Counts one = skewed_counts(*problem, skews, each[s], s == 0, s + 1 == number);
    counted.read += one.read, counted.written += one.written, counted.updates += one.updates;
    const Counts middle = skewed_counts(*problem, skews, each[s], false, false);
    EXPECT_EQ(std::make_pair(middle.read, middle.written), paper_al3(*problem, scheme.block, each[s]));
  }
  EXPECT_EQ(moved.read, counted.read);
  EXPECT_EQ(moved.written, counted.written);
  EXPECT_EQ(moved.updates, counted.updates);
  EXPECT_EQ(counted.updates, static_cast<double>(problem->steps * problem->space.whole().count()));
}

TEST_F(StencilCounts, SkewedTilesMoveWhatTheFormulaSaysAndComputeEachPointOnce) {
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(trial);
    memory_.clear();
    const auto problem = random_problem(trial % 2 + 1);
    expect_skewed_counts(problem);
    expect_each_once(*problem);
  }
}

TEST_F(StencilCounts, SkewedTilesOfSeveralFieldsDoTheSame) {
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE(trial);
    memory_.clear();
    const auto problem = random_system();
    expect_skewed_counts(problem);
    for (std::size_t field = 0; field < problem->order(); ++field) {
      const auto& made = *memory_[problem->order() + field];
      const auto wanted = 5.0 + static_cast<double>(problem->steps * added_[field]);
      EXPECT_EQ(std::ranges::count(made, wanted), static_cast<std::ptrdiff_t>(made.size())) << field;
    }
  }
}

/// A thousand cells along each axis are no scheme for any limit of today.
TEST_F(StencilCounts, WhatIsKnownOfCellsCountsWhereASchemeIsChosen) {
  const auto problem = random_problem(1);
  const Index n = 1000;
  problem->axes = axes_of(3), problem->steps = 1;
  problem->space.shape = {n, n, n}, problem->space.radius = {1, 1, 1};
  double nothing = 0;  // no element is ever touched
  problem->from = {memory_array(&nothing, {n, n, n})}, problem->to = {memory_array(&nothing, {n, n, n})};
  SkewedScheme scheme{{3, 3, 3}, 1};
  scheme.planes = 3;
  EXPECT_GT(skewed_bytes(*problem, scheme, {1, 1, 1}, 1), cells_bytes(2, {n, n, n}));
}

/// Beside what is counted of tiles: images are copied before each superstep but the first.
TEST_F(StencilCounts, ImagesBeyondPeriodicEdgesAreCounted) {
  const auto problem = random_problem(1);
  problem->axes = axes_of(2), problem->steps = 12;
  problem->space.shape = {24, 1, 18}, problem->space.radius = {1, 0, 1};
  for (auto& side : problem->space.edges[0]) side.edge = kernel::Edge::periodic;
  kernel_ = std::make_shared<CountingKernel>(problem->space.radius);
  problem->kernel = kernel_;
  for (auto* arrays : {&problem->from, &problem->to}) {
    memory_.push_back(std::make_unique<std::vector<double>>(24 * 18));
    *arrays = {memory_array(memory_.back()->data(), {24, 18})};
  }
  SkewedScheme scheme{{9, 1, 18}, 4};
  scheme.planes = 3;
  const Axes unit{1, 1, 1};
  const Skews skews(*problem, scheme, 4, 4, unit);
  Counts moved;
  runtime_.run([&](Graph& graph) { moved = run_skewed(graph, problem, scheme, unit).moved; });
  double written = 2 * skews.images(4);
  for (int s = 0; s < 3; ++s) written += skewed_counts(*problem, skews, 4, s == 0, s == 2).written;
  EXPECT_EQ(skews.images(4), 8 * 18);
  EXPECT_EQ(moved.written, written);
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
