#include "flagstone/algorithms/sort/runs.hpp"

#include <numeric>

#include "flagstone/kernel/sort/stable_merge.hpp"

namespace flagstone::sort {

Runs::Runs(Graph& graph, Stages& stages, const std::string& name, Index blocks, Index kept, std::size_t width,
           Index block)
    : kept_(std::min(blocks, kept)),
      saved_(stages.saving()),
      lasts_(graph.allocate({blocks * static_cast<Index>(width)}, Dtype::uint8)),
      width_(width),
      block_(block) {
  const Index bytes = block * static_cast<Index>(width), others = blocks - kept_;
  if (kept_ > 0) here_ = stages.temporary(name + " here", {kept_ * bytes}, Dtype::uint8, {bytes});
  if (others > 0) away_ = stages.temporary(name + " away", {others * bytes}, Dtype::uint8, {bytes}, Written::streamed);
  if (!saved_) return;
  if (here_) here_done_.emplace(stages, here_, Shape{bytes}, name + " here");
  if (away_) away_done_.emplace(stages, away_, Shape{bytes}, name + " away");
  const auto list = [lasts = lasts_](StateParts& parts) mutable { parts.array("", lasts); };
  lasts_kept_.reset(new Stages::Kept(stages.keep(name + " lasts", list)));
}

const Runs::Run& Runs::begin(Index records) {
  runs_.push_back({next_, records});
  next_ += ceil_div(records, block_);
  return runs_.back();
}

Region Runs::records(const Run& run, Index block) const {
  const Index bytes = block_ * static_cast<Index>(width_), at = run.first_block + block;
  if (at < kept_) return {here_, {{at * bytes}, {bytes}}};
  return {away_, {{(at - kept_) * bytes}, {bytes}}};
}

Access Runs::made(const Run& run, Index block) const {
  const Access access = write(records(run, block));
  return run.first_block + block < kept_ ? again(access) : access;
}

/// What a save speaks of must be in the file, so nothing of it is dropped.
Access Runs::spent(const Run& run, Index block) const {
  const bool waits = saved_ && run.first_block + block < kept_;
  return waits ? read(records(run, block)) : last(read(records(run, block)));
}

bool Runs::holds(const Run& run, Index block, Index number) const {
  for (Index b = block; b < block + number; ++b) {
    const Region one = records(run, b);
    if (!saved_ || !(run.first_block + b < kept_ ? *here_done_ : *away_done_).holds(one.box)) return false;
  }
  return true;
}

void Runs::finish(const Run& run, Index block, Index number) {
  for (Index b = block; saved_ && b < block + number; ++b)
    (run.first_block + b < kept_ ? *here_done_ : *away_done_).finish(records(run, b).box);
}

Region Runs::lasts(const Run& run, Index block, Index number) const {
  const auto width = static_cast<Index>(width_);
  return {lasts_, {{(run.first_block + block) * width}, {number * width}}};
}

Parting::Parting(Graph& graph, const kernel::RecordOrder& order, const Runs& runs, std::span<const Runs::Run> group)
    : graph_(graph),
      order_(order),
      runs_(runs),
      group_(group),
      low_blocks_(group.size()),
      high_blocks_(group.size()),
      at_(group.size()) {
  Index blocks = 0;
  for (const Runs::Run& run : group) blocks += runs.blocks(run), records_ += run.records;
  charge_ = graph.charge(2 * static_cast<std::uint64_t>(blocks) * sizeof(Last));
  graph.barrier();  // last records are made by the tasks before
  if (graph.planning()) return;
  lasts_.reserve(static_cast<std::size_t>(blocks));
  for (std::uint32_t r = 0; r < group.size(); ++r)
    for (Index b = 0; b < runs.blocks(group[r]); ++b) lasts_.push_back({r, b});
  sort_lasts();
}

void Parting::sort_lasts() {
  const std::byte* records = runs_.lasts(group_.front(), 0, 1).array.store().memory();
  const auto record = [&](const Last& last) {
    return records + static_cast<std::size_t>(group_[last.run].first_block + last.block) * runs_.width();
  };
  std::vector<Last> work(lasts_.size());
  std::vector<Index> ends;
  Index end = 0;
  for (const Runs::Run& run : group_) ends.push_back(end += runs_.blocks(run));
  const auto less = [&](const Last& a, const Last& b) { return order_.less(record(a), record(b)); };
  if (kernel::merge_runs(lasts_.data(), std::move(ends), work.data(), less) == work.data()) lasts_.swap(work);
}

void Parting::guess(Index rank) {
  Index left = rank, records = records_;
  for (std::size_t r = 0; r < group_.size(); ++r) {
    at_[r] = std::max(at_[r], static_cast<Index>(static_cast<double>(left) * static_cast<double>(group_[r].records) /
                                                 static_cast<double>(std::max<Index>(1, records))));
    left = std::max<Index>(0, left - at_[r]), records -= group_[r].records;
  }
}

/// Of the blocks whose last records are sorted as x_1 <= x_2 <= ..., with C_i records in the first i: at least C_i and
/// at most C_i + (block - 1) runs records are <= x_i. So block i lies before the rank where the latter is not beyond
/// it, and reaches behind it only where C_(i-1) is not beyond it. False: the order contradicts itself.
bool Parting::window(Index rank, std::vector<kernel::RunWindow>& windows) {
  const auto advance = [&](std::size_t& next, Index& records, std::vector<Index>& blocks, auto before) {
    for (; next < lasts_.size(); ++next) {
      const Last& last = lasts_[next];
      const Index more = runs_.records_of(group_[last.run], last.block);
      if (!before(records, more)) return;
      records += more, blocks[last.run] = last.block + 1;
    }
  };
  const Index slack = runs_.block() * static_cast<Index>(group_.size());
  advance(low_, low_records_, low_blocks_, [&](Index records, Index more) { return records + more + slack <= rank; });
  advance(high_, high_records_, high_blocks_, [&](Index records, Index) { return records < rank; });
  Index low = 0, high = 0;
  for (std::size_t r = 0; r < group_.size(); ++r) {
    kernel::RunWindow& window = windows[r];
    window.block = runs_.block();
    window.low = std::max(std::min(group_[r].records, low_blocks_[r] * runs_.block()), at_[r]);
    window.high = std::max(window.low, std::min(group_[r].records, (high_blocks_[r] + 1) * runs_.block()));
    low += window.low, high += window.high;
  }
  return low <= rank && rank <= high;
}

std::vector<Access> Parting::loads(std::vector<kernel::RunWindow>& windows) const {
  std::vector<Access> accesses;
  for (std::size_t r = 0; r < windows.size(); ++r) {
    kernel::RunWindow& window = windows[r];
    if (window.low == window.high) continue;
    const Index first = window.low / runs_.block();
    window.first = first * runs_.block();
    for (Index b = first; b * runs_.block() < window.high; ++b)
      accesses.push_back(again(read(runs_.records(group_[r], b))));
  }
  // As many as there can be, so that a plan knows the memory: two a run, and the short last one of each.
  if (const std::size_t most = 3 * group_.size() + 2; accesses.size() < most)
    accesses.push_back(scratch((most - accesses.size()) * static_cast<std::size_t>(runs_.block()) * runs_.width()));
  return accesses;
}

const std::vector<Index>& Parting::at(Index rank) {
  std::vector<kernel::RunWindow> windows(group_.size());
  if (rank == records_) {
    for (std::size_t r = 0; r < group_.size(); ++r) at_[r] = group_[r].records;
    return at_;
  }
  if (graph_.planning()) {
    guess(rank);
    for (std::size_t r = 0; r < group_.size(); ++r) {
      windows[r].block = runs_.block();
      windows[r].low = std::max<Index>(0, std::min(at_[r], group_[r].records - 1) - runs_.block() / 2);
      windows[r].high = std::min(group_[r].records, windows[r].low + runs_.block());
    }
    graph_.await(loads(windows), [](std::span<const Tile>) {});
    return at_;
  }
  if (!window(rank, windows)) {  // some places in which nothing is lost
    Index left = rank - std::accumulate(at_.begin(), at_.end(), Index{0});
    for (std::size_t r = 0; r < group_.size(); ++r) {
      const Index taken = std::min(left, group_[r].records - at_[r]);
      at_[r] += taken, left -= taken;
    }
    return at_;
  }
  graph_.await(loads(windows), [&](std::span<const Tile> tiles) {
    std::size_t next = 0;
    for (kernel::RunWindow& window : windows)
      for (Index place = window.first; window.low < window.high && place < window.high; place += window.block)
        window.blocks.push_back(tiles[next++].data);
    kernel::part_runs(order_, windows, rank);
  });
  for (std::size_t r = 0; r < group_.size(); ++r) at_[r] = windows[r].low;
  return at_;
}

}  // namespace flagstone::sort
