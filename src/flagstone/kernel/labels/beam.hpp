#pragma once
// The best nodes of a level, and the best labels of a forest.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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

/// Scores of labels, each log Σ exp s over those that it is given, so that none is lost however far apart they are;
/// given away best first.
class LabelSums {
 public:
  static constexpr float untouched = -std::numeric_limits<float>::infinity();
  /// `sums`: one a label, all `untouched` between two points.
  LabelSums(float* sums, std::vector<std::int32_t>& touched) : sums_(sums), touched_(touched) {}
  void add(std::int32_t label, float score) {
    const float own = std::max(score, -std::numeric_limits<float>::max());
    float& sum = sums_[label];
    if (sum == untouched)
      touched_.push_back(label), sum = own;
    else
      sum = std::max(sum, own) + std::log1p(std::exp(-std::abs(sum - own)));
  }
  /// labels, scores: the k best sums; then -1 and `untouched`. Ties by number. Returns how many there are.
  Index take(Index k, std::int32_t* labels, float* scores);

 private:
  float* sums_;
  std::vector<std::int32_t>& touched_;
};

}  // namespace flagstone::kernel
