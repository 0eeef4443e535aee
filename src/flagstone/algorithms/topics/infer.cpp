#include "flagstone/algorithms/topics/infer.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/cluster/centre_arrays.hpp"
#include "flagstone/algorithms/topics/panel_pass.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/topics/document.hpp"

namespace flagstone::topics {
namespace {

constexpr double certified = 1e-3, weights_prior = 0.02, even_share = 1e-4;
constexpr Index most_steps = 500, completion_steps = 10;

/// What both passes over documents with known topics have.
struct KnownTopics : PassOver<DocumentReader> {
  using PassOver::PassOver;
  Index k = 0, words = 0;
  int topics = -1;

  kernel::Document document(std::span<const Tile> tiles, std::byte* own) const {
    return {own, k, words, at<const float>(tiles, topics)};
  }
  void take(Index topics_number, const Array& packed) {
    k = topics_number, words = packed.shape()[0], topics = add_read(packed);
    own_bytes = kernel::Document::bytes(k, words);
  }
};

void check_counts(const char* who, const kernel::CsrRows& step, Index first) {
  each_value<float>(step, [&](Index row, Index word, float value) {
    if (!(value >= 0) || !std::isfinite(value))
      throw ShapeError(std::string(who) + ": document " + std::to_string(first + row) + " has the count " +
                       std::to_string(value) + " of word " + std::to_string(word) +
                       "; finite counts of 0 or more are needed.");
  });
}

struct InferTopics final : KnownTopics {
  using KnownTopics::KnownTopics;
  static constexpr Kernel which = Kernel::infer_topics;
  static constexpr const char* name = "infer_topics";
  static constexpr double seconds = 20 * 8e-9;  // of some 20 steps
  bool multiplicative = false;
  int out = -1;

  void rows(std::span<const Tile> tiles, std::byte* own, Index row, const kernel::CsrRows& step) const {
    check_counts("transform", step, reader.row() + row);
    kernel::Document one = document(tiles, own);
    const Tile& to = tiles[static_cast<std::size_t>(out)];
    for (Index d = 0; d < step.rows; ++d) {
      auto* weights = reinterpret_cast<float*>(to.data + (row + d) * to.strides[0]);
      weights[k] = 0;
      if (one.load(step, d)) {
        if (multiplicative)
          one.multiplicative();
        else
          one.infer(certified, most_steps);
        weights[k] = static_cast<float>(one.certificate());
      }
      std::copy_n(one.weights(), k, weights);
    }
  }
};

/// Counts of the half that comes first or second, tokens in turn; what is left of a fractional count counts as one.
struct CompleteDocuments final : KnownTopics {
  using KnownTopics::KnownTopics;
  static constexpr Kernel which = Kernel::complete_documents;
  static constexpr const char* name = "complete_documents";
  static constexpr double seconds = 6 * 8e-9;
  int totals = -1;

  void rows(std::span<const Tile> tiles, std::byte* own, Index row, const kernel::CsrRows& step) const {
    check_counts("perplexity", step, reader.row() + row);
    kernel::Document one = document(tiles, own);
    double* total = at<double>(tiles, totals);
    std::vector<float> weights(static_cast<std::size_t>(k));
    for (Index d = 0; d < step.rows; ++d) {
      if (!one.load(half(step, d, one, 0))) continue;
      for (Index i = 0; i < completion_steps; ++i) one.step(weights_prior);
      std::copy_n(one.weights(), k, weights.data());
      if (!one.load(half(step, d, one, 1))) continue;
      one.set_weights(weights.data());
      total[0] += one.likelihood(total[1]);
    }
  }
  /// Writes it where documents are loaded from; returns its words.
  static Index half(const kernel::CsrRows& step, Index d, kernel::Document& to, Index which_half) {
    const auto* values = reinterpret_cast<const float*>(step.values);
    Index n = 0, token = 0;
    for (Index p = step.pointers[d] - step.pointers[0]; p < step.pointers[d + 1] - step.pointers[0]; ++p) {
      const auto tokens = static_cast<Index>(std::ceil(values[p]));
      const Index first = (tokens + (token + 1) % 2) / 2;  // of the first half
      const Index own = which_half == 0 ? first : tokens - first;
      token += tokens;
      if (own == 0) continue;
      to.words()[n] = kernel::column_at(step, p);
      to.counts()[n] = static_cast<float>(own);
      ++n;
    }
    return n;
  }
};

struct CountPairs final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::count_pairs;
  static constexpr const char* name = "count_pairs";
  static constexpr double seconds = 3e-9;
  std::shared_ptr<const std::vector<Index>> first, slots;  // of each word its first slot; slots: topic · n + place
  Index n = 0;
  int pairs = -1, documents = -1;

  void rows(std::span<const Tile> tiles, std::byte*, Index, const kernel::CsrRows& step) const {
    auto* to = at<double>(tiles, pairs);
    std::vector<Index> found;
    Index open = 0, last = -1;
    const auto close = [&] {
      std::sort(found.begin(), found.end());
      for (std::size_t i = 0; i < found.size(); ++i)
        for (std::size_t j = i; j < found.size() && found[j] / n == found[i] / n; ++j)
          ++to[found[i] * n + found[j] % n];
      found.clear();
    };
    each_value<float>(step, [&](Index row, Index word, float value) {
      if (row != open) close();
      open = row;
      if (value > 0 && row != last) ++*at<double>(tiles, documents), last = row;
      const auto w = static_cast<std::size_t>(word);
      for (Index s = (*first)[w]; value > 0 && s < (*first)[w + 1]; ++s)
        found.push_back((*slots)[static_cast<std::size_t>(s)]);
    });
    close();
  }
};

const bool entered = host_kernels().enter(Kernel::infer_topics, {Dtype::float32}, run_panel<InferTopics>) &&
                     host_kernels().enter(Kernel::complete_documents, {Dtype::float32}, run_panel<CompleteDocuments>) &&
                     host_kernels().enter(Kernel::count_pairs, {Dtype::float32}, run_panel<CountPairs>);

/// Adds a pass of all documents; `prepare` says what a panel's task takes beside its rows.
template <class Pass, class Prepare>
void read_all(Graph& graph, const Documents& x, double flops, Prepare&& prepare) {
  for (Index p = 0; p < x.panels(); ++p)
    add_panel(graph, std::make_shared<Pass>(x.panel(p)), Dtype::float32, flops, prepare);
  graph.barrier();
}

/// Word-major, in whole steps; `share` of each topic is spread over all words.
Array packed(Graph& graph, const Array& topics, double share) {
  const Index k = topics.shape()[0], words = topics.shape()[1], width = kernel::topics_width(k);
  const Array made = graph.allocate({words, width}, Dtype::float32);
  if (graph.planning()) return made;
  const auto* from = elements<float>(topics);
  for (Index t = 0; t < k; ++t)
    for (Index w = 0; w < words; ++w)
      elements<float>(made)[w * width + t] = static_cast<float>((1 - share) * static_cast<double>(from[t * words + w]) +
                                                                share / static_cast<double>(words));
  return made;
}

}  // namespace

Index weights_rows(const Documents& x) { return std::min(std::max<Index>(1, x.rows()), x.panel_rows()); }

void infer_topics(Graph& graph, const Documents& x, const Array& topics, bool multiplicative, const Array& out) {
  const Index k = topics.shape()[0];
  const Array known = packed(graph, topics, 0);
  const bool direct = !x.chosen();
  const Array to = direct ? out : graph.allocate(out.shape(), out.dtype());
  read_all<InferTopics>(graph, x, 4.0 * static_cast<double>(k) * 20, [&](InferTopics& pass) {
    pass.take(k, known);
    pass.multiplicative = multiplicative, pass.out = pass.add(write(pass.own(to)));
  });
  if (!direct) cluster::write_rows(graph, to, out);
}

void complete_documents(Graph& graph, const Documents& x, const Array& topics, Completion& result) {
  const Index k = topics.shape()[0];
  const Array known = packed(graph, topics, even_share), totals = graph.allocate({1, 2}, Dtype::float64);
  read_all<CompleteDocuments>(graph, x, 4.0 * static_cast<double>(k) * 6, [&](CompleteDocuments& pass) {
    pass.take(k, known);
    pass.totals = pass.add_reduce(totals);
  });
  if (!graph.planning()) result = {elements<double>(totals)[0], elements<double>(totals)[1]};
}

void count_pairs(Graph& graph, const sparse::CsrOperand& x, const std::vector<Index>& tops, Index n,
                 std::vector<double>& pairs) {
  const auto all = static_cast<Index>(tops.size());
  const Charge kept = graph.charge(static_cast<std::uint64_t>(8 * (all + x.matrix.cols + 1 + all * n)));
  auto first = std::make_shared<std::vector<Index>>(static_cast<std::size_t>(x.matrix.cols) + 1, 0);
  auto slots = std::make_shared<std::vector<Index>>(tops.size());
  for (const Index word : tops) ++(*first)[static_cast<std::size_t>(word) + 1];
  for (std::size_t w = 1; w < first->size(); ++w) (*first)[w] += (*first)[w - 1];
  std::vector<Index> next(first->begin(), first->end() - 1);
  for (Index s = 0; s < all; ++s) (*slots)[next[static_cast<std::size_t>(tops[static_cast<std::size_t>(s)])]++] = s;
  const Array counts = graph.allocate({all, n}, Dtype::float64), documents = graph.allocate({1, 1}, Dtype::float64);
  add_pass<CountPairs>(graph, x, Dtype::float32, 0, [&](CountPairs& pass) {
    pass.first = first, pass.slots = slots, pass.n = n, pass.pairs = pass.add_reduce(counts);
    pass.documents = pass.add_reduce(documents);
  });
  if (graph.planning()) return;
  pairs.assign(elements<double>(counts), elements<double>(counts) + all * n);
  pairs.push_back(*elements<double>(documents));
}

}  // namespace flagstone::topics
