#include <gtest/gtest.h>

#include <random>

#include "flagstone/kernel/labels/beam.hpp"
#include "flagstone/kernel/labels/chunk.hpp"
#include "flagstone/kernel/labels/halves.hpp"
#include "flagstone/kernel/labels/svm.hpp"
#include "flagstone/kernel/reference/labels.hpp"

namespace flagstone::kernel {
namespace {

/// Sparse rows, and the same dense.
struct Rows {
  Rows(Index n, Index features, double share, unsigned seed) : dense(static_cast<std::size_t>(n)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (auto& row : dense) {
      row.resize(static_cast<std::size_t>(features));
      for (Index f = 0; f < features; ++f) {
        if (std::abs(uniform(random)) > share) continue;
        const auto value = static_cast<float>(uniform(random));
        columns.push_back(static_cast<std::uint32_t>(f)), values.push_back(value);
        row[static_cast<std::size_t>(f)] = static_cast<double>(value);
      }
      pointers.push_back(static_cast<Index>(columns.size()));
    }
  }
  SparsePoints points() const {
    return {static_cast<Index>(dense.size()), pointers.data(), columns.data(), values.data()};
  }
  std::vector<Index> pointers{0};
  std::vector<std::uint32_t> columns;
  std::vector<float> values;
  std::vector<std::vector<double>> dense;
};

TEST(Svm, ReachesTheLeastObjective) {
  for (const Index n : {0, 1, 2, 17, 90}) {
    const Rows rows(n, 6, 0.5, static_cast<unsigned>(n));
    std::vector<bool> positive;
    std::vector<std::uint8_t> flags;
    for (Index i = 0; i < n; ++i) {
      positive.push_back(i % 3 == 0);
      flags.push_back(positive.back() ? 1 : 0);
    }
    for (const double cost : {0.1, 1.0, 10.0}) {
      std::vector<double> w(7), alpha(static_cast<std::size_t>(n));
      std::vector<std::byte> memory(svm_bytes(n) + 64);
      train_svm(rows.points(), 6, reinterpret_cast<const bool*>(flags.data()), {cost, 1e-4, 2000, 5}, w.data(),
                alpha.data(), memory.data());
      const double least = reference::least_objective(rows.dense, positive, cost);
      EXPECT_LE(reference::svm_objective(rows.dense, positive, cost, w), 1.001 * least + 1e-9) << n << " " << cost;
    }
  }
}

TEST(Svm, GoesOnWhereItWasLeft) {
  const Rows rows(40, 5, 0.6, 3);
  std::vector<std::uint8_t> flags(40);
  for (std::size_t i = 0; i < 40; ++i) flags[i] = i % 2;
  std::vector<double> w(6), alpha(40);
  std::vector<std::byte> memory(svm_bytes(40));
  double spread = 1, before = 1e9;
  for (int turn = 0; turn < 200 && spread > 1e-6; ++turn) {
    before = spread;
    train_svm(rows.points(), 5, reinterpret_cast<const bool*>(flags.data()),
              {1, 0, 1, static_cast<std::uint64_t>(turn), &spread}, w.data(), alpha.data(), memory.data());
  }
  EXPECT_LE(spread, 1e-6);
  EXPECT_GT(before, 0);
}

TEST(Halves, AreBalancedAndFindWhatIsApart) {
  for (const Index n : {1, 2, 3, 8, 31}) {
    Rows rows(n, 4, 0, 1);
    rows.columns.clear(), rows.values.clear(), rows.pointers = {0};
    for (Index i = 0; i < n; ++i) {  // two directions, the second one of the last ⌊n / 2⌋
      rows.columns.push_back(i < (n + 1) / 2 ? 0 : 2), rows.values.push_back(1);
      rows.pointers.push_back(i + 1);
    }
    std::vector<std::int32_t> labels(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) labels[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i * 7) % n);
    if (n == 8 || n == 31) {  // 7 and 8, 7 and 31 have no common divisor: all labels once
      std::vector<double> left(4), right(4);
      split_in_halves(rows.points(), 4, labels.data(), n, 9, left.data(), right.data());
      std::vector<std::int32_t> sorted = labels;
      std::sort(sorted.begin(), sorted.end());
      for (Index i = 0; i < n; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
      Index of_first = 0;  // among those on the left: all of them, or but the odd one none
      for (Index i = 0; i < (n + 1) / 2; ++i) of_first += labels[static_cast<std::size_t>(i)] < (n + 1) / 2 ? 1 : 0;
      EXPECT_TRUE(of_first == (n + 1) / 2 || of_first == n % 2) << of_first;
    }
  }
}

TEST(Halves, TiesGoToTheLowerPlace) {
  const std::vector<double> scores{1, 1, 1, 1, 1};
  std::vector<std::uint8_t> left(5);
  std::vector<Index> order;
  larger_half(scores.data(), 5, left.data(), order);
  EXPECT_EQ(left, (std::vector<std::uint8_t>{1, 1, 1, 0, 0}));
}

class Chunks : public ::testing::TestWithParam<bool> {};

TEST_P(Chunks, ProductsAreThoseOfDenseWeights) {
  const bool small = GetParam();
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (const Index features : {1, 9, 70'000, 200'000}) {
    const Index locals = std::min<Index>(features, 12), children = 5, bias = features;
    std::vector<std::uint32_t> places;
    for (Index l = 0; l < locals; ++l) places.push_back(static_cast<std::uint32_t>(l * (features / locals)));
    places.push_back(static_cast<std::uint32_t>(bias));
    const Index all = locals + 1;
    std::vector<double> w(static_cast<std::size_t>(all * children));
    for (double& one : w) one = normal(random);
    const Index rows = most_rows(all, features + 1), most = all * children;
    std::vector<std::uint16_t> steps(static_cast<std::size_t>(rows));
    std::vector<std::uint8_t> counts(static_cast<std::size_t>(rows)), child(static_cast<std::size_t>(most));
    std::vector<std::byte> weights(static_cast<std::size_t>(4 * most));
    std::vector<float> scales(static_cast<std::size_t>(children));
    ChunkTarget to{steps.data(), counts.data(), child.data(), weights.data(), small ? scales.data() : nullptr};
    encode_chunk(places.data(), all, w.data(), children, 0.3, to);
    ASSERT_LE(to.rows, rows);
    const ChunkView view{
        to.rows, children, steps.data(), counts.data(), child.data(), weights.data(), small ? scales.data() : nullptr};

    std::vector<std::vector<float>> dense(static_cast<std::size_t>(children),
                                          std::vector<float>(static_cast<std::size_t>(features + 1)));
    for (Index c = 0; c < children; ++c)
      for (Index l = 0; l < all; ++l) {
        const double weight = w[static_cast<std::size_t>(c * all + l)];
        if (!(std::abs(weight) > 0.3)) continue;
        const double scale = small ? static_cast<double>(scales[static_cast<std::size_t>(c)]) : 1;
        const double kept = small ? static_cast<double>(std::lround(weight / scale)) * scale : weight;
        dense[static_cast<std::size_t>(c)][places[static_cast<std::size_t>(l)]] = static_cast<float>(kept);
      }
    std::vector<float> x(static_cast<std::size_t>(features));
    std::vector<std::uint32_t> columns;
    std::vector<float> values;
    std::vector<Index> order;
    for (Index l = locals - 1; l >= 0; l -= 2) {
      const std::uint32_t f = places[static_cast<std::size_t>(l)];
      columns.push_back(f), values.push_back(static_cast<float>(normal(random)));
      x[f] = 0.5F * values.back(), order.push_back(f);
    }
    std::vector<std::uint32_t> table(static_cast<std::size_t>(features + 1)), ends(static_cast<std::size_t>(rows + 1));
    ChunkTable at(table.data(), ends.data());
    at.load(view);
    std::vector<float> z(static_cast<std::size_t>(children));
    at.products(columns.data(), values.data(), static_cast<Index>(columns.size()), 0.5F, bias, z.data());
    const auto expected = reference::child_products(dense, x, order);
    for (Index c = 0; c < children; ++c)  // eps times the terms, of at most 10 each
      EXPECT_NEAR(z[static_cast<std::size_t>(c)], expected[static_cast<std::size_t>(c)], small ? 2e-5 : 0) << features;
    at.clear();
    EXPECT_TRUE(std::all_of(table.begin(), table.end(), [](std::uint32_t one) { return one == 0; }));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Chunks, ::testing::Bool());

TEST_P(Chunks, EntriesAreEncodedAsColumnsAre) {
  const bool small = GetParam();
  const Index children = 7, locals = 40, features = 200'000;
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<std::uint32_t> places;
  for (Index l = 0; l < locals; ++l) places.push_back(static_cast<std::uint32_t>(l < 20 ? 3 * l : 5000 * l));
  std::vector<double> w(static_cast<std::size_t>(locals * children));
  for (double& one : w) one = random() % 3 == 0 ? 0 : static_cast<double>(static_cast<float>(normal(random)));
  std::vector<std::uint64_t> entries;
  std::vector<float> values;
  for (Index l = 0; l < locals; ++l)
    for (Index c = 0; c < children; ++c) {
      entries.push_back(places[static_cast<std::size_t>(l)] * child_places + static_cast<std::uint64_t>(c));
      values.push_back(static_cast<float>(w[static_cast<std::size_t>(c * locals + l)]));
    }
  struct Encoded {
    explicit Encoded(bool small) : scales(small ? 7 : 0) {}
    std::vector<std::uint16_t> steps = std::vector<std::uint16_t>(100);
    std::vector<std::uint8_t> counts = std::vector<std::uint8_t>(100), child = std::vector<std::uint8_t>(300);
    std::vector<std::byte> weights = std::vector<std::byte>(1200);
    std::vector<float> scales;
    ChunkTarget target() {
      return {steps.data(), counts.data(), child.data(), weights.data(), scales.empty() ? nullptr : scales.data()};
    }
  } one(small), other(small);
  ChunkTarget columns = one.target(), listed = other.target();
  encode_chunk(places.data(), locals, w.data(), children, 0, columns);
  encode_entries(entries.data(), values.data(), static_cast<Index>(entries.size()), children, listed);
  EXPECT_EQ(listed.rows, columns.rows);
  EXPECT_EQ(listed.entries, columns.entries);
  EXPECT_LE(listed.rows, most_rows(static_cast<Index>(entries.size()), features));
  EXPECT_EQ(other.steps, one.steps);
  EXPECT_EQ(other.counts, one.counts);
  EXPECT_EQ(other.child, one.child);
  EXPECT_EQ(other.weights, one.weights);
  EXPECT_EQ(other.scales, one.scales);
}

TEST(Beam, TheSameStayInAnyOrder) {
  std::mt19937 random(2);
  std::vector<Reached> nodes;
  for (std::int32_t i = 0; i < 40; ++i) nodes.push_back({i, -static_cast<float>(random() % 6)});
  std::vector<Reached> expected = nodes;
  std::stable_sort(expected.begin(), expected.end(),
                   [](const Reached& a, const Reached& b) { return a.score > b.score; });
  for (int turn = 0; turn < 5; ++turn) {
    std::shuffle(nodes.begin(), nodes.end(), random);
    std::vector<Reached> beam(7);
    for (const Reached& one : nodes) enter(beam.data(), 7, one);
    for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(beam[i].node, expected[i].node);
  }
  std::vector<Reached> few(3);
  enter(few.data(), 3, {8, -1});
  EXPECT_EQ(few[0].node, 8);
  EXPECT_EQ(few[1].node, -1);
}

TEST(LabelSums, AreThoseOfAMap) {
  std::mt19937 random(4);
  std::vector<float> sums(50, LabelSums::untouched);
  std::vector<std::int32_t> touched;
  LabelSums best(sums.data(), touched);
  for (const int entries : {0, 2, 200}) {
    std::map<std::int32_t, double> shares;  // Σ exp s, in range of float64 alone
    for (int e = 0; e < entries; ++e) {
      const auto label = static_cast<std::int32_t>(random() % 50);
      const float score = 50 - 100 * static_cast<float>(random() % 4) - static_cast<float>(random() % 2048) * 0x1p-10F;
      best.add(label, score), shares[label] += std::exp(static_cast<double>(score));
    }
    std::map<std::int32_t, float> expected;
    for (const auto& [label, share] : shares) expected[label] = static_cast<float>(std::log(share));
    std::vector<std::int32_t> labels(40);
    std::vector<float> scores(40);
    const Index found = best.take(40, labels.data(), scores.data());
    const auto wanted = reference::best_sums(expected, 40);
    EXPECT_EQ(found, static_cast<Index>(wanted.size()));
    for (std::size_t j = 0; j < 40; ++j) {
      if (j >= wanted.size()) {
        EXPECT_EQ(labels[j], -1);
        EXPECT_EQ(scores[j], LabelSums::untouched);
        continue;
      }
      EXPECT_NEAR(scores[j], wanted[j].second, 12 * 0x1p-16);  // half a unit of numbers below 512, a dozen times
      EXPECT_NEAR(scores[j], expected[labels[j]], 12 * 0x1p-16);
    }
  }
}

}  // namespace
}  // namespace flagstone::kernel
