#pragma once
// Bits of real elements as unsigned words whose order is that of the elements.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "flagstone/base/real_types.hpp"

namespace flagstone {

template <std::size_t bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = std::uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = std::uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = std::uint64_t;
};
template <class T>
using Word = typename UnsignedOf<sizeof(T)>::type;

template <class T>
inline constexpr bool floating = std::is_floating_point_v<T> || std::is_same_v<T, Half>;
template <class T>
inline constexpr Word<T> sign_bit = static_cast<Word<T>>(Word<T>{1} << (8 * sizeof(T) - 1));
/// Bits above these, without the sign, are NaN's.
template <class T>
inline constexpr Word<T> infinity_bits = sizeof(T) == 2   ? static_cast<Word<T>>(0x7c00u)
                                         : sizeof(T) == 4 ? static_cast<Word<T>>(0x7f800000u)
                                                          : static_cast<Word<T>>(0x7ff0000000000000ull);
/// The largest word: every NaN's, of either sign.
template <class T>
inline constexpr Word<T> nan_word = static_cast<Word<T>>(~Word<T>{0});

template <class T>
constexpr bool is_nan(Word<T> bits) {
  if constexpr (floating<T>) return static_cast<Word<T>>(bits & ~sign_bit<T>) > infinity_bits<T>;
  return false;
}

/// Floats by the sign-magnitude flip (negative ones inverted, the sign of others set), signed integers by their sign.
template <class T>
constexpr Word<T> ordered_bits(Word<T> bits) {
  if constexpr (std::is_same_v<T, Truth>)
    return bits != 0;
  else if constexpr (floating<T>)
    return is_nan<T>(bits) ? nan_word<T>
                           : static_cast<Word<T>>(bits ^ (bits & sign_bit<T> ? nan_word<T> : sign_bit<T>));
  else
    return std::is_signed_v<T> ? static_cast<Word<T>>(bits ^ sign_bit<T>) : bits;
}

/// The bits that a word was made of; one of NaN's for the largest word of floats.
template <class T>
constexpr Word<T> bits_in_order(Word<T> word) {
  if constexpr (floating<T>)
    return word == nan_word<T>  ? static_cast<Word<T>>(infinity_bits<T> | infinity_bits<T> >> 1)
           : word & sign_bit<T> ? static_cast<Word<T>>(word ^ sign_bit<T>)
                                : static_cast<Word<T>>(~word);
  else
    return std::is_signed_v<T> ? static_cast<Word<T>>(word ^ sign_bit<T>) : word;
}

}  // namespace flagstone
