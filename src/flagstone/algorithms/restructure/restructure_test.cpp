// Which scheme is chosen, and that what it promises is what a planned graph counts.
#include "flagstone/algorithms/restructure/restructure.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"

namespace flagstone::restructure {
namespace {

Job job_of(const Shape& shape, const Shape& from, const Shape& to, std::vector<std::size_t> axes = {},
           const std::string& codec = "raw") {
  if (axes.empty()) {
    axes.resize(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  const Source source{planned_array(shape, Dtype::float32, from), axes};
  return {source, false, planned_array(seen(source, shape), Dtype::float32, to, codec), "."};
}

Statistics counted(const Job& job, std::uint64_t budget) {
  RuntimeOptions options;
  options.workers = 2;
  Simulator simulator(options, {}, budget, budget);
  simulator.run([&](Graph& graph) { run(graph, job, choose(job, graph.budget(), graph.workers())); });
  return simulator.statistics();
}

TEST(Restructure, ReadsAndWritesOnceWhereChunksUnderOneBoxFit) {
  const Job job = job_of({16384, 16384}, {64, 16384}, {1024, 1024});
  const Scheme scheme = choose(job, 120 * MiB, 2);
  EXPECT_EQ(scheme.passes(), 1);
  EXPECT_EQ(scheme.first.times_read, 1.0);
  const Statistics stats = counted(job, 120 * MiB);
  EXPECT_EQ(stats.bytes_read, GiB);
  EXPECT_EQ(stats.bytes_written, GiB);
  EXPECT_LE(stats.peak_budget, 120 * MiB);
}

TEST(Restructure, TakesTwoPassesWhereTheyDoNot) {
  const Job job = job_of({16384, 16384}, {64, 16384}, {16384, 64});
  const Scheme scheme = choose(job, 64 * MiB, 2);
  EXPECT_EQ(scheme.passes(), 2);
  const Statistics stats = counted(job, 64 * MiB);
  EXPECT_LE(stats.bytes_read, 2 * GiB);
  EXPECT_EQ(stats.bytes_written, 2 * GiB);
  EXPECT_EQ(choose(job, 1200 * MiB, 2).passes(), 1);
}

TEST(Restructure, ReadsPartsOfLargeChunksRatherThanTwice) {
  // Chunks of 256 MiB; tiles of 4 MiB take runs of 1 MiB from them.
  const Job job = job_of({1024, 262144}, {256, 262144}, {4, 262144});
  const Scheme scheme = choose(job, 32 * MiB, 2);
  EXPECT_EQ(scheme.passes(), 1);
  EXPECT_EQ(counted(job, 32 * MiB).bytes_read, GiB);
  const Job across = job_of({1024, 262144}, {256, 262144}, {256, 131072});
  const Scheme parts = choose(across, 600 * MiB, 2);
  EXPECT_TRUE(parts.first.parts);
  EXPECT_EQ(parts.first.run, 512 * KiB);
  EXPECT_EQ(counted(across, 600 * MiB).bytes_read, GiB);
}

TEST(Restructure, KeepsWhatNeighbouringBoxesShare) {
  // 1000 and 1024 meet every 128,000: chunks that straddle two boxes are held, not read twice.
  const Job job = job_of({100'000, 64}, {1000, 64}, {1024, 64});
  const Statistics stats = counted(job, 16 * MiB);
  EXPECT_LE(stats.bytes_read, job.to.nbytes() + 100 * page_bytes);
}

TEST(Restructure, TransposesTheBoxesOfItsSource) {
  const Job job = job_of({4096, 2048, 3}, {512, 512, 3}, {3, 512, 512}, {2, 1, 0});
  const Statistics stats = counted(job, 64 * MiB);
  EXPECT_EQ(stats.bytes_read, job.to.nbytes());
  EXPECT_EQ(stats.bytes_written, job.to.nbytes());
}

TEST(Restructure, ChoosesByItsArgumentsAlone) {
  const Job job = job_of({5000, 7000}, {77, 7000}, {1024, 512});
  for (std::uint64_t budget : {std::uint64_t{0}, 4 * MiB, 40 * MiB, 400 * MiB}) {
    const Scheme a = choose(job, budget, 2), b = choose(job, budget, 2);
    EXPECT_EQ(a.first.box, b.first.box);
    EXPECT_EQ(a.first.tile, b.first.tile);
    EXPECT_EQ(a.why, b.why);
  }
}

TEST(Restructure, FitsIntoWhatLeastSaysForManyShapes) {
  std::uint32_t state = 7;
  const auto below = [&state](Index n) {
    state = state * 1664525u + 1013904223u;
    return static_cast<Index>(state >> 8) % n;
  };
  for (int round = 0; round < 120; ++round) {
    const auto dims = static_cast<std::size_t>(1 + below(3));
    Shape shape(dims), from(dims), to(dims);
    const Index most = dims == 1 ? 3'000'000 : dims == 2 ? 2500 : 190;
    for (std::size_t d = 0; d < dims; ++d) {
      shape[d] = 1 + below(most);
      const auto chunk = [&] { return 1 + below(shape[d]) / (1 + below(4)); };
      from[d] = std::max(chunk(), ceil_div(shape[d], 40)), to[d] = std::max(chunk(), ceil_div(shape[d], 40));
    }
    const Job job = job_of(shape, from, to, {}, round % 3 ? "raw" : "zstd:1");
    RuntimeOptions options;
    options.workers = 2;
    const auto build = [&](Graph& graph) { run(graph, job, choose(job, graph.budget(), graph.workers())); };
    Simulator open(options, {}, std::uint64_t{1} << 60, 0);
    open.run(build);
    for (std::uint64_t more : {std::uint64_t{0}, MiB, 8 * MiB, 64 * MiB}) {
      const std::uint64_t budget = open.least_capacity() + more;
      Simulator tight(options, {}, budget, budget);
      EXPECT_NO_THROW(tight.run(build)) << to_string(shape) << ": " << to_string(from) << " -> " << to_string(to)
                                        << " in " << budget;
    }
  }
}

TEST(Restructure, RefusesWhatDoesNotFitTogether) {
  Job job = job_of({4, 6}, {2, 2}, {2, 2});
  job.source.axes = {0, 0};
  EXPECT_THROW(check(job), ShapeError);
  job.source.axes = {1, 0};
  EXPECT_THROW(check(job), ShapeError);
}

}  // namespace
}  // namespace flagstone::restructure
