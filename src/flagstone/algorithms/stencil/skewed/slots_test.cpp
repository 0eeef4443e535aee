#include "flagstone/algorithms/stencil/skewed/slots.hpp"

#include <gtest/gtest.h>

#include "flagstone/algorithms/stencil/field/field_stage.hpp"

namespace flagstone::stencil {
namespace {

std::shared_ptr<const FieldStage> stage(std::vector<std::pair<std::size_t, int>> replaced) {
  return expression_stage(kernel::Program{}, std::move(replaced), Dtype::float32, {{false, 0, {0, 1, 0}}});
}

/// Field 1 is replaced by the first stage, field 0 by the second.
Problem staggered() {
  Problem problem;
  problem.from.resize(2);
  problem.stages = {stage({{1, 0}}), stage({{0, 0}})};
  return problem;
}

TEST(Slots, OfOneFieldStepsTakeTurnsInTwo) {
  Problem problem;
  problem.from.resize(2);  // of order 2
  const Slots slots(problem);
  EXPECT_EQ(slots.number(), 2U);
  EXPECT_EQ(slots.after(0, 3), 1U);
  EXPECT_EQ(slots.begins(1), 1U);
  EXPECT_EQ(slots.result(0, 3), 1U);
  EXPECT_EQ(slots.result(1, 3), 0U);
  EXPECT_EQ(slots.of_loop(0, 3), 1U);
  EXPECT_EQ(slots.last_read(1, 3), 2);  // the result: step 1 lay there, step 2 reads it
  EXPECT_EQ(slots.last_read(0, 3), 3);
  problem.from.resize(1);
  EXPECT_FALSE(Slots(problem).begins(1));
}

TEST(Slots, OfSeveralFieldsEachHasItsOwn) {
  const Slots slots(staggered());
  EXPECT_EQ(slots.number(), 4U);
  EXPECT_EQ(slots.begins(2), 1U);
  EXPECT_EQ(slots.after(1, 1), 3U);
  EXPECT_EQ(slots.after(1, 2), 3U);
  EXPECT_EQ(slots.after(0, 1), 0U);
  EXPECT_EQ(slots.result(1, 4), 2U);
  EXPECT_EQ(slots.last_read(2, 4), 4);  // its last version is of level 3
  EXPECT_EQ(slots.last_read(0, 4), 3);  // level 4 made what is there
  EXPECT_EQ(slots.last_read(1, 4), 4);
}

TEST(Slots, WhatIsComparedWithTheStepBeforeHasOneMore) {
  Problem problem = staggered();
  problem.sources.push_back({{0, 0, 0}, {}, 1});  // two versions a step
  EXPECT_EQ(Slots(problem).number(), 4U);
  problem.reductions.assign(2, std::make_shared<StepReductions>(Dtype::float32, 4, 1, kernel::Axes{1, 1, 1},
                                                                ReductionWish{.kinds = {FoldKind::change}}));
  const Slots slots(problem);
  EXPECT_EQ(slots.number(), 5U);
  EXPECT_EQ(slots.after(1, 0), 2U);
  EXPECT_EQ(slots.after(1, 1), 3U);
  EXPECT_EQ(slots.after(1, 2), 4U);
  EXPECT_EQ(slots.after(1, 4), 3U);
}

}  // namespace
}  // namespace flagstone::stencil
