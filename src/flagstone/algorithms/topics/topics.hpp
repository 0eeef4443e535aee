#pragma once
// Topics of documents that are larger than memory: ISLE's five steps, then passes of EM.
#include <memory>

#include "flagstone/algorithms/topics/catchwords.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::topics {

struct TopicsOptions {
  IsleOptions isle;
  Index passes = 5;
  std::shared_ptr<Checkpoint> checkpoint;  // where finished steps are saved
};

struct TopicsResult {
  std::vector<double> thresholds, singular_values, shares, likelihood;
  std::vector<std::uint8_t> sampled;       // empty: all
  std::vector<std::int32_t> catchwords;    // V
  std::vector<float> isle, topics, edges;  // k x V, topics one after the other
  std::vector<std::int32_t> pairs;
  std::vector<std::int64_t> together;
  Index documents = 0;         // that are not empty
  double average = 0;          // their length
  Index passes = 0;            // reads of X; in a plan as expected
  std::vector<Placed> placed;  // where operands of steps lay
};

/// ShapeError: k or another option is out of range.
void check_topics(const sparse::CsrOperand& x, const TopicsOptions& options);
/// clusters (D int32): of each document its cluster, -1 where it took no part.
void topics(Graph& graph, const sparse::CsrOperand& x, const TopicsOptions& options, const Array& clusters,
            TopicsResult& result);

}  // namespace flagstone::topics
