#include "flagstone/algorithms/forest/growth.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/labels/logistic.hpp"
#include "flagstone/kernel/labels/sides.hpp"

namespace flagstone::forest {
namespace {

using labels::BucketView;
using labels::EncodedSize;

constexpr std::size_t least_room = std::size_t{4} << 20;  // of their weights

/// Points order[begin, end) that wait to be split.
struct Waiting {
  std::int32_t begin = 0, end = 0, node = 0, level = 0;
};
struct StateHead {
  Index next = 0, filled = 0, nodes = 0;  // of the queue: the next one, its end; nodes that have a number
};
std::size_t nodes_bytes(const GrowthOptions& options) {
  return static_cast<std::size_t>(options.most_grown) * sizeof(Grown);
}

struct NodesHead {
  Index number = 0, bytes = 0;
};

class Parts {
 public:
  explicit Parts(std::byte* from) : from_(from) {}
  template <class T>
  T* take(Index n) {
    const std::size_t at = std::exchange(bytes, bytes + align_up(static_cast<std::size_t>(n) * sizeof(T), 64));
    return from_ ? reinterpret_cast<T*>(from_ + at) : nullptr;  // null: sizes alone
  }
  std::size_t bytes = 0;

 private:
  std::byte* from_;
};

struct State {
  State(const Growth& growth, std::byte* from) {
    Parts parts(from);
    head = parts.take<StateHead>(1);
    queue = parts.take<Waiting>(2 * growth.size.rows + 2);
    order = parts.take<std::int32_t>(growth.size.rows);
    bytes = parts.bytes;
  }
  StateHead* head;
  Waiting* queue;
  std::int32_t* order;
  std::size_t bytes;
};

struct Memory {
  Memory(const Growth& growth, std::byte* from) {
    const Index rows = growth.size.rows, values = growth.size.values + rows, columns = growth.features + 1;
    Parts parts(from);
    numbers = parts.take<double>(static_cast<Index>(kernel::logistic_numbers(rows, columns)));
    w = parts.take<double>(columns), scores = parts.take<double>(rows);
    sums = parts.take<double>(growth.labels), others = parts.take<double>(growth.labels);
    pointers = parts.take<Index>(columns + 2);
    row = parts.take<std::int32_t>(values), value = parts.take<float>(values);
    index = parts.take<std::int32_t>(columns), local = parts.take<std::int32_t>(columns);
    found = parts.take<std::uint32_t>(std::max(columns, growth.labels));
    seen = parts.take<std::int32_t>(growth.labels), ranked = parts.take<std::int32_t>(growth.labels);
    moved = parts.take<std::int32_t>(rows), side = parts.take<std::uint8_t>(rows);
    bytes = parts.bytes;
  }
  double *numbers, *w, *scores, *sums, *others;
  Index* pointers;
  std::int32_t *row, *index, *local, *seen, *ranked, *moved;
  float* value;
  std::uint32_t* found;
  std::uint8_t* side;
  std::size_t bytes;
};

class Grower {
 public:
  Grower(const Growth& growth, std::span<const Tile> tiles)
      : growth_(growth),
        view_(labels::bucket_view(tiles[0], growth.size)),
        state_(growth, tiles[1].data),
        at_(growth, tiles.back().data),
        to_(tiles[2].data) {}

  void run() {
    std::fill_n(at_.local, growth_.features + 1, std::int32_t{0});
    std::fill_n(at_.sums, growth_.labels, 0.0), std::fill_n(at_.others, growth_.labels, 0.0);
    *head() = {};
    if (growth_.begins) {
      *state_.head = {0, 1, 1};
      state_.queue[0] = {0, static_cast<std::int32_t>(view_.rows), 0, 0};
      std::iota(state_.order, state_.order + view_.rows, 0);
    }
    while (state_.head->next < state_.head->filled && has_room()) grow(state_.queue[state_.head->next++]);
  }

 private:
  NodesHead* head() const { return reinterpret_cast<NodesHead*>(to_); }
  Grown* grown() const { return reinterpret_cast<Grown*>(to_ + 64); }
  std::byte* room() const { return to_ + 64 + align_up(nodes_bytes(growth_.options), 64); }
  bool has_room() const {
    const Index most = std::max(growth_.features + 1, growth_.labels);
    const EncodedSize next{kernel::most_rows(most, most), most, 1, growth_.options.small_weights};
    const std::size_t used = static_cast<std::size_t>(room() - to_) + static_cast<std::size_t>(head()->bytes);
    return head()->number < growth_.options.most_grown && used + next.bytes() <= growth_.room_bytes();
  }
  std::span<std::int32_t> points(const Waiting& node) const {
    return {state_.order + node.begin, static_cast<std::size_t>(node.end - node.begin)};
  }

  void grow(const Waiting& node) {
    const auto own = points(node);
    if (static_cast<Index>(own.size()) <= growth_.options.max_leaf || !separate(node, own)) return leaf(node, own);
    const auto none = at_.scores;
    Index left = 0, right = 0;
    for (std::size_t p = 0; p < own.size(); ++p) {
      if (none[p] > 0)
        at_.moved[right++] = own[p];
      else
        own[static_cast<std::size_t>(left++)] = own[p];
    }
    std::copy_n(at_.moved, right, own.begin() + left);
    const auto first = static_cast<std::int32_t>(state_.head->nodes);
    const auto middle = static_cast<std::int32_t>(node.begin + left);
    keep({node.level, node.node, first, 0, 0}, columns_, at_.w, growth_.features + 1);
    state_.head->nodes += 2;
    state_.queue[state_.head->filled++] = {node.begin, middle, first, node.level + 1};
    state_.queue[state_.head->filled++] = {middle, node.end, first + 1, node.level + 1};
  }

  std::uint64_t seed(const Waiting& node, std::uint64_t what) const {
    return labels::seed_of(growth_.options.seed, static_cast<std::uint64_t>(growth_.tree),
                           static_cast<std::uint64_t>(node.node), what);
  }

  /// Weights in w, columns_ of them by `found`; w·x of the points in `scores`. False where one side is empty.
  bool separate(const Waiting& node, std::span<const std::int32_t> own) {
    const kernel::LabelledPoints labelled{view_.key_pointers, view_.keys, growth_.worth->data()};
    kernel::split_sides(labelled, own, seed(node, 1), {at_.sums, at_.others, at_.seen, at_.ranked}, at_.side);
    const auto n = static_cast<Index>(own.size());
    const Index right = std::accumulate(at_.side, at_.side + n, Index{0});
    if (right == 0 || right == n) return false;
    gather(own);
    const kernel::SparseColumns x{n, columns_, at_.pointers, at_.row, at_.value};
    const double all = growth_.options.cost * static_cast<double>(n);
    const kernel::LogisticOptions logistic{growth_.options.steps,
                                           growth_.options.eps,
                                           {all / static_cast<double>(n - right), all / static_cast<double>(right)},
                                           seed(node, 2)};
    const std::span<double> numbers(at_.numbers, kernel::logistic_numbers(n, columns_));
    kernel::train_logistic(x, at_.side, logistic, at_.w, numbers, at_.index);
    std::fill_n(at_.scores, n, 0.0);
    for (Index j = 0; j < columns_; ++j)
      for (Index p = x.pointers[j]; at_.w[j] != 0 && p < x.pointers[j + 1]; ++p)
        at_.scores[x.row[p]] += static_cast<double>(static_cast<float>(at_.w[j])) * static_cast<double>(x.values[p]);
    const Index up = std::count_if(at_.scores, at_.scores + n, [](double score) { return score > 0; });
    return up > 0 && up < n;
  }

  /// The node's points by columns, of those that occur; the last one is 1.
  void gather(std::span<const std::int32_t> own) {
    const auto each = [&](auto&& use) {
      for (std::size_t i = 0; i < own.size(); ++i)
        for (Index p = view_.points.pointers[own[i]]; p < view_.points.pointers[own[i] + 1]; ++p)
          use(static_cast<std::int32_t>(i), view_.points.columns[p], view_.points.values[p]);
    };
    columns_ = 0;
    each([&](std::int32_t, std::uint32_t column, float) {
      if (at_.local[column]++ == 0) at_.found[columns_++] = column;
    });
    std::sort(at_.found, at_.found + columns_);
    at_.pointers[0] = at_.pointers[1] = 0;
    for (Index j = 0; j < columns_; ++j) {
      at_.pointers[j + 2] = at_.pointers[j + 1] + at_.local[at_.found[j]];
      at_.local[at_.found[j]] = static_cast<std::int32_t>(j);
    }
    each([&](std::int32_t i, std::uint32_t column, float value) {
      const Index p = at_.pointers[at_.local[column] + 1]++;
      at_.row[p] = i, at_.value[p] = value;
    });
    for (Index j = 0; j < columns_; ++j) at_.local[at_.found[j]] = 0;
    Index end = at_.pointers[columns_];
    for (std::size_t i = 0; i < own.size(); ++i) at_.row[end] = static_cast<std::int32_t>(i), at_.value[end++] = 1;
    at_.found[columns_++] = static_cast<std::uint32_t>(growth_.features);
    at_.pointers[columns_] = end;
  }

  void leaf(const Waiting& node, std::span<const std::int32_t> own) {
    Index seen = 0;
    for (const std::int32_t point : own)
      for (Index k = view_.key_pointers[point]; k < view_.key_pointers[point + 1]; ++k) {
        const std::int32_t label = view_.keys[k];
        if (at_.sums[label] == 0) at_.seen[seen++] = label;
        at_.sums[label] += (*growth_.worth)[static_cast<std::size_t>(label)];
      }
    const Index kept = std::min(seen, growth_.options.leaf_labels);
    std::partial_sort(at_.seen, at_.seen + kept, at_.seen + seen, [&](std::int32_t a, std::int32_t b) {
      return at_.sums[a] > at_.sums[b] || (at_.sums[a] == at_.sums[b] && a < b);
    });
    std::sort(at_.seen, at_.seen + kept);
    for (Index j = 0; j < kept; ++j) {
      at_.found[j] = static_cast<std::uint32_t>(at_.seen[j]);
      at_.others[j] = at_.sums[at_.seen[j]] / static_cast<double>(own.size());
    }
    keep({node.level, node.node, -1, 0, 0}, kept, at_.others, growth_.labels);
    for (Index j = 0; j < seen; ++j) at_.sums[at_.seen[j]] = 0;
    std::fill_n(at_.others, kept, 0.0);
  }

  /// Stores what is not zero of `n` weights of the columns in `found`.
  void keep(Grown one, Index n, double* w, Index cols) {
    Index kept = 0;
    for (Index j = 0; j < n; ++j)
      if (w[j] != 0) at_.found[kept] = at_.found[j], w[kept++] = w[j];
    one.kept = kept, one.offset = static_cast<Index>(room() - to_) + head()->bytes;
    const EncodedSize size{kernel::most_rows(kept, cols), kept, 1, growth_.options.small_weights};
    kernel::ChunkTarget to = size.target(to_ + one.offset);
    kernel::encode_chunk(at_.found, kept, w, 1, 0, to);
    EncodedSize::note(to_ + one.offset, to);
    head()->bytes += static_cast<Index>(align_up(size.bytes(), 64));
    grown()[head()->number++] = one;
  }

  const Growth& growth_;
  BucketView view_;
  State state_;
  Memory at_;
  std::byte* to_;
  Index columns_ = 0;
};

}  // namespace

std::size_t Growth::scratch_bytes() const { return Memory(*this, nullptr).bytes; }
std::size_t Growth::state_bytes() const { return State(*this, nullptr).bytes; }
std::size_t Growth::room_bytes() const {
  const Index most = std::max(features + 1, labels);
  const EncodedSize widest{kernel::most_rows(most, most), most, 1, options.small_weights};
  return 64 + align_up(nodes_bytes(options), 64) + std::max(least_room, 2 * align_up(widest.bytes(), 64));
}

void Growth::run(std::span<const Tile> tiles) const {
  if (carries) std::copy_n(tiles[3].data, state_bytes(), tiles[1].data);
  Grower(*this, tiles).run();
}

std::span<const Grown> Growth::grown(const Tile& nodes) {
  const auto* head = reinterpret_cast<const NodesHead*>(nodes.data);
  return {reinterpret_cast<const Grown*>(nodes.data + 64), static_cast<std::size_t>(head->number)};
}
bool Growth::waits(const Tile& state) {
  const auto* head = reinterpret_cast<const StateHead*>(state.data);
  return head->next < head->filled;
}
EncodedSize Growth::encoded(const Grown& one) const {
  const Index cols = one.first < 0 ? labels : features + 1;
  return {kernel::most_rows(one.kept, cols), one.kept, 1, options.small_weights};
}

}  // namespace flagstone::forest
