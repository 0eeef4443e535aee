#include "flagstone/kernel/stencil/exact_sum.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace flagstone::kernel {
namespace {

constexpr std::int64_t low_bits = 0xffffffff;
constexpr std::int64_t most_pending = std::int64_t{1} << 30;
constexpr int least_exponent = -1074;  // of the unit of digit 0

}  // namespace

void ExactSum::add(double term) {
  const auto bits = std::bit_cast<std::uint64_t>(term);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  if (exponent == 0x7ff) {
    nan_ |= std::isnan(term);
    infinite_[bits >> 63] |= std::isinf(term);
    return;
  }
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent != 0) mantissa |= std::uint64_t{1} << 52;
  const int at = exponent == 0 ? 0 : exponent - 1;
  const int shift = at & 31;
  std::int64_t* const digit = &digit_[static_cast<std::size_t>(at >> 5)];
  const auto low = static_cast<std::int64_t>(mantissa << shift & low_bits);
  const std::uint64_t rest = mantissa >> (32 - shift);  // shift 0: by 32
  const auto middle = static_cast<std::int64_t>(rest) & low_bits;
  const auto high = static_cast<std::int64_t>(rest >> 32);
  if (bits >> 63)
    digit[0] -= low, digit[1] -= middle, digit[2] -= high;
  else
    digit[0] += low, digit[1] += middle, digit[2] += high;
  if (++pending_ == most_pending) carry();
}

void ExactSum::add(const ExactSum& other) {
  if (pending_ + other.pending_ + 1 >= most_pending) carry();
  for (std::size_t i = 0; i < digit_.size(); ++i) digit_[i] += other.digit_[i];
  pending_ += other.pending_ + 1;
  if (pending_ >= most_pending) carry();
  nan_ |= other.nan_;
  for (int sign = 0; sign < 2; ++sign) infinite_[sign] |= other.infinite_[sign];
}

void ExactSum::carry() {
  std::int64_t over = 0;
  for (std::size_t i = 0; i + 1 < digit_.size(); ++i) {
    const std::int64_t sum = digit_[i] + over;
    over = sum >> 32;  // rounds down, so what stays is not negative
    digit_[i] = sum & low_bits;
  }
  digit_.back() += over;
  pending_ = 0;
}

double ExactSum::value() const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (nan_ || (infinite_[0] && infinite_[1])) return std::numeric_limits<double>::quiet_NaN();
  if (infinite_[0] || infinite_[1]) return infinite_[0] ? infinity : -infinity;
  ExactSum sum = *this;
  sum.carry();
  const bool negative = sum.digit_.back() < 0;
  if (negative) {
    for (std::int64_t& digit : sum.digit_) digit = -digit;
    sum.carry();
  }
  int top = digits - 1;
  while (top > 0 && sum.digit_[static_cast<std::size_t>(top)] == 0) --top;
  const auto at = [&](int i) {
    return i < 0 ? 0 : static_cast<std::uint64_t>(sum.digit_[static_cast<std::size_t>(i)]);
  };
  if (at(top) >> 32) return negative ? -infinity : infinity;  // digits - 1 holds bits beyond all doubles
  // The leading 64 bits, and whether anything lies below: then one conversion rounds as the whole number would.
  const int lead = std::countl_zero(static_cast<std::uint32_t>(at(top)));
  std::uint64_t leading = at(top) << 32 | at(top - 1);
  bool below = false;
  if (lead > 0) leading = leading << lead | at(top - 2) >> (32 - lead), below = (at(top - 2) << lead & low_bits) != 0;
  if (lead == 0) below = at(top - 2) != 0;
  for (int i = top - 3; i >= 0 && !below; --i) below = at(i) != 0;
  const double found =
      std::ldexp(static_cast<double>(leading | (below ? 1 : 0)), least_exponent + 32 * (top - 1) - lead);
  return negative ? -found : found;
}

}  // namespace flagstone::kernel
