#include "flagstone/kernel/topics/document.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "flagstone/kernel/reference/topics.hpp"

namespace flagstone::kernel {
namespace {

class DocumentsOfTopics : public testing::TestWithParam<Index> {};

TEST_P(DocumentsOfTopics, StepAsTheTwin) {
  const Index k = GetParam(), vocabulary = 90, width = topics_width(k);
  std::mt19937 random(static_cast<unsigned>(k));
  std::uniform_real_distribution<float> uniform(0.01F, 1.0F);
  std::vector<float> topics(static_cast<std::size_t>(vocabulary * width), 0.0F);
  reference::DocumentTwin twin;
  twin.topics.assign(static_cast<std::size_t>(vocabulary), std::vector<double>(static_cast<std::size_t>(k)));
  for (Index w = 0; w < vocabulary; ++w)
    for (Index t = 0; t < k; ++t)
      twin.topics[static_cast<std::size_t>(w)][static_cast<std::size_t>(t)] =
          topics[static_cast<std::size_t>(w * width + t)] = uniform(random);
  std::vector<Index> pointers{0};
  std::vector<float> values;
  std::vector<std::uint16_t> columns;
  for (Index w = 0; w < vocabulary; w += 1 + w % 3) {
    values.push_back(w % 5 == 0 ? 0.0F : static_cast<float>(1 + w % 4));
    columns.push_back(static_cast<std::uint16_t>(w));
    if (values.back() > 0) twin.words.push_back(w), twin.counts.push_back(static_cast<double>(values.back()));
  }
  pointers.push_back(static_cast<Index>(values.size()));
  twin.weights.assign(static_cast<std::size_t>(k), 1.0 / static_cast<double>(k));
  std::vector<std::byte> memory(Document::bytes(k, vocabulary) + 64);
  void* start = memory.data();
  std::size_t room = memory.size();
  Document document(static_cast<std::byte*>(std::align(64, room - 64, start, room)), k, vocabulary, topics.data());
  const CsrRows rows{1,
                     vocabulary,
                     pointers.data(),
                     reinterpret_cast<const std::byte*>(values.data()),
                     reinterpret_cast<const std::byte*>(columns.data()),
                     Dtype::uint16};
  ASSERT_TRUE(document.load(rows, 0));
  for (int step = 0; step < 10; ++step) {
    document.step(0.02), twin.step(0.02);
    for (Index t = 0; t < k; ++t)
      EXPECT_NEAR(document.weights()[t], twin.weights[static_cast<std::size_t>(t)], 1e-5) << "step " << step;
  }
  double counted = 0;
  EXPECT_NEAR(document.likelihood(counted) / twin.likelihood(), 1, 1e-5);
  double all = 0;
  for (const double count : twin.counts) all += count;
  EXPECT_EQ(counted, all);
  std::vector<double> sums(topics.size(), 0.0);
  document.add(sums.data());
  for (std::size_t i = 0; i < twin.words.size(); ++i)
    for (Index t = 0; t < k; ++t) {
      const double expected = twin.counts[i] / twin.product(twin.words[i]) * twin.weights[static_cast<std::size_t>(t)];
      EXPECT_NEAR(sums[static_cast<std::size_t>(twin.words[i] * width + t)], expected, 1e-4 * (1 + expected));
    }
  document.load(rows, 0);
  document.infer(1e-4, 2000);
  EXPECT_LE(document.certificate(), 1.1e-4);
}

INSTANTIATE_TEST_SUITE_P(Widths, DocumentsOfTopics, testing::Values(1, 3, 16, 17, 50));

TEST(DocumentsOfTopicsAlone, AnEmptyOneIsEven) {
  const std::vector<float> topics(16, 1.0F);
  std::vector<std::byte> memory(Document::bytes(2, 1) + 64);
  void* start = memory.data();
  std::size_t room = memory.size();
  Document document(static_cast<std::byte*>(std::align(64, room - 64, start, room)), 2, 1, topics.data());
  EXPECT_FALSE(document.load(0));
  EXPECT_EQ(document.weights()[0], 0.5F);
  EXPECT_EQ(document.certificate(), 0);
}

}  // namespace
}  // namespace flagstone::kernel
