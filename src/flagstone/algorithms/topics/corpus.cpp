#include "flagstone/algorithms/topics/corpus.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "flagstone/algorithms/sparse/folds.hpp"
#include "flagstone/algorithms/topics/panel_pass.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::topics {
namespace {

/// Of each word that is looked at, how many documents have it how often, rounded.
struct CountFrequencies final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::count_frequencies;
  static constexpr const char* name = "count_frequencies";
  static constexpr double seconds = 3e-9;
  std::shared_ptr<const std::vector<Index>> bins;  // of each word its first bin, or -1
  Index first = 0, last = 0;                       // bins of this read
  int counted = -1;

  void rows(std::span<const Tile> tiles, std::byte*, Index, const kernel::CsrRows& step) const {
    auto* counts = at<std::int32_t>(tiles, counted);
    each_value<double>(step, [&](Index, Index word, double value) {
      const Index bin = (*bins)[static_cast<std::size_t>(word)];
      const double rounded = std::floor(value + 0.5);
      if (bin >= first && bin < last && rounded >= 1) ++counts[bin - first + static_cast<Index>(rounded) - 1];
    });
  }
};

const bool entered = host_kernels().enter(Kernel::count_frequencies, {Dtype::float64}, run_panel<CountFrequencies>);

/// ζ of a word whose rounded frequency f counts[f - 1] documents have.
double threshold_of(std::span<const std::int32_t> counts, Index rank, Index equal) {
  Index seen = 0, z = static_cast<Index>(counts.size());
  for (; z > 0; --z)
    if ((seen += counts[static_cast<std::size_t>(z - 1)]) >= rank) break;
  if (z == 0) return 1;  // fewer documents than the rank
  while (counts[static_cast<std::size_t>(z - 1)] >= equal) {
    Index next = z - 1;
    while (next > 0 && counts[static_cast<std::size_t>(next - 1)] == 0) --next;
    if (next == 0) return 1;
    z = next;
  }
  return static_cast<double>(z);
}

/// Refuses counts so small that thresholds, of 1 at least, leave no document anything.
void check_some(std::span<const double> greatest, double average) {
  if (std::any_of(greatest.begin(), greatest.end(), [](double a) { return std::floor(a + 0.5) >= 1; })) return;
  throw ShapeError("topics: counts of a document add up to " + std::to_string(average) +
                   " on average and no word comes to 1 when rounded; multiply them (X * 100).");
}

}  // namespace

Index rank_of(double share, Index documents, Index k) {
  return std::max<Index>(1,
                         static_cast<Index>(share * static_cast<double>(documents) / (2.0 * static_cast<double>(k))));
}

Array Corpus::measure(Graph& graph) const {
  const Array lengths = graph.allocate({rows(), 1}, Dtype::float64);
  const Array columns = graph.allocate({2, words()}, Dtype::float64);
  sparse::fold_several(graph, counts_, Dtype::float64,
                       {{sparse::Fold::sum, true, lengths}, {sparse::Fold::counts, false, columns}});
  graph.barrier();
  if (graph.planning()) return lengths;
  const auto *sums = elements<double>(columns), *length = elements<double>(lengths);
  for (Index w = 0; w < words(); ++w) {
    if (!std::isfinite(sums[w])) {
      const auto* bad = std::find_if(length, length + rows(), [](double sum) { return !std::isfinite(sum); });
      throw NumericalError("topics: X has NaN or Inf, in row " + std::to_string(bad - length) + " and in column " +
                           std::to_string(w) + " first; finite counts are needed, replace them.");
    }
    if (sums[words() + w] < 0)
      throw ShapeError("topics: word " + std::to_string(w) + " has the count " + std::to_string(sums[words() + w]) +
                       "; counts of 0 or more are needed.");
  }
  return lengths;
}

void Corpus::set_lengths(const Graph& graph, const Array& lengths) {
  lengths_ = lengths;
  documents_ = rows(), average_ = 1;
  if (graph.planning()) return;
  const auto* length = elements<double>(lengths);
  double all = 0;
  documents_ = 0;
  for (Index d = 0; d < rows(); ++d) documents_ += length[d] > 0, all += length[d];
  if (documents_ == 0) throw ShapeError("topics: all documents are empty; give one that has words.");
  average_ = all / static_cast<double>(documents_);
}

sparse::CsrOperand Corpus::seen(const Array& lengths, const Array& thresholds) const {
  sparse::CsrOperand made = counts_;
  sparse::Transform transform = counts_.transform ? *counts_.transform : sparse::Transform{};
  sparse::Transform::Step step{sparse::Transform::Step::Kind::frequencies, {average_}};
  step.lengths = lengths, step.thresholds = thresholds;
  transform.steps.push_back(std::move(step));
  made.transform = std::make_shared<const sparse::Transform>(std::move(transform));
  return made;
}

sparse::CsrOperand Corpus::thresholded(Graph& graph, const Array& thresholds, const Array& lengths) const {
  if (!counts_.transform || counts_.transform->place.empty()) return seen(lengths, thresholds);
  const std::vector<Index>& place = counts_.transform->place;  // steps see columns as they are stored
  const Array stored = graph.allocate({1, static_cast<Index>(place.size())}, Dtype::float64);
  for (std::size_t w = 0; !graph.planning() && w < place.size(); ++w)
    elements<double>(stored)[w] = place[w] < 0 ? 1 : elements<double>(thresholds)[place[w]];
  return seen(lengths, stored);
}

Array Corpus::find_thresholds(Graph& graph, const IsleOptions& options) const {
  const Index rank = rank_of(options.w0, documents_, options.k);
  const double share = 3 * options.eps1 * options.w0 * static_cast<double>(documents_) / static_cast<double>(options.k);
  const Index equal = std::max<Index>(1, static_cast<Index>(std::ceil(share)));
  const Array made = graph.allocate({1, words()}, Dtype::float64);
  const Array most = graph.allocate({2, words()}, Dtype::float64);
  const sparse::CsrOperand a = frequencies();
  sparse::fold_columns(graph, a, {sparse::Fold::max}, most);
  graph.barrier();
  const auto size = static_cast<std::size_t>(words());
  const Charge kept = graph.charge(16 * size);
  std::vector<Index> ends{0}, looked;  // bins of words whose threshold is not 1 at sight
  if (!graph.planning()) {
    std::fill_n(elements<double>(made), words(), 1.0);
    const auto* greatest = elements<double>(most);
    check_some({greatest, size}, average_);
    for (Index w = 0; w < words(); ++w) {
      const double top = std::floor(greatest[w] + 0.5);
      if (!(top >= 2) || greatest[words() + w] < static_cast<double>(rank)) continue;
      looked.push_back(w), ends.push_back(ends.back() + static_cast<Index>(top));
    }
  }
  const auto budgeted = static_cast<Index>(graph.budget() / 16);  // a quarter, of 4 bytes each
  for (std::size_t first = 0; first < looked.size() || (graph.planning() && first == 0);) {
    std::size_t last = std::min(first + 1, looked.size());
    while (last < looked.size() && ends[last + 1] - ends[first] <= budgeted) ++last;
    const Index n = graph.planning() ? std::min(budgeted, 4 * words()) : ends[last] - ends[first];
    const Array counts = graph.allocate({1, std::max<Index>(1, n)}, Dtype::int32);
    auto bins = std::make_shared<std::vector<Index>>(graph.planning() ? 0 : size, -1);
    for (std::size_t i = first; i < last; ++i) (*bins)[static_cast<std::size_t>(looked[i])] = ends[i];
    const Index from = graph.planning() ? 0 : ends[first];
    add_pass<CountFrequencies>(graph, a, Dtype::float64, 0, [&](CountFrequencies& pass) {
      pass.bins = bins, pass.first = from, pass.last = from + n;
      pass.counted = pass.add_update(counts);
    });
    for (std::size_t i = first; i < last; ++i) {
      const std::span<const std::int32_t> own(elements<std::int32_t>(counts) + ends[i] - from,
                                              static_cast<std::size_t>(ends[i + 1] - ends[i]));
      elements<double>(made)[looked[i]] = threshold_of(own, rank, equal);
    }
    first = std::max<std::size_t>(last, 1);
  }
  return made;
}

}  // namespace flagstone::topics
