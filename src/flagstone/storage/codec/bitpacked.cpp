#include "flagstone/storage/codec/bitpacked.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace flagstone {
namespace {

constexpr std::size_t group = 128;
constexpr int widest = 56;  // bits that one load of 8 bytes has from any bit of its first byte on

constexpr std::size_t header = sizeof(std::uint64_t) + 1;

/// Numbers below 2^bits.
std::uint64_t mask_of(int bits) { return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }

int bytes_for(int bits) { return (bits + 7) / 8; }

/// How a group is packed: w bits of each code, h bytes above them of e exceptions.
struct Width {
  int bits = 0, exceptions = 0, above = 0;
  std::size_t bytes() const {
    return 3 + 16 * static_cast<std::size_t>(bits) +
           static_cast<std::size_t>(exceptions) * (1u + static_cast<std::size_t>(above));
  }
};

/// The width of the fewest bytes. `lengths[b]`: codes of b significant bits.
Width best(const std::array<int, 65>& lengths) {
  int longest = 64;
  while (longest > 0 && lengths[static_cast<std::size_t>(longest)] == 0) --longest;
  Width found{std::min(longest, widest), 0, 0};
  int longer = 0;  // codes of more than `bits` bits
  for (int bits = longest; bits >= 0; --bits) {
    if (bits <= widest) {
      const Width one{bits, longer, longer > 0 ? bytes_for(longest - bits) : 0};
      if (longer <= 255 && (bits == std::min(longest, widest) || one.bytes() < found.bytes())) found = one;
    }
    longer += lengths[static_cast<std::size_t>(bits)];
  }
  return found;
}

void put_bits(std::byte* to, std::size_t at, std::uint64_t code, int bits) {
  // Of at most 56 bits and a shift of at most 7: one word.
  std::uint64_t word = 0;
  std::byte* place = to + at / 8;
  const std::size_t bytes = (at % 8 + static_cast<std::size_t>(bits) + 7) / 8;
  std::memcpy(&word, place, bytes);
  word |= code << at % 8;
  std::memcpy(place, &word, bytes);
}

std::size_t pack_group(const std::array<std::uint64_t, group>& codes, std::size_t n, std::byte* to) {
  std::array<int, 65> lengths{};
  for (std::size_t i = 0; i < n; ++i) ++lengths[static_cast<std::size_t>(std::bit_width(codes[i]))];
  const Width width = best(lengths);
  to[0] = static_cast<std::byte>(width.bits), to[1] = static_cast<std::byte>(width.exceptions);
  to[2] = static_cast<std::byte>(width.above);
  std::byte* low = to + 3;
  std::byte* places = low + 16 * width.bits;
  std::byte* above = places + width.exceptions;
  std::memset(low, 0, static_cast<std::size_t>(16 * width.bits));
  const std::uint64_t mask = (std::uint64_t{1} << width.bits) - 1;
  for (std::size_t i = 0; i < n; ++i) {
    if (width.bits > 0) put_bits(low, i * static_cast<std::size_t>(width.bits), codes[i] & mask, width.bits);
    if (codes[i] <= mask) continue;
    *places++ = static_cast<std::byte>(i);
    const std::uint64_t rest = codes[i] >> width.bits;
    std::memcpy(above, &rest, static_cast<std::size_t>(width.above));
    above += width.above;
  }
  return width.bytes();
}

/// The codes of a group of `bits` bits: eight at a time begin at a whole byte. Reads 8 bytes beyond the last code.
template <int bits>
void unpack_low(const std::byte* from, std::uint64_t* codes) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  for (std::size_t i = 0; i < group; i += 8, from += bits) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) {
      std::uint64_t word;
      std::memcpy(&word, from + j * bits / 8, sizeof word);
      codes[i + j] = word >> (j * bits % 8) & mask;
    }
  }
}

using Unpack = void (*)(const std::byte*, std::uint64_t*);
template <int... bits>
constexpr std::array<Unpack, sizeof...(bits)> table_of(std::integer_sequence<int, bits...>) {
  return {unpack_low<bits>...};
}
constexpr auto unpack_table = table_of(std::make_integer_sequence<int, widest + 1>());

template <class T>
std::optional<std::size_t> unpack_as(std::span<const std::byte> from, std::span<std::byte> to) {
  std::uint64_t n = 0;
  if (from.size() < header) return std::nullopt;
  std::memcpy(&n, from.data(), sizeof n);
  const auto all = static_cast<int>(from[sizeof n]);
  if (n > to.size() / sizeof(T) || all > static_cast<int>(8 * sizeof(T))) return std::nullopt;
  const std::uint64_t mask = mask_of(all);
  std::array<std::uint64_t, group> codes;
  std::array<std::byte, 16 * widest + 8> tail;  // of a group at the end, behind which 8 bytes may not be read
  std::size_t at = header;
  std::uint64_t value = 0;
  for (std::uint64_t first = 0; first < n; first += group) {
    if (from.size() - at < 3) return std::nullopt;
    const auto width = static_cast<std::size_t>(from[at]), exceptions = static_cast<std::size_t>(from[at + 1]);
    const auto above = static_cast<std::size_t>(from[at + 2]);
    const std::size_t low = at + 3, places = low + 16 * width, rest = places + exceptions;
    if (width > widest || above > 8 || rest + exceptions * above > from.size()) return std::nullopt;
    const std::byte* source = from.data() + low;
    if (places + 8 > from.size()) {
      std::memcpy(tail.data(), source, 16 * width);
      std::memset(tail.data() + 16 * width, 0, 8);
      source = tail.data();
    }
    unpack_table[width](source, codes.data());
    for (std::size_t i = 0; i < exceptions; ++i) {
      const auto place = static_cast<std::size_t>(from[places + i]);
      std::uint64_t high = 0;
      std::memcpy(&high, from.data() + rest + i * above, above);
      if (place >= group) return std::nullopt;
      codes[place] |= high << width;
    }
    at = rest + exceptions * above;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(group, n - first));
    T* target = reinterpret_cast<T*>(to.data()) + first;
    for (std::size_t i = 0; i < count; ++i) {
      value = (value + codes[i]) & mask;
      target[i] = static_cast<T>(value);
    }
  }
  if (at != from.size()) return std::nullopt;
  return static_cast<std::size_t>(n) * sizeof(T);
}

template <class T>
std::size_t pack_as(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::uint64_t n = from.size() / sizeof(T);
  std::memcpy(to.data(), &n, sizeof n);
  std::uint64_t before = 0, seen = 0;
  const auto at_place = [&](std::uint64_t i) {
    T value;
    std::memcpy(&value, from.data() + i * sizeof(T), sizeof value);
    return std::uint64_t{value};
  };
  for (std::uint64_t i = 0; i < n; ++i) seen |= at_place(i);
  const int all = std::bit_width(seen);
  to[sizeof n] = static_cast<std::byte>(all);
  const std::uint64_t mask = mask_of(all);
  std::size_t at = header;
  std::array<std::uint64_t, group> codes{};
  for (std::uint64_t first = 0; first < n; first += group) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(group, n - first));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t value = at_place(first + i);
      codes[i] = (value - before) & mask;
      before = value;
    }
    at += pack_group(codes, count, to.data() + at);
  }
  return at;
}

}  // namespace

std::size_t most_bitpacked(std::size_t bytes, std::size_t item) {
  // No width costs more than all bits of all codes; those beyond 56 bits are exceptions of 2 bytes.
  const std::size_t n = bytes / item, groups = (n + group - 1) / group;
  const std::size_t bits = std::min<std::size_t>(8 * item, widest);
  return header + groups * (3 + 16 * bits + 2 * group);
}

std::size_t pack_bits(std::span<const std::byte> from, std::size_t item, std::span<std::byte> to) {
  switch (item) {
    case 1:
      return pack_as<std::uint8_t>(from, to);
    case 2:
      return pack_as<std::uint16_t>(from, to);
    case 4:
      return pack_as<std::uint32_t>(from, to);
    default:
      return pack_as<std::uint64_t>(from, to);
  }
}

std::optional<std::size_t> unpack_bits(std::span<const std::byte> from, std::size_t item, std::span<std::byte> to) {
  switch (item) {
    case 1:
      return unpack_as<std::uint8_t>(from, to);
    case 2:
      return unpack_as<std::uint16_t>(from, to);
    case 4:
      return unpack_as<std::uint32_t>(from, to);
    case 8:
      return unpack_as<std::uint64_t>(from, to);
    default:
      return std::nullopt;
  }
}

}  // namespace flagstone
