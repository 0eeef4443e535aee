// Arrays written anew by the calls that programs make: against elements moved one by one.
#include "flagstone/algorithms/restructure/rechunk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <complex>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/element_type.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/output/leftovers.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::restructure {
namespace {

using test::message_of;
using testing::HasSubstr;

class RechunkTest : public testing::Test {
 protected:
  /// m x n of float64, all different, rows of chunks.
  Array stored(Index m, Index n) {
    const Array array =
        create_zarr_array(folder_ / "from.zarr", {m, n}, Dtype::float64, {.chunks = {std::min<Index>(m, 16), n}});
    std::vector<double> values(static_cast<std::size_t>(m * n));
    std::iota(values.begin(), values.end(), 0.5);
    runtime_.write(array, whole(array.shape()), tile_of(values.data(), {m, n}));
    array.store().flush();
    return open_zarr_array(folder_ / "from.zarr");
  }

  RuntimeOptions options(std::uint64_t memory) const {
    return {.memory = memory, .workers = 1, .scratch = folder_ / "scratch"};
  }

  TemporaryDirectory folder_;
  Runtime runtime_{{.memory = 4 * GiB, .workers = 2, .scratch = folder_ / "scratch"}};
};

TEST_F(RechunkTest, OtherChunksDtypeAndCodecIntoANewArray) {
  const Array from = stored(100, 60);
  const RechunkTo to{
      .path = folder_ / "to.zarr", .stored = {.chunks = {100, 8}, .codec = "zstd"}, .dtype = Dtype::float32};
  const RechunkReport planned = plan_rechunk(runtime_, from, to);
  EXPECT_FALSE(std::filesystem::exists(to.path));
  RechunkReport report;
  const Array made = rechunk(runtime_, from, to, {}, &report);
  EXPECT_EQ(made.chunks(), (Shape{100, 8}));
  EXPECT_EQ(codec_of(made), "zstd");
  const Array found = runtime_.read(made, whole({100, 60}));
  for (Index i = 0; i < 6000; ++i)
    ASSERT_EQ(elements_of<float>(found)[static_cast<std::size_t>(i)], static_cast<float>(i) + 0.5F);
  EXPECT_EQ(planned.passes, 1);
  EXPECT_EQ(report.passes, 1);
  EXPECT_EQ(planned.statistics.bytes_read, report.statistics.bytes_read);
  EXPECT_EQ(report.statistics.tasks, planned.statistics.tasks);
}

TEST_F(RechunkTest, DimensionsInAnotherOrder) {
  const Array from = stored(70, 33);
  const Array turned = transpose(runtime_, from, {.path = folder_ / "t.zarr"});
  ASSERT_EQ(turned.shape(), (Shape{33, 70}));
  const Array found = runtime_.read(turned, whole({33, 70}));
  for (Index i = 0; i < 33; ++i)
    for (Index j = 0; j < 70; ++j)
      ASSERT_EQ(elements_of<double>(found)[static_cast<std::size_t>(i * 70 + j)],
                static_cast<double>(j * 33 + i) + 0.5);
  EXPECT_EQ(plan_transpose(runtime_, from, {.path = "nowhere"}).passes, 1);

  std::vector<double> rows(33 * 70);  // into memory, in a graph of one's own
  const Array memory = memory_array(rows.data(), {33, 70});
  runtime_.run([&](Graph& graph) { transpose(graph, from, memory); });
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), elements_of<double>(found).begin()));
}

TEST_F(RechunkTest, TwoPassesGoThroughTheRuntimesScratch) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what is freed, and a limit near the least is no longer one when it runs";
#endif
  const Index n = 2048;  // 32 MiB in rows, wanted in columns
  const Array from = stored(n, n);
  const RechunkTo to{.path = folder_ / "columns.zarr", .stored = {.chunks = {n, 4}}};
  std::uint64_t least = 1 * MiB;
  for (bool planned = false; !planned;) {  // the process itself grows a little with the first plans
    try {
      Runtime runtime(options(least));
      plan_rechunk(runtime, from, to);
      planned = true;
    } catch (const BudgetError& error) {
      least = error.least;
    }
  }
  Runtime small(options(least + 2 * MiB));
  const RechunkReport planned = plan_rechunk(small, from, to);
  ASSERT_EQ(planned.passes, 2) << planned.why;
  EXPECT_GE(planned.scratch_bytes, static_cast<std::uint64_t>(n * n * 8));
  RechunkReport report;
  const Array made = rechunk(small, from, to, {}, &report);
  EXPECT_EQ(report.passes, 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "scratch"));
  EXPECT_LE(report.statistics.peak_memory, least + 2 * MiB);
  const Array found = runtime_.read(made, {{0, 5}, {n, 3}});
  for (Index i = 0; i < n; ++i)
    ASSERT_EQ(elements_of<double>(found)[static_cast<std::size_t>(3 * i + 1)], static_cast<double>(i * n + 6) + 0.5);

  // A quota that is too small for what lies between: refused, and nothing appears.
  RechunkOptions quota{.scratch = {.who = "columns", .quota = 1 * MiB}};
  EXPECT_THROW(rechunk(small, from, {.path = folder_ / "q.zarr", .stored = {.chunks = {n, 4}}}, quota), StorageError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "q.zarr"));
}

TEST_F(RechunkTest, TheSameCallGoesOnWhereAKilledOneStopped) {
  ASSERT_EQ(::setenv("FLAGSTONE_CHECKPOINT_SECONDS", "0", 1), 0);  // short calls have records too
  const Array from = stored(2000, 1400);
  RechunkTo to{.path = folder_ / "to.zarr", .stored = {.chunks = {100, 1400}}, .replace = true};
  const Array whole_one = rechunk(runtime_, from, {.path = folder_ / "expected.zarr", .stored = to.stored});
  RechunkReport report;
  for (const int last : {1, 3}) {
    const pid_t child = ::fork();
    if (child == 0) {
      to.record.saved = [last](int checkpoint) {
        if (checkpoint == last) ::_exit(9);
      };
      Runtime runtime(options(1 * GiB));
      rechunk(runtime, from, to);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 9) << "it ended before checkpoint " << last;
    EXPECT_EQ(registered_outputs(folder_ / "scratch").size(), 1u);
    const Array made = rechunk(runtime_, from, to, {}, &report);
    EXPECT_TRUE(report.resumed);
    EXPECT_LT(report.statistics.tasks, 20u);
    const Box all = whole(from.shape());
    EXPECT_EQ(test::read_elements(made, all), test::read_elements(whole_one, all));
  }
  to.record.warn = [](const std::string&) { FAIL(); };
  rechunk(runtime_, from, to, {}, &report);
  EXPECT_FALSE(report.resumed);
  EXPECT_EQ(report.statistics.tasks, 20u);
  ::unsetenv("FLAGSTONE_CHECKPOINT_SECONDS");
}

TEST_F(RechunkTest, WhatIsThereIsReplacedOnlyWhereThatIsSaid) {
  const Array from = stored(40, 40);
  const RechunkTo to{.path = folder_ / "to.zarr"};
  rechunk(runtime_, from, to);
  EXPECT_THROW(rechunk(runtime_, from, to), StorageError);
  const Array anew = rechunk(runtime_, from, {.path = to.path, .dtype = Dtype::int32, .replace = true});
  EXPECT_EQ(anew.dtype(), Dtype::int32);
  EXPECT_EQ(open_zarr_array(to.path).dtype(), Dtype::int32);
}

TEST_F(RechunkTest, BadInputIsNamedBeforeAnythingAppears) {
  const Array from = stored(40, 40);
  const RechunkTo to{.path = folder_ / "to.zarr"};
  for (const std::vector<std::size_t>& axes : {std::vector<std::size_t>{0}, {0, 0}, {0, 2}, {0, 1, 2}})
    EXPECT_THAT(message_of<ShapeError>([&] { rechunk(runtime_, from, to, {.axes = axes}); }),
                HasSubstr("no permutation of the array's 2 dimensions"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                plan_rechunk(runtime_, from, {.path = "x", .stored = {.chunks = {0, -4}}});
              }),
              HasSubstr("chunks of 0 x -4; extents must be 1 or more"));
  std::vector<std::complex<double>> z(4);
  const Array complex = memory_array(z.data(), {4});
  EXPECT_THAT(message_of<ShapeError>([&] { plan_rechunk(runtime_, complex, {.path = "x", .dtype = Dtype::float32}); }),
              HasSubstr("complex128 and the result float32, which holds no imaginary parts"));
  EXPECT_NO_THROW(plan_rechunk(runtime_, complex, {.path = "x", .dtype = Dtype::complex64}));
  EXPECT_THAT(message_of<ShapeError>([&] { plan_rechunk(runtime_, from, {.path = "x", .stored = {.chunks = {4}}}); }),
              HasSubstr("chunks of 4 do not fit a result of 40 x 40"));
  std::vector<double> memory(40);
  EXPECT_THROW(runtime_.run([&](Graph& graph) { rechunk(graph, from, memory_array(memory.data(), {40})); }),
               ShapeError);
  Runtime tiny({.memory = 1 * MiB, .workers = 1, .scratch = folder_ / "scratch"});
  try {
    rechunk(tiny, from, to);
    FAIL() << "ran";
  } catch (const BudgetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rechunk: needs at least "));
    Runtime enough({.memory = error.least, .workers = 1, .scratch = folder_ / "scratch"});
    EXPECT_FALSE(std::filesystem::exists(to.path));
    EXPECT_NO_THROW(rechunk(enough, from, to));
  }
}

}  // namespace
}  // namespace flagstone::restructure
