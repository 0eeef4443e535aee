// Regions that share elements without being equal: of one task, of two handles, of two arrays of one file.
#include <gtest/gtest.h>

#include <future>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

class OverlapTest : public testing::Test {
 protected:
  Array open(Index first, Index elements, Index leading = 0, Index rows = 1) {
    RawLayout layout{.shape = {elements}, .dtype = Dtype::float64, .offset = static_cast<std::uint64_t>(first) * 8};
    if (leading > 0) layout.shape = {rows, elements}, layout.leading = leading;
    return open_raw(path_, layout, true);
  }
  void run(const std::function<void(Graph&)>& builder) { runtime_.run(builder); }
  static TaskSpec task(
      std::vector<Access> accesses, Body body = [](auto) {}) {
    TaskSpec spec;
    spec.name = "task";
    spec.accesses = std::move(accesses);
    spec.body = std::move(body);
    return spec;
  }
  static Region part(const Array& array, Index start, Index length) { return {array, {{start}, {length}}}; }
  static Region all(const Array& array) { return {array, whole(array.shape())}; }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "x.bin";
  Array file_ = create_raw(path_, {.shape = {1000}, .dtype = Dtype::float64});
  Runtime runtime_{[this] {
    RuntimeOptions options;
    options.workers = 2;
    options.memory = GiB;
    options.scratch = directory_.path();
    return options;
  }()};
};

TEST_F(OverlapTest, OfOneTaskAreRefused) {
  const Array x = open(0, 1000);
  for (const auto& both : {std::pair(write(part(x, 0, 600)), write(part(x, 400, 600))),
                           std::pair(read(part(x, 0, 600)), write(part(x, 100, 100))),
                           std::pair(update(part(x, 100, 100)), read(part(x, 0, 600)))})
    EXPECT_THROW(run([&](Graph& graph) { graph.add(task({both.first, both.second})); }), ShapeError);
  EXPECT_NO_THROW(run([&](Graph& graph) { graph.add(task({read(part(x, 0, 600)), read(part(x, 400, 600))})); }));
  EXPECT_NO_THROW(run([&](Graph& graph) { graph.add(task({read(part(x, 0, 400)), write(part(x, 400, 600))})); }));
}

/// Adds a task that lasts until the second one has been added or refused.
void held_while(Graph& graph, TaskSpec first, TaskSpec second) {
  std::promise<void> added;
  first.body = [until = std::make_shared<std::future<void>>(added.get_future())](auto) { until->wait(); };
  graph.add(std::move(first));
  try {
    graph.add(std::move(second));
  } catch (...) {
    added.set_value();
    throw;
  }
  added.set_value();
  graph.barrier();
}

TEST_F(OverlapTest, OfTwoArraysOfOneFileAreRefused) {
  const Array left = open(0, 600), right = open(400, 600), apart = open(600, 400);
  const auto both = [&](Access a, Access b) {
    run([&](Graph& graph) { held_while(graph, task({std::move(a)}), task({std::move(b)})); });
  };
  EXPECT_THROW(both(update(all(left)), update(all(right))), ShapeError);
  EXPECT_THROW(both(update(all(left)), read(all(right))), ShapeError);
  EXPECT_THROW(both(read(all(left)), write(all(right))), ShapeError);
  EXPECT_NO_THROW(both(read(all(left)), read(all(right))));
  EXPECT_NO_THROW(both(update(all(left)), update(all(apart))));
  EXPECT_NO_THROW(both(update(part(left, 0, 400)), update(all(right))));
  try {
    both(update(all(left)), update(all(right)));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
  }
}

TEST_F(OverlapTest, ColumnsOfOneMatrixAreApart) {
  const Array left = open(0, 4, 10, 100), right = open(4, 6, 10, 99), crossing = open(3, 4, 10, 99);
  const auto both = [&](const Array& a, const Array& b) {
    run([&](Graph& graph) { held_while(graph, task({update(all(a))}), task({update(all(b))})); });
  };
  EXPECT_NO_THROW(both(left, right));
  EXPECT_THROW(both(left, crossing), ShapeError);
}

TEST_F(OverlapTest, TwoHandlesOfOneArrayAreRefused) {
  const std::string path = directory_ / "a.zarr";
  create_zarr_array(path, {64, 64}, Dtype::float64, {{32, 32}});
  const Array one = open_zarr_array(path, true), two = open_zarr_array(path);
  const Box box{{0, 32}, {32, 32}}, other{{32, 0}, {32, 32}};
  const auto both = [&](const Box& a, const Box& b) {
    run([&](Graph& graph) { held_while(graph, task({write({one, a})}), task({read({two, b})})); });
  };
  EXPECT_THROW(both(box, box), ShapeError);
  EXPECT_NO_THROW(both(box, other));
}

TEST_F(OverlapTest, WhatIsKeptOfABoxIsNotOldAfterAnotherWasWritten) {
  const Array x = open(0, 1000), right = open(400, 600);
  for (const Region& changed : {part(x, 400, 600), all(right)}) {
    double before = -1, after = -1;
    run([&](Graph& graph) {
      const auto look = [&](double& found) {
        graph.add(task({read(part(x, 0, 600))},
                       [&found](std::span<const Tile> tiles) { found = tiles[0].as<const double>()[500]; }));
        graph.drain();
      };
      look(before);
      graph.add(task({update(changed)}, [&](std::span<const Tile> tiles) { tiles[0].as<double>()[100] += 1; }));
      graph.drain();
      look(after);
    });
    EXPECT_EQ(after, before + 1);
  }
}

TEST_F(OverlapTest, ARefusedTaskLeavesTheGraphAsItWas) {
  const Array x = open(0, 1000);
  int ran = 0;
  run([&](Graph& graph) {
    EXPECT_THROW(graph.add(task({read(part(x, 0, 600)), write(part(x, 400, 600))})), ShapeError);
    graph.add(task({update(part(x, 0, 500))}, [&](auto) { ++ran; }));
  });
  EXPECT_EQ(ran, 1);
}

TEST_F(OverlapTest, ARunInsideARunOfTheSameRuntimeIsRefused) {
  const Array x = open(0, 1000);
  const auto nothing = [](Graph&) {};
  EXPECT_THROW(run([&](Graph& graph) { graph.add(task({update(all(x))}, [&](auto) { run(nothing); })); }), Error);
  EXPECT_THROW(run([&](Graph&) { run(nothing); }), Error);
  Runtime own{runtime_.options()};
  int ran = 0;
  run([&](Graph& graph) { graph.add(task({update(all(x))}, [&](auto) { own.run([&](Graph&) { ++ran; }); })); });
  EXPECT_EQ(ran, 1);
  const auto through = [&](Graph& inner) { inner.add(task({}, [&](auto) { run(nothing); })); };
  EXPECT_THROW(run([&](Graph& graph) { graph.add(task({update(all(x))}, [&](auto) { own.run(through); })); }), Error);
  EXPECT_NO_THROW(run(nothing));
}

}  // namespace
}  // namespace flagstone
