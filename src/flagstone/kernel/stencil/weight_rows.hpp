#pragma once
// The row loop of weights, compiled once per instruction set: FLAGSTONE_VECTOR_BYTES is its width.
#include <cstring>

#include "flagstone/kernel/stencil/weight_row.hpp"

namespace flagstone::kernel {
namespace {

template <class T>
struct Vector {
  static constexpr Index lanes = FLAGSTONE_VECTOR_BYTES / sizeof(T);
  typedef T type __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
};

/// One lane, for the ends of rows: the same operations.
template <class T>
struct Single {
  static constexpr Index lanes = 1;
  using type = T;
};

template <class V>
inline V loaded(const std::byte* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}

template <class T, class V, WeightsForm form>
inline V finished([[maybe_unused]] const WeightRow& row, V sum, [[maybe_unused]] Index at) {
  using Form = WeightsForm;
  const auto byte = at * static_cast<Index>(sizeof(T));
  const auto coefficient = [&](int which) -> V {
    const std::byte* const from = row.coefficients[which];
    if (row.steps[which] != 0) return loaded<V>(from + byte);
    T one;
    std::memcpy(&one, from, sizeof(T));
    return one - V{};  // of every value the same bits
  };
  if constexpr (form == Form::sum) return sum;
  if constexpr (form == Form::swing) return sum - loaded<V>(row.before + byte);
  if constexpr (form == Form::grow || form == Form::grow_source) {
    const V next = loaded<V>(row.centre + byte) + coefficient(0) * sum;
    if constexpr (form == Form::grow) return next;
    return next + coefficient(1);
  }
  if constexpr (form == Form::wave || form == Form::damped_wave) {
    const V now = loaded<V>(row.centre + byte), before = loaded<V>(row.before + byte), step = coefficient(0) * sum;
    if constexpr (form == Form::wave) return ((now + now) - before) + step;
    if constexpr (form == Form::damped_wave) {
      const V damping = coefficient(1);
      return (((now + now) - (T{1} - damping) * before) + step) / (T{1} + damping);
    }
  }
}

/// `blocks` vectors at once: as many sums that do not wait for each other.
template <class T, class V, int blocks, WeightsForm form>
inline Index swept(const WeightRow& row, Index at) {
  constexpr Index lanes = static_cast<Index>(sizeof(V) / sizeof(T)), width = blocks * lanes;
  for (; at + width <= row.n; at += width) {
    const auto byte = at * static_cast<Index>(sizeof(T));
    V total[blocks]{}, sum[blocks];
    int term = 0;
    for (int group = 0; group < row.groups; ++group) {
      const std::byte* from = row.terms[term] + byte;
      for (int b = 0; b < blocks; ++b) sum[b] = loaded<V>(from + b * static_cast<Index>(sizeof(V)));
      for (++term; term < row.ends[group]; ++term) {
        from = row.terms[term] + byte;
        for (int b = 0; b < blocks; ++b) sum[b] += loaded<V>(from + b * static_cast<Index>(sizeof(V)));
      }
      T weight;
      std::memcpy(&weight, row.weights + static_cast<std::size_t>(group) * sizeof(T), sizeof(T));
      if (group == 0)
        for (int b = 0; b < blocks; ++b) total[b] = sum[b] * weight;
      else
        for (int b = 0; b < blocks; ++b) total[b] += sum[b] * weight;
    }
    for (int b = 0; b < blocks; ++b) {
      const V value = finished<T, V, form>(row, total[b], at + b * lanes);
      std::memcpy(row.to + byte + b * static_cast<Index>(sizeof(V)), &value, sizeof(V));
    }
  }
  return at;
}

template <class T, WeightsForm form>
void weight_row(const WeightRow& row) {
  using V = typename Vector<T>::type;
  Index at = swept<T, V, 4, form>(row, 0);
  at = swept<T, V, 1, form>(row, at);
  swept<T, T, 1, form>(row, at);
}

template <class T>
WeightRowLoop loop_of_type(WeightsForm form) {
  using Form = WeightsForm;
  switch (form) {
    case Form::sum:
      return weight_row<T, Form::sum>;
    case Form::grow:
      return weight_row<T, Form::grow>;
    case Form::grow_source:
      return weight_row<T, Form::grow_source>;
    case Form::swing:
      return weight_row<T, Form::swing>;
    case Form::wave:
      return weight_row<T, Form::wave>;
    case Form::damped_wave:
      if constexpr (std::is_floating_point_v<T>) return weight_row<T, Form::damped_wave>;
  }
  return nullptr;
}

/// Integers wrap around, signed ones too: their unsigned twins do the arithmetic.
inline WeightRowLoop loop_of(Dtype dtype, WeightsForm form) {
  switch (dtype) {
    case Dtype::float32:
      return loop_of_type<float>(form);
    case Dtype::float64:
      return loop_of_type<double>(form);
    case Dtype::int8:
    case Dtype::uint8:
      return loop_of_type<std::uint8_t>(form);
    case Dtype::int16:
    case Dtype::uint16:
      return loop_of_type<std::uint16_t>(form);
    case Dtype::int32:
    case Dtype::uint32:
      return loop_of_type<std::uint32_t>(form);
    case Dtype::int64:
    case Dtype::uint64:
      return loop_of_type<std::uint64_t>(form);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace flagstone::kernel
