#pragma once
// Loops over the words of one document, compiled once per instruction set. It includes no header with inline functions:
// the linker would keep one copy of those for the whole program.
#include <cstdint>

namespace flagstone::kernel {

/// The words of a document: row i holds the numbers of its word i, one for each topic, `width` of them.
struct TopicJob {
  std::int64_t words, width;
  const float* counts;
  const float* const* rows;
  const float* weights;  // of the topics in this document: θ
  float* ratios;         // of each word: count ÷ Σ θ row, 0 where the sum is 0
  float* gradient;       // of each topic: Σ ratio · row
};
struct TopicTable {
  void (*gradient)(const TopicJob& job);
  /// sums[i] += ratios[i] θ
  void (*add)(const TopicJob& job, double* const* sums);
};
extern const TopicTable topics_avx512, topics_avx2, topics_baseline;
inline constexpr std::int64_t topic_step = 16;  // width is a multiple: the longest vector of float32

}  // namespace flagstone::kernel

#ifdef FLAGSTONE_VECTOR_BYTES  // set by the three including sources
namespace flagstone::kernel {
namespace {

constexpr int lanes = FLAGSTONE_VECTOR_BYTES / 4;
typedef float Floats __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES), aligned(4), may_alias));
typedef float Sixteen __attribute__((vector_size(64), aligned(4), may_alias));
typedef double Doubles __attribute__((vector_size(128), aligned(8), may_alias));

inline float sum_of(Floats v) {
  float parts[lanes];
  *reinterpret_cast<Floats*>(parts) = v;
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) parts[l] += parts[l + half];
  return parts[0];
}

/// 4 words · width flops: each row is read twice, the second time from the nearest cache.
void gradient(const TopicJob& job) {
  for (std::int64_t t = 0; t < job.width; ++t) job.gradient[t] = 0;
  for (std::int64_t i = 0; i < job.words; ++i) {
    const float* row = job.rows[i];
    Floats first{}, second{};
    for (std::int64_t t = 0; t < job.width; t += topic_step) {
      for (int v = 0; v < topic_step; v += 2 * lanes)
        first += *reinterpret_cast<const Floats*>(row + t + v) * *reinterpret_cast<const Floats*>(job.weights + t + v);
      for (int v = lanes; v < topic_step; v += 2 * lanes)
        second += *reinterpret_cast<const Floats*>(row + t + v) * *reinterpret_cast<const Floats*>(job.weights + t + v);
    }
    const float sum = sum_of(first + second);
    const float ratio = sum > 0 ? job.counts[i] / sum : 0;
    job.ratios[i] = ratio;
    for (std::int64_t t = 0; t < job.width; t += lanes)
      *reinterpret_cast<Floats*>(job.gradient + t) += ratio * *reinterpret_cast<const Floats*>(row + t);
  }
}

void add(const TopicJob& job, double* const* sums) {
  for (std::int64_t i = 0; i < job.words; ++i) {
    const float ratio = job.ratios[i];
    for (std::int64_t t = 0; t < job.width; t += topic_step)
      *reinterpret_cast<Doubles*>(sums[i] + t) +=
          __builtin_convertvector(ratio * *reinterpret_cast<const Sixteen*>(job.weights + t), Doubles);
  }
}

constexpr TopicTable make_table() { return {gradient, add}; }

}  // namespace
}  // namespace flagstone::kernel
#endif
