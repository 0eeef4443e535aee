#include "flagstone/kernel/labels/beam.hpp"

#include <algorithm>

namespace flagstone::kernel {

void enter(Reached* beam, Index width, Reached one) {
  const auto before = [](const Reached& a, const Reached& b) {
    return b.node < 0 || a.score > b.score || (a.score == b.score && a.node < b.node);
  };
  if (!before(one, beam[width - 1])) return;
  Index at = width - 1;
  for (; at > 0 && before(one, beam[at - 1]); --at) beam[at] = beam[at - 1];
  beam[at] = one;
}

Index LabelSums::take(Index k, std::int32_t* labels, float* scores) {
  const auto before = [this](std::int32_t a, std::int32_t b) {
    return sums_[a] > sums_[b] || (sums_[a] == sums_[b] && a < b);
  };
  const auto found = std::min<Index>(k, static_cast<Index>(touched_.size()));
  std::partial_sort(touched_.begin(), touched_.begin() + found, touched_.end(), before);
  for (Index j = 0; j < k; ++j) {
    labels[j] = j < found ? touched_[static_cast<std::size_t>(j)] : -1;
    scores[j] = j < found ? sums_[labels[j]] : untouched;
  }
  for (const std::int32_t label : touched_) sums_[label] = untouched;
  touched_.clear();
  return found;
}

}  // namespace flagstone::kernel
