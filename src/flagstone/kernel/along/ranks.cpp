#include "flagstone/kernel/along/ranks.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "flagstone/base/ordered_bits.hpp"
#include "flagstone/kernel/along/runs.hpp"

namespace flagstone::kernel {
namespace {

template <class T>
Word<T> key_of(T value) {
  Word<T> bits;
  std::memcpy(&bits, &value, sizeof bits);
  return ordered_bits<T>(bits);
}

template <class T>
T value_of(Word<T> key) {
  const Word<T> bits = bits_in_order<T>(key);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The words of a state. Target t of a lane is looked for in bin `bin[t]` of its `distinct` ones, which increase.
template <class Unsigned>
struct States {
  States(Index lanes, Index targets, Unsigned* words)
      : distinct(words),
        nans(distinct + lanes),
        prefix(nans + lanes),
        bin(prefix + lanes * targets),
        rank(bin + lanes * targets),
        inside(rank + lanes * targets) {}
  Unsigned *distinct, *nans;               // of each lane
  Unsigned *prefix, *bin, *rank, *inside;  // of each target of each lane: prefix and inside of each distinct bin
};
using State = States<std::uint64_t>;
using KnownState = States<const std::uint64_t>;

State state_of(const Ranks& r, std::byte* state) {
  return {r.lanes, r.targets(), reinterpret_cast<std::uint64_t*>(state)};
}
KnownState state_of(const Ranks& r, const std::byte* state) {
  return {r.lanes, r.targets(), reinterpret_cast<const std::uint64_t*>(state)};
}

template <class F>
void visit_counts(bool wide, F f) {
  wide ? f(std::uint64_t{}) : f(std::uint32_t{});
}

template <class T>
T load(const std::byte* data, Index j, Index stride) {
  return *reinterpret_cast<const T*>(data + j * stride);
}

template <class T, class Count>
void count_first(const Ranks& r, const Tile& values, Count* counts) {
  const Index bins = r.bins();
  Count* const nans = counts + r.lanes * bins;
  for_each_run(values, r.lane_strides, [&](const std::byte* data, Index stride, Index n, Index lane, Index step) {
    for (Index j = 0; j < n; ++j, lane += step) {
      const Word<T> key = key_of(load<T>(data, j, stride));
      ++counts[lane * bins + static_cast<Index>(key >> r.shift)];
      if constexpr (floating<T>)
        if (key == nan_word<T>) ++nans[lane];
    }
  });
}

constexpr Index block = 64;

/// Calls f(lane, bin, key) for keys that lie in a bin that is looked for. Of nearly all lanes there is one, and nearly
/// no key lies in it: blocks are compared first, the few others follow one by one.
template <class T, class F>
void for_each_candidate(const Ranks& r, const Tile& values, const KnownState& state, F f) {
  const int below = r.shift + r.bits;
  const Index targets = r.targets();
  std::vector<Word<T>> first(static_cast<std::size_t>(r.lanes));
  std::vector<std::pair<Index, Index>> others;  // lane, bin
  for (Index l = 0; l < r.lanes; ++l) {
    first[static_cast<std::size_t>(l)] = static_cast<Word<T>>(state.prefix[l * targets]);
    for (Index g = 1; g < static_cast<Index>(state.distinct[l]); ++g) others.emplace_back(l, g);
  }
  const auto leading = [&](T x) { return static_cast<Word<T>>(key_of(x) >> below); };
  for_each_run(values, r.lane_strides, [&](const std::byte* data, Index stride, Index n, Index lane, Index step) {
    std::uint8_t in[block];
    for (Index from = 0; from < n; from += block) {
      const Index m = std::min(block, n - from);
      std::uint8_t some = 0;
      const Word<T>* wanted = first.data() + lane + from * step;
      if (stride == sizeof(T) && step == 1) {
        const T* x = reinterpret_cast<const T*>(data) + from;
        for (Index j = 0; j < m; ++j) some |= in[j] = leading(x[j]) == wanted[j];
      } else if (stride == sizeof(T) && step == 0) {
        const T* x = reinterpret_cast<const T*>(data) + from;
        const Word<T> one = *wanted;
        for (Index j = 0; j < m; ++j) some |= in[j] = leading(x[j]) == one;
      } else {
        for (Index j = 0; j < m; ++j) some |= in[j] = leading(load<T>(data, from + j, stride)) == wanted[j * step];
      }
      if (some)
        for (Index j = 0; j < m; ++j)
          if (in[j]) f(lane + (from + j) * step, Index{0}, key_of(load<T>(data, from + j, stride)));
    }
    if (others.empty()) return;
    const auto lane_of = [](const std::pair<Index, Index>& one, Index l) { return one.first < l; };
    auto other = std::lower_bound(others.begin(), others.end(), lane, lane_of);
    const Index end = step == 0 ? lane + 1 : lane + n * step;
    for (; other != others.end() && other->first < end; ++other) {
      const auto wanted = static_cast<Word<T>>(state.prefix[other->first * targets + other->second]);
      const auto look = [&](Index j) {
        const T x = load<T>(data, j, stride);
        if (leading(x) == wanted) f(other->first, other->second, key_of(x));
      };
      if (step == 0)
        for (Index j = 0; j < n; ++j) look(j);
      else if ((other->first - lane) % step == 0)
        look((other->first - lane) / step);
    }
  });
}

template <class T, class Count>
void count_further(const Ranks& r, const Tile& values, const KnownState& state, Count* counts) {
  const Index bins = r.bins(), targets = r.targets();
  for_each_candidate<T>(r, values, state, [&](Index lane, Index bin, Word<T> key) {
    ++counts[(lane * targets + bin) * bins + (static_cast<Index>(key >> r.shift) & (bins - 1))];
  });
}

}  // namespace

int key_bits(Dtype dtype) { return dtype == Dtype::boolean ? 1 : 8 * static_cast<int>(size_of(dtype)); }

std::size_t rank_state_bytes(Index lanes, Index targets) {
  return 8 * static_cast<std::size_t>(lanes * (2 + 4 * targets));
}

std::size_t rank_count_bytes(const Ranks& r) {
  const Index counts = r.first ? r.lanes * (r.bins() + 1) : r.lanes * r.targets() * r.bins();
  return static_cast<std::size_t>(counts) * (r.wide ? 8 : 4);
}

void count_keys(const Ranks& r, const Tile& values, const std::byte* state, std::byte* counts) {
  visit_real_type(r.dtype, [&](auto sample) {
    using T = decltype(sample);
    visit_counts(r.wide, [&](auto count) {
      auto* const to = reinterpret_cast<decltype(count)*>(counts);
      r.first ? count_first<T>(r, values, to) : count_further<T>(r, values, state_of(r, state), to);
    });
  });
}

void join_counts(const Ranks& r, const std::byte* from, std::byte* to) {
  visit_counts(r.wide, [&](auto count) {
    using Count = decltype(count);
    const auto n = static_cast<Index>(rank_count_bytes(r) / sizeof(Count));
    const auto* a = reinterpret_cast<const Count*>(from);
    auto* b = reinterpret_cast<Count*>(to);
    for (Index i = 0; i < n; ++i) b[i] += a[i];
  });
}

void choose_bins(const Ranks& r, const std::byte* counts, std::byte* bytes) {
  const State state = state_of(r, bytes);
  const Index targets = r.targets(), bins = r.bins();
  visit_counts(r.wide, [&](auto sample) {
    const auto* all = reinterpret_cast<const decltype(sample)*>(counts);
    std::vector<std::uint64_t> prefix(static_cast<std::size_t>(targets)), inside = prefix;
    for (Index l = 0; l < r.lanes; ++l) {
      const Index own = l * targets;
      if (r.first) {
        state.nans[l] = all[r.lanes * bins + l];
        for (Index t = 0; t < targets; ++t) {
          state.bin[own + t] = 0, state.prefix[own + t] = 0;
          state.rank[own + t] = static_cast<std::uint64_t>(r.wanted[static_cast<std::size_t>(t)]);
        }
      }
      // Targets increase, so bins and what lies below them do: one look at each histogram.
      Index found = 0, at = 0;
      std::uint64_t histogram = ~std::uint64_t{0}, below = 0;
      const decltype(sample)* own_counts = nullptr;
      for (Index t = 0; t < targets; ++t) {
        if (state.bin[own + t] != histogram) {
          histogram = state.bin[own + t], at = 0, below = 0;
          own_counts = all + (r.first ? l * bins : (own + static_cast<Index>(histogram)) * bins);
        }
        const std::uint64_t rank = state.rank[own + t];
        while (at + 1 < bins && below + own_counts[at] <= rank) below += own_counts[at++];
        const std::uint64_t made =
            state.prefix[own + static_cast<Index>(histogram)] << r.bits | static_cast<std::uint64_t>(at);
        if (found == 0 || prefix[static_cast<std::size_t>(found - 1)] != made) {
          prefix[static_cast<std::size_t>(found)] = made, inside[static_cast<std::size_t>(found)] = own_counts[at];
          ++found;
        }
        state.rank[own + t] = rank - below;
        state.bin[own + t] = static_cast<std::uint64_t>(found - 1);
        // `prefix` of the state is read by later targets of the same histogram: changed when all are done.
      }
      std::copy_n(prefix.begin(), found, state.prefix + own);
      std::copy_n(inside.begin(), found, state.inside + own);
      state.distinct[l] = static_cast<std::uint64_t>(found);
    }
  });
}

Index candidates(Index lanes, Index targets, const std::byte* bytes) {
  const KnownState state(lanes, targets, reinterpret_cast<const std::uint64_t*>(bytes));
  Index all = 0;
  for (Index l = 0; l < lanes; ++l)
    for (Index g = 0; g < static_cast<Index>(state.distinct[l]); ++g)
      all += static_cast<Index>(state.inside[l * targets + g]);
  return all;
}

void write_answers(const Ranks& r, const std::byte* bytes, const Tile& to) {
  const KnownState state = state_of(r, bytes);
  const Index targets = r.targets();
  if (count(to.shape) == 0) return;
  visit_real_type(r.dtype, [&](auto sample) {
    using T = decltype(sample);
    const std::size_t ndim = to.shape.size();
    Shape place(ndim - 1, 0), extents(to.shape.begin() + 1, to.shape.end());
    Index lane = 0;
    do {
      std::byte* data = to.data;
      for (std::size_t d = 0; d + 1 < ndim; ++d) data += place[d] * to.strides[d + 1];
      for (Index t = 0; t < targets; ++t) {
        const std::uint64_t prefix = state.prefix[lane * targets + static_cast<Index>(state.bin[lane * targets + t])];
        const T value = value_of<T>(state.nans[lane] != 0 ? nan_word<T> : static_cast<Word<T>>(prefix));
        std::memcpy(data + t * to.strides[0], &value, sizeof value);
      }
      ++lane;
    } while (advance(place, extents));
  });
}

Index Collected::add(const Ranks& r, const std::byte* bytes, Index next) {
  const auto n = static_cast<std::size_t>(r.lanes * r.targets());
  const KnownState state = state_of(r, bytes);
  std::vector<Index>& own = begins.emplace_back(n);
  auto& at = cursors.emplace_back(new std::atomic<Index>[n]);
  for (std::size_t i = 0; i < n; ++i) {
    own[i] = next, at[i] = next;
    const auto lane = static_cast<Index>(i) / r.targets();
    if (static_cast<Index>(i) % r.targets() < static_cast<Index>(state.distinct[lane]))
      next += static_cast<Index>(state.inside[i]);
  }
  return next;
}

void collect_keys(const Ranks& r, const Tile& values, const std::byte* bytes, Collected& to, std::size_t which) {
  auto* const keys = reinterpret_cast<std::uint64_t*>(to.keys);
  std::atomic<Index>* const cursors = to.cursors[which].get();
  visit_real_type(r.dtype, [&](auto sample) {
    using T = decltype(sample);
    for_each_candidate<T>(r, values, state_of(r, bytes), [&](Index lane, Index bin, Word<T> key) {
      keys[cursors[lane * r.targets() + bin].fetch_add(1, std::memory_order_relaxed)] = key;
    });
  });
}

void select_collected(const Ranks& r, std::byte* bytes, Collected& from, std::size_t which) {
  const State state = state_of(r, bytes);
  auto* const keys = reinterpret_cast<std::uint64_t*>(from.keys);
  const Index targets = r.targets();
  std::vector<std::uint64_t> answers(static_cast<std::size_t>(targets));
  for (Index l = 0; l < r.lanes; ++l) {
    const Index own = l * targets;
    for (Index t = 0; t < targets; ++t) {
      const auto which_bin = static_cast<std::size_t>(own + static_cast<Index>(state.bin[own + t]));
      std::uint64_t* const begin = keys + from.begins[which][which_bin];
      std::uint64_t* const end = keys + from.cursors[which][which_bin];
      std::nth_element(begin, begin + state.rank[own + t], end);
      answers[static_cast<std::size_t>(t)] = begin[state.rank[own + t]];
    }
    for (Index t = 0; t < targets; ++t) {
      state.prefix[own + t] = answers[static_cast<std::size_t>(t)];
      state.bin[own + t] = static_cast<std::uint64_t>(t);
    }
  }
}

void select_whole(const Ranks& r, const Tile& values, std::byte* work, const Tile& to) {
  visit_real_type(r.dtype, [&](auto sample) {
    using T = decltype(sample);
    const Index length = count(values.shape) / std::max<Index>(1, r.lanes);
    auto* const keys = reinterpret_cast<Word<T>*>(work);
    std::vector<Index> filled(static_cast<std::size_t>(r.lanes), 0);
    for_each_run(values, r.lane_strides, [&](const std::byte* data, Index stride, Index n, Index lane, Index step) {
      for (Index j = 0; j < n; ++j, lane += step)
        keys[lane * length + filled[static_cast<std::size_t>(lane)]++] = key_of(load<T>(data, j, stride));
    });
    const std::size_t ndim = to.shape.size();
    Shape place(ndim - 1, 0), extents(to.shape.begin() + 1, to.shape.end());
    Index lane = 0;
    do {
      Word<T>* const begin = keys + lane * length;
      Word<T>* from = begin;
      std::byte* data = to.data;
      for (std::size_t d = 0; d + 1 < ndim; ++d) data += place[d] * to.strides[d + 1];
      bool nan = false;
      if constexpr (floating<T>) nan = std::find(begin, begin + length, nan_word<T>) != begin + length;
      for (Index t = 0; t < r.targets(); ++t) {
        T value = value_of<T>(nan_word<T>);
        if (!nan) {
          Word<T>* const at = begin + r.wanted[static_cast<std::size_t>(t)];
          if (at >= from) std::nth_element(from, at, begin + length), from = at + 1;
          value = value_of<T>(*at);
        }
        std::memcpy(data + t * to.strides[0], &value, sizeof value);
      }
      ++lane;
    } while (advance(place, extents));
  });
}

}  // namespace flagstone::kernel
