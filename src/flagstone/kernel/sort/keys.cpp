#include "flagstone/kernel/sort/keys.hpp"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <utility>

#include "flagstone/base/ordered_bits.hpp"

namespace flagstone::kernel {
namespace {

/// NaN's is the largest, either way; that of −0.0 is 0.0's.
template <class T, bool descending>
inline Word<T> word_of(Word<T> bits) {
  if (is_nan<T>(bits)) return nan_word<T>;
  if (floating<T> && bits == sign_bit<T>) bits = 0;
  const Word<T> word = ordered_bits<T>(bits);
  return descending ? static_cast<Word<T>>(~word) : word;
}

template <class T>
Word<T> bits_at(const std::byte* from) {
  Word<T> bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

/// Calls f with a function record -> word.
template <class F>
void visit_word(const Key& key, int which, F&& f) {
  const auto real = [&]<class T>(T) {
    const auto each = [&]<bool descending>(std::bool_constant<descending>) {
      f([offset = key.offset](const std::byte* record) -> std::uint64_t {
        return word_of<T, descending>(bits_at<T>(record + offset));
      });
    };
    key.descending ? each(std::true_type{}) : each(std::false_type{});
  };
  const auto part = [&]<class T>(T) {
    const auto parts = [offset = key.offset](const std::byte* record) {
      return std::array{bits_at<T>(record + offset), bits_at<T>(record + offset + sizeof(T))};
    };
    if (which == 0)
      return f([=](const std::byte* record) -> std::uint64_t {
        const auto bits = parts(record);
        return 2u * is_nan<T>(bits[0]) + is_nan<T>(bits[1]);
      });
    const auto i = static_cast<std::size_t>(which - 1);
    f([=, down = key.descending](const std::byte* record) -> std::uint64_t {
      const Word<T> bits = parts(record)[i];
      if (is_nan<T>(bits)) return 0;
      return down ? word_of<T, true>(bits) : word_of<T, false>(bits);
    });
  };
  if (key.dtype == Dtype::complex64) return part(float{});
  if (key.dtype == Dtype::complex128) return part(double{});
  visit_real_type(key.dtype, real);
}

/// Stable, by `digits` bytes of what `word` says of an item; items move between `a` and `b`. Returns where they end.
template <class T, class F>
T* radix_sort(T* a, Index n, T* b, std::size_t digits, const F& word) {
  std::array<std::array<Index, 256>, 8> counts{};
  for (Index i = 0; i < n; ++i) {
    std::uint64_t w = word(a[i]);
    for (std::size_t d = 0; d < digits; ++d, w >>= 8) ++counts[d][w & 255];
  }
  for (std::size_t d = 0; d < digits; ++d) {
    auto& places = counts[d];
    if (std::find(places.begin(), places.end(), n) != places.end()) continue;
    Index next = 0;
    for (Index& place : places) next += std::exchange(place, next);
    for (Index i = 0; i < n; ++i) b[places[word(a[i]) >> (8 * d) & 255]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

constexpr Index few = 256;  // below it counting the digits costs more than comparing

/// Elements that are records.
template <class T, bool descending>
Word<T>* sort_words(Word<T>* a, Index n, Word<T>* b) {
  const auto key = [](Word<T> bits) { return word_of<T, descending>(bits); };
  if (n > few) return radix_sort(a, n, b, sizeof(T), key);
  std::stable_sort(a, a + n, [&](Word<T> x, Word<T> y) { return key(x) < key(y); });
  return a;
}

struct Entry {
  std::uint64_t word;
  std::uint64_t record;
};

void gather(const std::byte* records, const Entry* entries, Index n, std::size_t width, std::byte* to) {
  const auto each = [&](auto bytes) {
    for (Index i = 0; i < n; ++i, to += width)
      std::memcpy(to, records + entries[i].record * width, decltype(bytes)::value ? decltype(bytes)::value : width);
  };
  switch (width) {
    case 12:
      return each(std::integral_constant<std::size_t, 12>{});
    case 16:
      return each(std::integral_constant<std::size_t, 16>{});
    case 20:
      return each(std::integral_constant<std::size_t, 20>{});
    case 24:
      return each(std::integral_constant<std::size_t, 24>{});
    default:
      return each(std::integral_constant<std::size_t, 0>{});
  }
}

}  // namespace

int words_of(Dtype dtype) noexcept { return is_complex(dtype) ? 3 : 1; }

std::uint64_t word(const Key& key, int which, const std::byte* record) {
  std::uint64_t found = 0;
  visit_word(key, which, [&](const auto& of) { found = of(record); });
  return found;
}

KeyOrder::KeyOrder(std::size_t width, std::vector<Key> keys) : RecordOrder(width), keys_(std::move(keys)) {}

bool KeyOrder::alone() const {
  return keys_.size() == 1 && !is_complex(keys_[0].dtype) && width() == size_of(keys_[0].dtype);
}

std::size_t KeyOrder::work_bytes(Index n) const {
  const auto records = static_cast<std::size_t>(n);
  return alone() ? records * width() : records * (2 * sizeof(Entry) + width());
}

std::byte* KeyOrder::sort(std::byte* records, Index n, std::byte* work) const {
  if (alone()) {
    std::byte* sorted = records;
    visit_real_type(keys_[0].dtype, [&]<class T>(T) {
      auto *a = reinterpret_cast<Word<T>*>(records), *b = reinterpret_cast<Word<T>*>(work);
      a = keys_[0].descending ? sort_words<T, true>(a, n, b) : sort_words<T, false>(a, n, b);
      sorted = reinterpret_cast<std::byte*>(a);
    });
    return sorted;
  }
  auto* entries = reinterpret_cast<Entry*>(work);
  auto* others = entries + n;
  for (Index i = 0; i < n; ++i) entries[i] = {0, static_cast<std::uint64_t>(i)};
  for (std::size_t k = keys_.size(); k-- > 0;) {
    const Key& key = keys_[k];
    for (int which = words_of(key.dtype); which-- > 0;)
      visit_word(key, which, [&](const auto& of) {
        for (Index i = 0; i < n; ++i) entries[i].word = of(records + entries[i].record * width());
        const auto word_of_entry = [](const Entry& entry) { return entry.word; };
        if (n <= few) {
          std::stable_sort(entries, entries + n, [](const Entry& x, const Entry& y) { return x.word < y.word; });
          return;
        }
        const std::size_t digits =
            is_complex(key.dtype) ? (which == 0 ? 1 : size_of(key.dtype) / 2) : size_of(key.dtype);
        Entry* sorted = radix_sort(entries, n, others, digits, word_of_entry);
        if (sorted != entries) std::swap(entries, others);
      });
  }
  std::byte* to = work + 2 * sizeof(Entry) * static_cast<std::size_t>(n);
  gather(records, entries, n, width(), to);
  return to;
}

bool KeyOrder::less(const std::byte* a, const std::byte* b) const {
  for (const Key& key : keys_)
    for (int which = 0; which < words_of(key.dtype); ++which) {
      const std::uint64_t x = word(key, which, a), y = word(key, which, b);
      if (x != y) return x < y;
    }
  return false;
}

}  // namespace flagstone::kernel
