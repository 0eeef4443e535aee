#include "flagstone/kernel/topics/document.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "flagstone/base/bytes.hpp"

namespace flagstone::kernel {
namespace {

constexpr Index near_bytes = 256 << 10;  // of topics that are copied side by side: they stay in the second-level cache
constexpr Index multiplicative_steps = 15;

const TopicTable& topic_loops() {
  static const TopicTable& chosen = []() -> const TopicTable& {
#ifdef FLAGSTONE_WIDE_KERNELS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
      return topics_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return topics_avx2;
#endif
    return topics_baseline;
  }();
  return chosen;
}

Index kept_words(Index width, Index most) { return std::min(most, near_bytes / (4 * width)); }
std::size_t room(Index numbers, std::size_t item) { return align_up(static_cast<std::size_t>(numbers) * item, 64); }

}  // namespace

Index topics_width(Index k) { return (k + topic_step - 1) / topic_step * topic_step; }

Index column_at(const CsrRows& rows, Index p) {
  switch (rows.column_dtype) {
    case Dtype::uint16:
      return reinterpret_cast<const std::uint16_t*>(rows.columns)[p];
    case Dtype::uint32:
      return reinterpret_cast<const std::uint32_t*>(rows.columns)[p];
    default:
      return static_cast<Index>(reinterpret_cast<const std::uint64_t*>(rows.columns)[p]);
  }
}

std::size_t Document::bytes(Index k, Index most_words) {
  const Index width = topics_width(k);
  return 3 * room(most_words, 8) + 2 * room(most_words, 4) + 2 * room(width, 4) +
         room(kept_words(width, most_words) * width, 4);
}

Document::Document(std::byte* memory, Index k, Index most_words, const float* topics)
    : k_(k), width_(topics_width(k)), kept_(kept_words(width_, most_words)), topics_(topics) {
  const auto take = [&](Index numbers, std::size_t item) {
    return std::exchange(memory, memory + room(numbers, item));
  };
  words_ = reinterpret_cast<Index*>(take(most_words, 8));
  rows_ = reinterpret_cast<const float**>(take(most_words, 8));
  sums_ = reinterpret_cast<double**>(take(most_words, 8));
  counts_ = reinterpret_cast<float*>(take(most_words, 4));
  ratios_ = reinterpret_cast<float*>(take(most_words, 4));
  weights_ = reinterpret_cast<float*>(take(width_, 4));
  gradient_ = reinterpret_cast<float*>(take(width_, 4));
  near_ = reinterpret_cast<float*>(take(kept_ * width_, 4));
}

bool Document::load(const CsrRows& rows, Index row) {
  const Index base = rows.pointers[0];
  const auto* values = reinterpret_cast<const float*>(rows.values);
  Index n = 0;
  for (Index p = rows.pointers[row] - base; p < rows.pointers[row + 1] - base; ++p) {
    if (!(values[p] > 0)) continue;
    words_[n] = column_at(rows, p), counts_[n] = values[p];
    ++n;
  }
  return load(n);
}

bool Document::load(Index n) {
  n_ = n, total_ = 0;
  for (Index i = 0; i < n; ++i) {
    total_ += static_cast<double>(counts_[i]);
    rows_[i] = topics_ + words_[i] * width_;
    if (i >= kept_) continue;
    std::memcpy(near_ + i * width_, rows_[i], static_cast<std::size_t>(width_) * 4);
    rows_[i] = near_ + i * width_;
  }
  std::fill_n(weights_, width_, 0.0F);
  std::fill_n(weights_, k_, 1 / static_cast<float>(k_));
  return n > 0;
}

TopicJob Document::job() const { return {n_, width_, counts_, rows_, weights_, ratios_, gradient_}; }

void Document::gradient() { topic_loops().gradient(job()); }

void Document::set_weights(const float* weights) { std::copy_n(weights, k_, weights_); }

void Document::normalise() {
  double sum = 0;
  for (Index t = 0; t < k_; ++t) sum += static_cast<double>(weights_[t]);
  const double share = sum > 0 ? 1 / sum : 0;
  for (Index t = 0; t < k_; ++t)
    weights_[t] = sum > 0 ? static_cast<float>(static_cast<double>(weights_[t]) * share) : 1 / static_cast<float>(k_);
}

void Document::step(double prior) {
  gradient();
  for (Index t = 0; t < k_; ++t) weights_[t] = weights_[t] * gradient_[t] + static_cast<float>(prior);
  normalise();
}

double Document::certificate() {
  gradient();
  double seen = 0;  // counts of words that a topic has
  for (Index i = 0; i < n_; ++i) seen += ratios_[i] > 0 ? static_cast<double>(counts_[i]) : 0;
  if (!(seen > 0)) return 0;
  return static_cast<double>(*std::max_element(gradient_, gradient_ + k_)) / seen - 1;
}

void Document::infer(double gap, Index steps) {
  for (Index i = 0; i < steps; ++i) {
    if (certificate() <= gap) return;
    for (Index t = 0; t < k_; ++t) weights_[t] *= gradient_[t];
    normalise();
  }
}

void Document::multiplicative() {
  for (double most = 10;; most *= 2) {
    load(n_);
    bool whole = true;
    for (Index i = 0; i < multiplicative_steps && whole; ++i) {
      const double rate = std::sqrt(2 * std::log(static_cast<double>(k_)) / static_cast<double>(i + 1)) / most;
      gradient();
      double greatest = 0;
      for (Index t = 0; t < k_; ++t) {
        const double power = rate * static_cast<double>(gradient_[t]) / total_;
        weights_[t] = static_cast<float>(static_cast<double>(weights_[t]) * std::exp(power));
        greatest = std::max(greatest, power);
      }
      whole = greatest < 80;  // e^88 is beyond float32
      if (whole) normalise();
    }
    if (whole) return;
  }
}

double Document::likelihood(double& counted) {
  gradient();
  double sum = 0;
  for (Index i = 0; i < n_; ++i) {
    if (!(ratios_[i] > 0)) continue;
    const double count = static_cast<double>(counts_[i]);
    sum += count * std::log(count / static_cast<double>(ratios_[i]));
    counted += count;
  }
  return sum;
}

void Document::add(double* sums) {
  for (Index i = 0; i < n_; ++i) sums_[i] = sums + words_[i] * width_;
  topic_loops().add(job(), sums_);
}

}  // namespace flagstone::kernel
