#pragma once
// Additions and multiplications that a product may use in place of + and x.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "flagstone/base/error.hpp"

namespace flagstone {

/// Addition and multiplication of a · x; `first` is a, `second` x, `pair` 1 where both are there.
enum class Semiring : std::uint8_t {
  plus_times,
  min_plus,    // whole numbers saturate
  max_plus,    // whole numbers saturate
  max_times,   // whole numbers saturate
  or_and,      // of truths
  min_first,   // the least a
  min_second,  // the least x
  plus_pair,   // how many pairs meet
};
inline constexpr std::array<std::string_view, 8> semiring_names{"plus_times", "min_plus",  "max_plus",   "max_times",
                                                                "or_and",     "min_first", "min_second", "plus_pair"};
inline constexpr std::size_t semiring_count = semiring_names.size();

constexpr std::string_view name_of(Semiring semiring) { return semiring_names[static_cast<std::size_t>(semiring)]; }

/// Error for another name.
inline Semiring semiring_from_name(std::string_view name) {
  for (std::size_t i = 0; i < semiring_count; ++i)
    if (semiring_names[i] == name) return static_cast<Semiring>(i);
  throw Error("semiring: '" + std::string(name) + "' is none; plus_times, min_plus, max_plus, max_times, or_and, " +
              "min_first, min_second or plus_pair is needed.");
}

}  // namespace flagstone
