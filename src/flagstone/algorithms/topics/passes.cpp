#include "flagstone/algorithms/topics/passes.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/topics/panel_pass.hpp"
#include "flagstone/kernel/topics/document.hpp"

namespace flagstone::topics {
namespace {

constexpr double even_share = 0.01;                         // of M, spread over all words before a pass
constexpr double weights_prior = 0.02, words_prior = 0.01;  // Dirichlet parameters less 1
constexpr Index inner_steps = 10;
constexpr double stretched = 1.8;  // how much further than EM a pass goes; EM converges below 2 (decision 224)

/// sums[word] += count ÷ Mᵀθ of its documents times θ; totals += log-likelihood, counts.
struct ExpectTopics final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::expect_topics;
  static constexpr const char* name = "expect_topics";
  static constexpr double seconds = (inner_steps + 1) * 8e-9;  // measured: at k = 10 as long as the flops
  Index k = 0, words = 0;
  int topics = -1, sums = -1, totals = -1;

  void rows(std::span<const Tile> tiles, std::byte* own, Index, const kernel::CsrRows& step) const {
    kernel::Document document(own, k, words, at<const float>(tiles, topics));
    double* total = at<double>(tiles, totals);
    for (Index d = 0; d < step.rows; ++d) {
      if (!document.load(step, d)) continue;
      for (Index i = 0; i < inner_steps; ++i) document.step(weights_prior);
      total[0] += document.likelihood(total[1]);
      document.add(at<double>(tiles, sums));
    }
  }
};

const bool entered = host_kernels().enter(Kernel::expect_topics, {Dtype::float32}, run_panel<ExpectTopics>);

class Passes {
 public:
  Passes(Graph& graph, const Corpus& corpus, Fitted& fitted, Index k)
      : graph_(graph),
        corpus_(corpus),
        fitted_(fitted),
        topics_(fitted.topics),
        k_(k),
        width_(fitted.topics.shape()[1]) {}

  /// What a read does to M.
  enum class Update : std::uint8_t { none, em, further };

  /// Returns the mean log-likelihood of a counted word.
  double pass(Update update) {
    const Array sums = graph_.allocate({corpus_.words(), width_}, Dtype::float64);
    const Array totals = graph_.allocate({1, 2}, Dtype::float64);
    const Array smooth = graph_.allocate(topics_.shape(), Dtype::float32);
    if (!graph_.planning()) smoothen(smooth);
    const double flops = 4.0 * static_cast<double>(k_) * (inner_steps + 1);
    add_pass<ExpectTopics>(graph_, corpus_.counts(), Dtype::float32, flops, [&](ExpectTopics& one) {
      one.k = k_, one.words = corpus_.words(), one.topics = one.add_read(smooth), one.sums = one.add_reduce(sums);
      one.totals = one.add_reduce(totals), one.own_bytes = kernel::Document::bytes(k_, corpus_.words());
    });
    const double moved = 300.0 * static_cast<double>(count(topics_.shape()));  // by the loops below, and of smoothen
    graph_.host_work("maximise", {0, moved, true});
    if (graph_.planning()) return 0;
    const auto* total = elements<double>(totals);
    const double likelihood = total[1] > 0 ? total[0] / total[1] : 0;
    const double posterior = likelihood + prior(smooth) / std::max(1.0, total[1]);
    if (update != Update::none && fitted_.went_further && posterior < fitted_.posterior) {
      // It went too far: what EM itself would have done, and no more of it.
      std::copy_n(elements<float>(fitted_.em), count(topics_.shape()), elements<float>(topics_));
      fitted_.went_further = false, fitted_.goes_further = false;
      return likelihood;
    }
    share(smooth, sums, fitted_.shares);
    if (update == Update::none) return likelihood;
    fitted_.posterior = posterior;
    maximise(smooth, sums);
    fitted_.went_further = update == Update::further && fitted_.goes_further;
    if (fitted_.went_further) {
      std::copy_n(elements<float>(topics_), count(topics_.shape()), elements<float>(fitted_.em));
      stretch(smooth);
    }
    return likelihood;
  }

 private:
  void smoothen(const Array& smooth) const {
    const double least = even_share / static_cast<double>(corpus_.words());
    each([&](Index at) {
      elements<float>(smooth)[at] =
          static_cast<float>((1 - even_share) * static_cast<double>(elements<float>(topics_)[at]) + least);
    });
  }
  /// Of what Dirichlet's prior says of M, up to a constant.
  double prior(const Array& smooth) const {
    double sum = 0;
    each([&](Index at) { sum += std::log(static_cast<double>(elements<float>(smooth)[at])); });
    return words_prior * sum;
  }
  /// M ∝ M (M / M before)^(η - 1): EM's step in logarithms, η times as long (Salakhutdinov and Roweis 2003).
  void stretch(const Array& smooth) const {
    std::vector<double> all(static_cast<std::size_t>(k_), 0.0), moved(static_cast<std::size_t>(count(topics_.shape())));
    each([&](Index at) {
      const auto now = static_cast<double>(elements<float>(topics_)[at]),
                 before = static_cast<double>(elements<float>(smooth)[at]);
      moved[static_cast<std::size_t>(at)] = now * std::pow(now / before, stretched - 1);
      all[static_cast<std::size_t>(at % width_)] += moved[static_cast<std::size_t>(at)];
    });
    each([&](Index at) {
      elements<float>(topics_)[at] =
          static_cast<float>(moved[static_cast<std::size_t>(at)] / all[static_cast<std::size_t>(at % width_)]);
    });
  }
  /// Each topic's expected counts.
  void share(const Array& smooth, const Array& sums, std::vector<double>& shares) const {
    shares.assign(static_cast<std::size_t>(k_), 0.0);
    each([&](Index at) {
      shares[static_cast<std::size_t>(at % width_)] +=
          static_cast<double>(elements<float>(smooth)[at]) * elements<double>(sums)[at];
    });
    double all = 0;
    for (const double one : shares) all += one;
    for (double& one : shares) one = all > 0 ? one / all : 0;
  }
  void maximise(const Array& smooth, const Array& sums) const {
    std::vector<double> all(static_cast<std::size_t>(k_), 0.0);
    each([&](Index at) {
      double& sum = elements<double>(sums)[at];
      sum = static_cast<double>(elements<float>(smooth)[at]) * sum + words_prior;
      all[static_cast<std::size_t>(at % width_)] += sum;
    });
    each([&](Index at) {
      elements<float>(topics_)[at] =
          static_cast<float>(elements<double>(sums)[at] / all[static_cast<std::size_t>(at % width_)]);
    });
  }
  template <class F>
  void each(F&& f) const {
    for (Index w = 0; w < corpus_.words(); ++w)
      for (Index t = 0; t < k_; ++t) f(w * width_ + t);
  }

  Graph& graph_;
  const Corpus& corpus_;
  Fitted& fitted_;
  Array topics_;
  Index k_, width_;
};

}  // namespace

Fitted fit_topics(Graph& graph, const Corpus& corpus, const Array& topics, Index k, Index passes, Stages& stages) {
  Fitted made;
  made.topics = graph.allocate(topics.shape(), Dtype::float32);  // where they began is a state of its own
  if (!graph.planning()) std::copy_n(elements<float>(topics), count(topics.shape()), elements<float>(made.topics));
  made.em = graph.allocate(topics.shape(), Dtype::float32);
  Index done = 0;
  const auto kept = stages.keep("passes", [&](StateParts& parts) {
    parts.array("topics", made.topics);
    parts.array("em", made.em);
    parts.value("posterior", made.posterior);
    parts.value("went further", made.went_further);
    parts.value("goes further", made.goes_further);
    parts.values("shares", made.shares);
    parts.values("likelihood", made.likelihood);
    parts.value("done", done);
  });
  Passes all(graph, corpus, made, k);
  for (; done < std::max<Index>(1, passes);
       stages.offer(0.8 + 0.2 * static_cast<double>(done) / static_cast<double>(passes + 1))) {
    using Update = Passes::Update;
    const bool last = done + 1 == passes;  // which nobody looks back at: it is EM's
    made.likelihood.push_back(all.pass(passes == 0 ? Update::none : last ? Update::em : Update::further));
    ++done;
  }
  return made;
}

}  // namespace flagstone::topics
