#pragma once
// The best nodes of a level, and the best labels of a forest.
#include <cstdint>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// A node of a beam; -1: none.
struct Reached {
  std::int32_t node = -1;
  float score = 0;
};

/// How the score of a child follows from its parent's: discount · s - max(0, 1 - z)^power.
struct Descent {
  float discount = 1;
  int power = 2;
  float child(float parent, float z) const {
    const float miss = z < 1 ? 1 - z : 0;
    return discount * parent - (power == 2 ? miss * miss : miss * miss * miss);
  }
};

/// Enters a node where it is among the `width` best: larger scores first, then lower numbers. Whatever the order in
/// which nodes come, the same ones stay.
void enter(Reached* beam, Index width, Reached one);

/// Scores of labels, added up and given away best first.
class LabelSums {
 public:
  /// `sums`: one a label, all 0 between two points.
  LabelSums(float* sums, std::vector<std::int32_t>& touched) : sums_(sums), touched_(touched) {}
  /// `score` > 0.
  void add(std::int32_t label, float score) {
    if (sums_[label] == 0) touched_.push_back(label);
    sums_[label] += score;
  }
  /// labels, scores: the k best, divided; then -1 and 0. Ties by number.
  void take(Index k, float divisor, std::int32_t* labels, float* scores);

 private:
  float* sums_;
  std::vector<std::int32_t>& touched_;
};

}  // namespace flagstone::kernel
