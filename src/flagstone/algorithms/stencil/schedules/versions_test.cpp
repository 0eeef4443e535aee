#include "flagstone/algorithms/stencil/schedules/versions.hpp"

#include <gtest/gtest.h>

#include "flagstone/algorithms/stencil/field/field_stage.hpp"

namespace flagstone::stencil {
namespace {

/// A stage that replaces some fields and reads one so far away along axis 1.
std::shared_ptr<const FieldStage> stage(std::vector<std::pair<std::size_t, int>> replaced, Index reach) {
  return expression_stage(kernel::Program{}, std::move(replaced), Dtype::float32, {{false, 0, {0, reach, 0}}});
}

Problem staggered() {
  Problem problem;
  problem.from.resize(3);
  problem.stages = {stage({{1, 0}}, 1), stage({{0, 0}}, -2)};  // of field 2 nobody makes another
  return problem;
}

TEST(Versions, OfOneFieldEachLevelIsAStep) {
  Problem problem;
  problem.space.radius = {1, 2, 3};
  const Versions versions(problem);
  EXPECT_EQ(versions.stages(), 1);
  EXPECT_EQ(versions.age(), 1);
  EXPECT_EQ(versions.version(0, 5), 5);
  EXPECT_EQ(versions.radius(), (Axes{1, 2, 3}));
}

TEST(Versions, AReaderFindsTheLastStageThatReplacedAField) {
  const Versions versions(staggered());
  EXPECT_EQ(versions.radius(), (Axes{0, 2, 0}));
  EXPECT_EQ(versions.replaced(0), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(versions.replaced(3), (std::vector<std::size_t>{1}));
  EXPECT_EQ(versions.replaced(4), (std::vector<std::size_t>{0, 2}));  // field 2 is carried over
  EXPECT_EQ(versions.version(0, 3), 2);
  EXPECT_EQ(versions.version(1, 4), 3);
  EXPECT_EQ(versions.version(1, 0), 0);
}

TEST(Versions, WhatASourceChangesIsAVersionOfItsOwn) {
  Problem problem = staggered();
  problem.sources.push_back({{0, 0, 0}, {}, 1});
  const Versions versions(problem);
  EXPECT_EQ(versions.version(1, 3), 3);  // as later stages of the step read it
  EXPECT_EQ(versions.version(1, 4), 4);
  EXPECT_EQ(versions.place(4, 1), 1U);
}

}  // namespace
}  // namespace flagstone::stencil
