#include "flagstone/kernel/random/draw.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/kernel/random/ziggurat.hpp"

namespace flagstone::kernel {
namespace {

constexpr std::int64_t block = 1024;           // numbers that are made at a time: 8 KiB of words, 8 KiB of numbers
constexpr std::uint64_t few = 4096;            // numbers that a permutation has a table of
constexpr std::uint32_t own_words = 1u << 31;  // the third word of counters that belong to no place

double unit(std::uint64_t word) { return static_cast<double>(static_cast<std::int64_t>(word >> 11)) * 0x1p-53; }

/// In [0, span), each with the same probability (Lemire 2019).
std::uint64_t below(std::uint64_t span, std::uint64_t word, FurtherWords words) {
  if (span == 0) return word;
  auto product = static_cast<unsigned __int128>(word) * span;
  if (static_cast<std::uint64_t>(product) < span)
    for (const std::uint64_t least = (0 - span) % span; static_cast<std::uint64_t>(product) < least;)
      product = static_cast<unsigned __int128>(words.next()) * span;
  return static_cast<std::uint64_t>(product >> 64);
}

/// Products of uniform numbers below a mean of 10, else Hörmann's transformed rejection (PTRS, 1993), as NumPy's.
std::int64_t poisson(double mean, std::uint64_t word, FurtherWords words) {
  if (mean == 0) return 0;
  if (mean < 10) {
    const double end = std::exp(-mean);
    std::int64_t k = 0;
    for (double product = unit(word); product > end; product *= words.uniform()) ++k;
    return k;
  }
  const double log_mean = std::log(mean), b = 0.931 + 2.53 * std::sqrt(mean), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  for (double u = unit(word) - 0.5;; u = words.uniform() - 0.5) {
    const double v = words.uniform(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= vr) return static_cast<std::int64_t>(k);
    if (k < 0 || (us < 0.013 && v > us)) continue;
    int sign = 0;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -mean + k * log_mean - lgamma_r(k + 1, &sign))
      return static_cast<std::int64_t>(k);
  }
}

struct Words {
  std::uint64_t raw[block];
  double real[block];
};

void continuous(const Draw& d, std::uint64_t first, std::int64_t n, Words& words) {
  switch (d.distribution) {
    case Distribution::normal:
      standard_normal(d.stream, first, words.raw, n, words.real);
      break;
    case Distribution::exponential:
      standard_exponential(d.stream, first, words.raw, n, words.real);
      break;
    default:
      for (std::int64_t i = 0; i < n; ++i) words.real[i] = unit(words.raw[i]);
  }
  if (d.shift == 0 && d.scale == 1) return;
  for (std::int64_t i = 0; i < n; ++i) words.real[i] = d.shift + d.scale * words.real[i];
}

std::uint64_t whole(const Draw& d, std::uint64_t place, std::uint64_t word) {
  const FurtherWords further(d.stream, place);
  switch (d.distribution) {
    case Distribution::integers:
      return d.low + below(d.span, word, further);
    case Distribution::poisson:
      return static_cast<std::uint64_t>(poisson(d.scale, word, further));
    case Distribution::permutation:
      return d.permutation(place);
    default: {
      const auto found = std::upper_bound(d.cumulative.begin(), d.cumulative.end(), unit(word));
      const auto last = static_cast<std::ptrdiff_t>(d.cumulative.size()) - 1;
      return static_cast<std::uint64_t>(std::min(found - d.cumulative.begin(), last));
    }
  }
}

/// n numbers from one place on, one after the other in memory but for the stride.
template <class T>
void run(const Draw& d, std::uint64_t first, std::int64_t n, std::byte* to, Index stride, Words& words) {
  for (std::int64_t at = 0; at < n; at += block) {
    const std::int64_t m = std::min(block, n - at);
    const std::uint64_t place = first + static_cast<std::uint64_t>(at);
    const auto put = [&](std::int64_t i, T value) { *reinterpret_cast<T*>(to + (at + i) * stride) = value; };
    if (d.distribution != Distribution::permutation) random_words(d.stream, place, m, words.raw);
    if constexpr (std::is_floating_point_v<T>) {
      continuous(d, place, m, words);
      // Of float32: a number just below 1 would be rounded to 1, which is outside.
      constexpr T below_one = std::is_same_v<T, float> ? T(0x1.fffffep-1) : T(2);
      const bool held =
          std::is_same_v<T, float> && d.distribution == Distribution::uniform && d.shift == 0 && d.scale == 1;
      for (std::int64_t i = 0; i < m; ++i) {
        const auto value = static_cast<T>(words.real[i]);
        put(i, held ? std::min(value, below_one) : value);
      }
    } else {
      for (std::int64_t i = 0; i < m; ++i)
        put(i, static_cast<T>(whole(d, place + static_cast<std::uint64_t>(i), words.raw[i])));
    }
  }
}

std::uint64_t mixed(std::uint64_t x) {  // MurmurHash3's finalizer
  x ^= x >> 33, x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

}  // namespace

Distribution distribution_from_name(std::string_view name) {
  constexpr std::string_view names[]{"uniform", "normal",      "exponential", "integers",
                                     "poisson", "permutation", "choice"};
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) throw ShapeError("random: there is no distribution '" + std::string(name) + "'.");
  return static_cast<Distribution>(found - std::begin(names));
}

Permutation::Permutation(const Stream& stream, std::uint64_t n) : n_(n) {
  const auto word = [&](std::uint64_t i) {
    const PhiloxCounter c = philox({static_cast<std::uint32_t>(i), 0, own_words, stream.call}, stream.key);
    return c[0] | std::uint64_t{c[1]} << 32;
  };
  if (n <= few) {
    table_.resize(n);
    for (std::uint64_t i = 0; i < n; ++i) table_[i] = static_cast<std::uint32_t>(i);
    for (std::uint64_t i = n; i-- > 1;) std::swap(table_[i], table_[below(i + 1, word(i), {stream, i})]);
    return;
  }
  const int bits = std::bit_width(n - 1);
  left_ = bits / 2, right_ = bits - left_;
  for (int r = 0; r < rounds; ++r) keys_[static_cast<std::size_t>(r)] = word(static_cast<std::uint64_t>(r));
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  if (n_ <= few) return table_[i];
  const std::uint64_t mask_left = (std::uint64_t{1} << left_) - 1, mask_right = (std::uint64_t{1} << right_) - 1;
  do {
    std::uint64_t left = i >> right_, right = i & mask_right;
    for (std::size_t r = 0; r < rounds; r += 2) {
      left ^= mixed(right ^ keys_[r]) & mask_left;
      right ^= mixed(left ^ keys_[r + 1]) & mask_right;
    }
    i = left << right_ | right;
  } while (i >= n_);
  return i;
}

void draw(const Draw& d, const Shape& shape, const Box& box, const Tile& to) {
  if (count(box.shape) == 0) return;
  const std::size_t ndim = shape.size();
  Words words;
  visit_real_type(to.dtype, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Truth>) {
      throw ShapeError("random: " + std::string(name_of(to.dtype)) + " was given; convert the result.");
    } else {
      Shape extents = box.shape, place(ndim, 0);
      if (ndim != 0) extents[ndim - 1] = 1;
      do {
        std::byte* data = to.data;
        std::uint64_t first = 0;
        for (std::size_t d2 = 0; d2 < ndim; ++d2) {
          data += place[d2] * to.strides[d2];
          first = first * static_cast<std::uint64_t>(shape[d2]) + static_cast<std::uint64_t>(box.start[d2] + place[d2]);
        }
        run<T>(d, first, ndim == 0 ? 1 : box.shape[ndim - 1], data, ndim == 0 ? 0 : to.strides[ndim - 1], words);
      } while (advance(place, extents));
    }
  });
}

}  // namespace flagstone::kernel
