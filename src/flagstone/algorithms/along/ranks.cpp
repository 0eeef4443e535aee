#include "flagstone/algorithms/along/ranks.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/along/work.hpp"
#include "flagstone/algorithms/elementwise/tile.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/kernel/along/ranks.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::along {
namespace {

using kernel::Ranks;

constexpr std::uint64_t whole_lanes = 32 * MiB;  // of a tile: as much as a pass takes at most
constexpr std::uint64_t small_counts = 4 * MiB;  // that bins of 16 bits may take, of one task
constexpr std::uint64_t least_budget = 64 * MiB;
constexpr Index most_stripes = 64;
constexpr int narrow_bits = 11, wide_bits = 16;

struct Select final : Work {
  void run(std::span<const Tile> tiles) const override {
    kernel::select_whole(ranks, values.of(tiles), tiles[work].data, tiles[out]);
  }
  Ranks ranks;
  Visited values;
  std::uint32_t work = 0, out = 0;
};

struct Count final : Work {
  void run(std::span<const Tile> tiles) const override {
    if (begins) std::memset(tiles[counts].data, 0, tiles[counts].bytes);
    kernel::count_keys(ranks, values.of(tiles), ranks.first ? nullptr : tiles[state].data, tiles[counts].data);
  }
  Ranks ranks;
  Visited values;
  std::uint32_t counts = 0, state = 0;
  bool begins = false;
};

struct Join final : Work {
  void run(std::span<const Tile> tiles) const override { kernel::join_counts(ranks, tiles[0].data, tiles[1].data); }
  Ranks ranks;
};

struct Choose final : Work {
  void run(std::span<const Tile> tiles) const override { kernel::choose_bins(ranks, tiles[0].data, tiles[1].data); }
  Ranks ranks;
};

/// What is collected, and the pages that it lies in.
struct Bag {
  std::unique_ptr<kernel::Collected> keys;
  Array memory;
};

struct Collect final : Work {
  void run(std::span<const Tile> tiles) const override {
    kernel::collect_keys(ranks, values.of(tiles), tiles[state].data, *bag->keys, which);
  }
  Ranks ranks;
  Visited values;
  std::uint32_t state = 0;
  std::shared_ptr<Bag> bag;
  std::size_t which = 0;
};

struct Sort final : Work {
  void run(std::span<const Tile> tiles) const override {
    kernel::select_collected(ranks, tiles[0].data, *bag->keys, which);
  }
  Ranks ranks;
  std::shared_ptr<Bag> bag;
  std::size_t which = 0;
};

struct Answer final : Work {
  void run(std::span<const Tile> tiles) const override { kernel::write_answers(ranks, tiles[0].data, tiles[1]); }
  Ranks ranks;
};

const bool entered =
    host_kernels().enter(Kernel::rank_count, run_work) && host_kernels().enter(Kernel::rank_choose, run_work) &&
    host_kernels().enter(Kernel::rank_collect, run_work) && host_kernels().enter(Kernel::rank_select, run_work);

/// Lanes of a box, and the box of results.
struct Lanes {
  Index number = 1;
  Shape strides;
  Box results;
};

/// `start`: of the pass in the whole index space.
Lanes lanes_of(const Box& box, const std::vector<bool>& reduced, const Shape& start, Index targets) {
  Lanes lanes;
  lanes.strides.assign(box.shape.size(), 0);
  for (std::size_t d = box.shape.size(); d-- > 0;)
    if (!reduced[d]) lanes.strides[d] = lanes.number, lanes.number *= box.shape[d];
  lanes.results = {{0}, {targets}};
  for (std::size_t d = 0; d < box.shape.size(); ++d)
    if (!reduced[d])
      lanes.results.start.push_back(start[d] + box.start[d]), lanes.results.shape.push_back(box.shape[d]);
  return lanes;
}

class Selection {
 public:
  Selection(Graph& graph, const RankJob& job, RankScheme& scheme) : graph_(graph), job_(job), scheme_(scheme) {
    ranks_.dtype = job.pass.program.dtype(job.pass.visit.values[0]);
    ranks_.wanted = job.wanted;
    for (std::size_t d = 0; d < job.reduced.size(); ++d) (job.reduced[d] ? length_ : lanes_) *= job.pass.shape[d];
    ranks_.wide = length_ >= Index{1} << 32;
  }

  void run() {
    elementwise::Pass pass = job_.pass;
    Shape tile = elementwise::choose_tile(pass);
    for (std::size_t d = 0; d < tile.size(); ++d)
      if (job_.reduced[d]) tile[d] = pass.shape[d];
    const auto bytes = static_cast<std::uint64_t>(count(tile)) * size_of(ranks_.dtype);
    if (bytes <= whole_lanes) return select_whole(std::move(pass), std::move(tile));
    const int bits = kernel::key_bits(ranks_.dtype);
    const std::uint64_t lane_bytes = ranks_.wide ? 8 : 4;
    const auto of_lane = static_cast<std::uint64_t>(ranks_.targets()) * lane_bytes;
    const bool few = static_cast<std::uint64_t>(lanes_) * of_lane << wide_bits <= small_counts;
    width_ = std::min(bits, few ? wide_bits : narrow_bits);
    slots_ = graph_.workers();
    const std::uint64_t each =
        (of_lane << width_) * static_cast<std::uint64_t>(slots_) + kernel::rank_state_bytes(1, ranks_.targets());
    // Below the least budget, and in very many stripes, counts go to scratch where their room is needed.
    const std::uint64_t room = std::max<std::uint64_t>(graph_.budget(), least_budget) / 3;
    const auto most = std::max(static_cast<Index>(room / each), ceil_div(lanes_, most_stripes));
    Shape stripe = pass.shape;
    Index lanes = lanes_;
    for (std::size_t d = 0; d < stripe.size() && lanes > most; ++d) {
      if (job_.reduced[d]) continue;
      const Index others = lanes / stripe[d];
      stripe[d] = std::max<Index>(1, most / others);
      const Index unit = job_.pass.operands.empty() ? 1 : tile[d];
      if (stripe[d] > unit) stripe[d] = stripe[d] / unit * unit;
      lanes = others * stripe[d];
    }
    std::vector<std::size_t> order(stripe.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    Index stripes = 0;
    int passes = 0, least = 0, most_passes = 0;
    for_each_box(whole(pass.shape), stripe, order, [&](const Box& box) {
      ++stripes;
      passes += search(box);
      const int all = ceil_div(bits, width_);
      most_passes += all, least += bits > 32 ? std::min(all, 3) : all;
    });
    // A look is one at everything: each stripe takes its part of them.
    const auto share = [&](int of) { return static_cast<int>(ceil_div(of, stripes)); };
    scheme_.passes = share(passes), scheme_.least_passes = share(least), scheme_.most_passes = share(most_passes);
    scheme_.why = "counted by " + std::to_string(width_) + " bits at a time";
    if (stripes > 1) scheme_.why += ", in " + std::to_string(stripes) + " stripes of lanes, whose counts fit";
  }

 private:
  void select_whole(elementwise::Pass pass, Shape tile) {
    pass.tile = std::move(tile);
    pass.visit.last = job_.reduced;
    pass.visit.extends = static_cast<std::uint64_t>(count(pass.tile)) * size_of(ranks_.dtype);
    pass.visit.extend = [&](const Box& box, std::span<const elementwise::VisitedValue> values, TaskSpec& task) {
      const Lanes lanes = lanes_of(box, job_.reduced, pass_start(), ranks_.targets());
      auto work = std::make_shared<Select>();
      work->ranks = ranks_, work->ranks.lanes = lanes.number, work->ranks.lane_strides = lanes.strides;
      work->values = {values[0], box};
      const auto elements = static_cast<double>(count(box.shape));
      work->work = add_access(task, scratch(static_cast<std::size_t>(count(box.shape)) * size_of(ranks_.dtype)));
      work->out = add_access(task, write({job_.out, lanes.results}));
      task.name = "rank_select";
      task.cost.bytes_touched += 80 * elements;
      task.calls.push_back(call_of<Select>(Kernel::rank_select, ranks_.dtype, std::move(work)));
    };
    elementwise::run(graph_, pass, scheme_.reading);
    scheme_.why = "lanes whole in memory";
  }

  Shape pass_start() const { return Shape(job_.pass.shape.size(), 0); }

  /// Lanes that a part of the pass's boxes shares: a tile of results.
  struct Kept {
    Ranks ranks;
    Box results;
    Index seen = 0;  // boxes
  };

  /// Everything of one stripe; returns how often it was looked at.
  int search(const Box& stripe) {
    elementwise::Pass pass = job_.pass;
    for (std::size_t d = 0; d < stripe.start.size(); ++d) pass.start[d] += stripe.start[d];
    pass.shape = stripe.shape;
    pass.tile = elementwise::choose_tile(pass);
    pass.visit.last = job_.reduced;
    grid_ = grid_of(pass.shape, pass.tile);
    tile_ = pass.tile;
    make_kept(stripe);
    const int bits = kernel::key_bits(ranks_.dtype);
    int passes = 0;
    for (int shift = bits; shift > 0; ++passes) {
      const int width = std::min(width_, shift);
      if (passes == 2 && bits > 32 && fits(shift)) {
        collect(pass, shift);
        ++passes;
        break;
      }
      shift -= width;
      count_pass(pass, shift, width, passes == 0);
    }
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      auto work = std::make_shared<Answer>();
      work->ranks = kept_[k].ranks;
      graph_.add(task("rank_select", {last(read(state(k))), write({job_.out, kept_[k].results})},
                      call_of<Answer>(Kernel::rank_select, ranks_.dtype, std::move(work))));
    }
    return passes;
  }

  static TaskSpec task(const char* name, std::vector<Access> accesses, Call call) {
    TaskSpec made;
    made.name = name;
    made.accesses = std::move(accesses);
    made.calls.push_back(std::move(call));
    return made;
  }

  void make_kept(const Box& stripe) {
    kept_.clear();
    Shape step = tile_;
    for (std::size_t d = 0; d < step.size(); ++d)
      if (job_.reduced[d]) step[d] = stripe.shape[d];
    std::vector<std::size_t> order(step.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    state_words_ = 0;
    for_each_box(whole(stripe.shape), step, order, [&](const Box& box) {
      const Lanes lanes = lanes_of(box, job_.reduced, stripe.start, ranks_.targets());
      Kept& kept = kept_.emplace_back();
      kept.ranks = ranks_, kept.ranks.lanes = lanes.number, kept.ranks.lane_strides = lanes.strides;
      kept.results = lanes.results;
      const auto words = static_cast<Index>(kernel::rank_state_bytes(lanes.number, ranks_.targets()) / 8);
      state_words_ = std::max(state_words_, words);
    });
    states_ = graph_.temporary({static_cast<Index>(kept_.size()) * state_words_}, Dtype::uint64, {state_words_});
  }

  Region state(std::size_t k) const { return {states_, {{static_cast<Index>(k) * state_words_}, {state_words_}}}; }

  std::size_t kept_of(const Box& box) const {
    Index k = 0;
    for (std::size_t d = 0; d < grid_.size(); ++d)
      if (!job_.reduced[d]) k = k * grid_[d] + box.start[d] / tile_[d];
    return static_cast<std::size_t>(k);
  }

  void count_pass(elementwise::Pass& pass, int shift, int width, bool first) {
    Index words = 0;
    for (Kept& kept : kept_) {
      kept.ranks.shift = shift, kept.ranks.bits = width, kept.ranks.first = first, kept.seen = 0;
      words = std::max(words, static_cast<Index>((kernel::rank_count_bytes(kept.ranks) + 7) / 8));
    }
    const Array counts = graph_.temporary({static_cast<Index>(kept_.size()) * slots_ * words}, Dtype::uint64, {words});
    const auto slot = [&](std::size_t k, Index s) {
      return Region{counts, {{(static_cast<Index>(k) * slots_ + s) * words}, {words}}};
    };
    pass.visit.extends = 8 * static_cast<std::uint64_t>(words + state_words_);
    pass.visit.extend = [&](const Box& box, std::span<const elementwise::VisitedValue> values, TaskSpec& task) {
      const std::size_t k = kept_of(box);
      Kept& kept = kept_[k];
      auto work = std::make_shared<Count>();
      work->ranks = kept.ranks, work->values = {values[0], box};
      work->begins = kept.seen < slots_;
      const Region mine = slot(k, kept.seen++ % slots_);
      work->counts = add_access(task, again(work->begins ? write(mine) : update(mine)));
      if (!first) work->state = add_access(task, read(state(k)));
      task.name = "rank_count";
      task.cost.bytes_touched += (first ? 24 : 8) * static_cast<double>(count(box.shape));
      task.calls.push_back(call_of<Count>(Kernel::rank_count, ranks_.dtype, std::move(work)));
    };
    elementwise::run(graph_, pass, scheme_.reading);
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      for (Index s = 1; s < std::min(slots_, kept_[k].seen); ++s) {
        auto join = std::make_shared<Join>();
        join->ranks = kept_[k].ranks;
        graph_.add(task("rank_choose", {last(read(slot(k, s))), again(update(slot(k, 0)))},
                        call_of<Join>(Kernel::rank_choose, ranks_.dtype, std::move(join))));
      }
      auto choose = std::make_shared<Choose>();
      choose->ranks = kept_[k].ranks;
      graph_.add(task("rank_choose", {last(read(slot(k, 0))), again(first ? write(state(k)) : update(state(k)))},
                      call_of<Choose>(Kernel::rank_choose, ranks_.dtype, std::move(choose))));
    }
  }

  /// Whether what is left can be collected: it is, in plans.
  bool fits(int shift) {
    std::vector<Access> accesses;
    for (std::size_t k = 0; k < kept_.size(); ++k) accesses.push_back(read(state(k)));
    bag_ = std::make_shared<Bag>();
    if (graph_.planning()) return true;
    Index found = 0;
    graph_.await(accesses, [&](std::span<const Tile> tiles) {
      std::vector<const std::byte*> states;
      for (std::size_t k = 0; k < kept_.size(); ++k) {
        found += kernel::candidates(kept_[k].ranks.lanes, ranks_.targets(), tiles[k].data);
        states.push_back(tiles[k].data);
      }
      if (8 * static_cast<std::uint64_t>(found) > graph_.budget() / 4) return;
      Index begin = 0;
      bag_->keys = std::make_unique<kernel::Collected>();
      for (std::size_t k = 0; k < kept_.size(); ++k) begin = bag_->keys->add(kept_[k].ranks, states[k], begin);
    });
    if (!bag_->keys) return false;
    charge_ = graph_.charge(8 * static_cast<std::uint64_t>(found));
    bag_->memory = memory_array({std::max<Index>(found, 1)}, Dtype::uint64);
    bag_->keys->keys = bag_->memory.store().memory();
    for (Kept& kept : kept_) kept.ranks.shift = shift, kept.ranks.bits = 0;
    return true;
  }

  void collect(elementwise::Pass& pass, int shift) {
    for (Kept& kept : kept_) kept.ranks.shift = shift, kept.ranks.bits = 0, kept.ranks.first = false;
    pass.visit.extend = [&](const Box& box, std::span<const elementwise::VisitedValue> values, TaskSpec& task) {
      auto work = std::make_shared<Collect>();
      work->which = kept_of(box);
      work->ranks = kept_[work->which].ranks, work->values = {values[0], box}, work->bag = bag_;
      work->state = add_access(task, read(state(work->which)));
      task.name = "rank_collect";
      task.cost.bytes_touched += 8 * static_cast<double>(count(box.shape));
      task.calls.push_back(call_of<Collect>(Kernel::rank_collect, ranks_.dtype, std::move(work)));
    };
    elementwise::run(graph_, pass, scheme_.reading);
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      auto sort = std::make_shared<Sort>();
      sort->ranks = kept_[k].ranks, sort->bag = bag_, sort->which = k;
      graph_.add(task("rank_select", {again(update(state(k)))},
                      call_of<Sort>(Kernel::rank_select, ranks_.dtype, std::move(sort))));
    }
    graph_.barrier();  // as long as it is charged
    bag_.reset();
    charge_ = Charge();
  }

  Graph& graph_;
  const RankJob& job_;
  RankScheme& scheme_;
  Ranks ranks_;
  Index length_ = 1, lanes_ = 1, slots_ = 1;
  int width_ = narrow_bits;
  Shape grid_, tile_;
  std::vector<Kept> kept_;
  Array states_;
  Index state_words_ = 0;
  std::shared_ptr<Bag> bag_;
  Charge charge_;
};

}  // namespace

void select_ranks(Graph& graph, const RankJob& job, RankScheme& scheme) {
  if (count(job.out.shape()) != 0) Selection(graph, job, scheme).run();
}

}  // namespace flagstone::along
