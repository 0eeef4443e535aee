// A process that dies at a save, and its successor: what is loaded, what is computed, what a save holds.
#include "flagstone/runtime/resume/stages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

struct Killed {};

struct Pair {
  std::vector<double> values;
  int steps = 0;
};
void list_parts(StateParts& parts, Pair& pair) {
  parts.values("values", pair.values);
  parts.value("steps", pair.steps);
}

/// A run whose every offer is taken, and which dies after save number `kill`.
void run(const std::string& notes, int kill, const std::function<void(Graph&, std::shared_ptr<Checkpoint>)>& build) {
  RuntimeOptions options;
  options.workers = 2;
  options.scratch = std::filesystem::temp_directory_path();
  const auto ring = make_ring();
  const auto dies = [kill](int number) {
    if (number == kill) throw Killed();
  };
  Executor(*ring, options, {options.scratch, "test", {}}, 16 * MiB, {}).run([&](Graph& graph) {
    build(graph, std::make_shared<Checkpoint>(notes, 0, dies));
  });
}

/// Two stages inside a third: G = 1, 2, 3, of that a pair after three steps of a state; then another state.
struct Operation {
  int grams = 0, steps = 0, pairs = 0;

  double build(Graph& graph, std::shared_ptr<Checkpoint> checkpoint) {
    Stages stages(graph, std::move(checkpoint));
    stages.begun_with("method", std::string("three steps"));
    const auto gram = [&] {
      ++grams;
      const Array g = graph.allocate({3}, Dtype::float64);
      for (int i = 0; i < 3; ++i) reinterpret_cast<double*>(g.store().memory())[i] = i + 1;
      return g;
    };
    const auto pair = [&] {
      ++pairs;
      const Array g = stages.once("gram", gram, 0.25);
      Pair made;
      const auto kept = stages.keep("iteration", [&](StateParts& parts) { list_parts(parts, made); });
      for (; made.steps < 3; stages.offer(0.25 + 0.1 * made.steps)) {
        ++steps, ++made.steps;
        made.values.push_back(made.steps * reinterpret_cast<const double*>(g.store().memory())[2]);
      }
      return made;
    };
    const Pair found = stages.once("pair", pair, [](const Pair& p) { return p.steps / 4.0; });
    return found.values[0] + 10 * found.values[1] + 100 * found.values[2];
  }
};

TEST(Stages, ASuccessorLoadsWhatWasSaved) {
  // Saves: 1 after gram, 2 to 4 after the steps, 5 after the pair.
  for (int kill = 1; kill <= 5; ++kill) {
    const TemporaryDirectory place;
    Operation dead, next;
    const auto first = [&](Graph& graph, std::shared_ptr<Checkpoint> checkpoint) {
      dead.build(graph, std::move(checkpoint));
    };
    EXPECT_THROW(run(place.path(), kill, first), Killed);
    const Checkpoint left(place.path(), 0);
    EXPECT_EQ(left.saves(), kill);
    EXPECT_EQ(left.has("gram"), kill < 5);  // a stage that is done takes the place of what is inside
    EXPECT_EQ(left.has_state("iteration"), kill > 1 && kill < 5);
    EXPECT_EQ(Stages::begun_before<std::string>(&left, "method"), "three steps");
    EXPECT_NEAR(left.done(), kill == 1 ? 0.25 : kill < 5 ? 0.25 + 0.1 * (kill - 1) : 0.75, 1e-12);
    double result = 0;
    run(place.path(), 0, [&](Graph& graph, std::shared_ptr<Checkpoint> checkpoint) {
      result = next.build(graph, std::move(checkpoint));
    });
    EXPECT_EQ(result, 3 + 60 + 900);
    EXPECT_EQ(next.grams, 0);
    EXPECT_EQ(next.pairs, kill == 5 ? 0 : 1);
    EXPECT_EQ(next.steps, std::max(0, kill == 5 ? 0 : 4 - kill));
  }
}

TEST(Stages, NothingIsSavedInPlansAndWithoutACheckpoint) {
  const TemporaryDirectory place;
  RuntimeOptions options;
  options.scratch = place.path();
  Operation planned, alone;
  Simulator simulator(options, {}, 16 * MiB, 16 * MiB);
  simulator.run([&](Graph& graph) {
    Stages stages(graph, std::make_shared<Checkpoint>(place.path(), 0));
    EXPECT_FALSE(stages.saving());
    EXPECT_EQ(stages
                  .once(
                      "answer",
                      [] {
                        return Pair{{1.0}, 1};
                      },
                      0.5)
                  .steps,
              1);
    stages.offer(0.5);
  });
  EXPECT_FALSE(std::filesystem::exists(place / "state"));
  run(place.path(), 0,
      [&](Graph& graph, const std::shared_ptr<Checkpoint>&) { EXPECT_EQ(alone.build(graph, nullptr), 3 + 60 + 900); });
  EXPECT_FALSE(std::filesystem::exists(place / "state"));
}

/// Tiles of two arrays and what the operation was begun with lie in one save; other beginnings take no tiles over.
TEST(Stages, TilesBelongToTheSameSave) {
  const TemporaryDirectory place;
  const auto build = [&](const std::string& scheme, bool expected) {
    return [=](Graph& graph, std::shared_ptr<Checkpoint> checkpoint) {
      Stages stages(graph, std::move(checkpoint));
      const bool same = stages.begun_with("scheme", scheme);
      EXPECT_EQ(same, expected);
      const Array between = stages.array_between("between", {8}, Dtype::float64, {4}, {}, !same);
      FinishedTiles tiles = stages.tiles(between, {4}, "between");
      EXPECT_EQ(tiles.holds({{0}, {4}}), expected);
      EXPECT_FALSE(tiles.holds({{4}, {4}}));
      TaskSpec task;
      task.name = "ones";
      task.accesses = {write({between, {{0}, {4}}})};
      task.body = [](std::span<const Tile> t) { std::fill_n(t[0].as<double>(), 4, 1.0); };
      if (!tiles.holds({{0}, {4}})) graph.add(std::move(task));
      tiles.finish({{0}, {4}});
      tiles.offer();
    };
  };
  EXPECT_THROW(run(place.path(), 1, build("a", false)), Killed);
  EXPECT_EQ(Checkpoint(place.path(), 0).done(), 0.5);
  EXPECT_THROW(run(place.path(), 2, build("a", true)), Killed);
  run(place.path(), 0, build("b", false));
}

}  // namespace
}  // namespace flagstone
