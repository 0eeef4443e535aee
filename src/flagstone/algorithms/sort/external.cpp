#include "flagstone/algorithms/sort/external.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/sort/runs.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::sort {
namespace {

constexpr Index piece_bytes = 4 * MiB;  // of an input without stored units: a request of this size fills a disk

/// The records of a task in memory: those that come, and where they are sorted.
std::uint64_t memory_of(const kernel::RecordOrder& order, Index records) {
  return align_up(static_cast<std::uint64_t>(records) * order.width(), 64) + order.work_bytes(records);
}
std::byte* work_in(const kernel::RecordOrder& order, std::byte* memory, Index records) {
  return memory + align_up(static_cast<std::uint64_t>(records) * order.width(), 64);
}

/// What a task writes: elements of the outputs, or blocks of a run and the last record of each.
struct Sink {
  std::vector<LaneTile> elements;
  struct Block {
    std::uint32_t access = 0;
    Index first = 0, records = 0;
  };
  std::vector<Block> blocks;
  std::uint32_t lasts = 0;
};

/// Which units of the outputs are finished.
class Outputs {
 public:
  Outputs(Stages& stages, const std::vector<Lane>& to, Index unit) : stages_(stages) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!stages.saving() || to[i].array.in_memory()) continue;
      const Shape tile = to[i].box(0, std::min(unit, to[i].array.shape()[to[i].axis])).shape;
      tiles_.push_back(std::make_unique<FinishedTiles>(stages, to[i].array, tile, "sorted" + std::to_string(i)));
    }
  }

  bool hold(const std::vector<Lane>& to, Index first, Index records) const {
    for (std::size_t i = 0; i < tiles_.size(); ++i)
      if (!tiles_[i]->holds(to[i].box(first, records))) return false;
    return !tiles_.empty() && tiles_.size() == to.size();
  }
  void finish(const std::vector<Lane>& to, Index first, Index records) {
    for (std::size_t i = 0; i < tiles_.size() && tiles_.size() == to.size(); ++i)
      tiles_[i]->finish(to[i].box(first, records));
    stages_.offer();
  }

 private:
  Stages& stages_;
  std::vector<std::unique_ptr<FinishedTiles>> tiles_;  // of all lanes, or nothing is known
};

class Builder {
 public:
  /// `name`: of this job's runs, in saves.
  Builder(Graph& graph, Stages& stages, Outputs& outputs, std::string name, const Job& job, const Scheme& scheme)
      : graph_(graph),
        stages_(stages),
        outputs_(outputs),
        name_(std::move(name)),
        job_(job),
        scheme_(scheme),
        width_(job.order->width()) {}

  void run() {
    if (outputs_.hold(job_.to, 0, job_.records)) return;
    if (scheme_.runs == 1) {
      TaskSpec task;
      const Sink sink = to_outputs(task, 0, job_.records);
      form(std::move(task), sink, 0, job_.records);
      return outputs_.finish(job_.to, 0, job_.records);
    }
    std::vector<Index> lengths;
    for (Index first = 0; first < job_.records; first += scheme_.run)
      lengths.push_back(std::min(scheme_.run, job_.records - first));
    // Of a level that a save still speaks of, with none before it, all runs are there.
    while (!stages_.has(level_name(level_) + " lasts") && stages_.has(level_name(level_ + 1) + " lasts"))
      lengths = merged(lengths), ++level_;
    auto runs = runs_of(lengths);
    if (level_ == 0)
      form_all(*runs, lengths);
    else
      for (const Index length : lengths) runs->begin(length);
    while (runs->all().size() > most_at_once() && too_many(runs->all().size()) == 0) runs = merge_all(*runs);
    std::vector<Runs::Run> left = runs->all();
    if (const std::size_t more = too_many(left.size()); more > 0) {
      const std::span<const Runs::Run> group = std::span<const Runs::Run>(left).last(more + 1);
      const Runs::Run made = merge_into(*runs, group, *runs);
      left.resize(left.size() - group.size());
      left.push_back(made);
    }
    merge(
        *runs, left, scheme_.tile, [&](Index first, Index records) { return outputs_.hold(job_.to, first, records); },
        [&](TaskSpec& task, Index first, Index records) { return to_outputs(task, first, records); },
        [&](Index first, Index records) { outputs_.finish(job_.to, first, records); });
  }

 private:
  std::size_t most_at_once() const { return static_cast<std::size_t>(scheme_.fan); }

  /// So many runs more than can be merged at once, where they and one more can be: the last ones are merged first, and
  /// nothing else travels once more. 0: none, or a whole level of merges has to come first.
  std::size_t too_many(std::size_t runs) const {
    const std::size_t fan = most_at_once();
    return runs > fan && runs < 2 * fan ? runs - fan : 0;
  }

  std::string level_name(int level) const { return name_ + " level " + std::to_string(level); }

  void form_all(Runs& runs, std::span<const Index> lengths) {
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      const Runs::Run run = runs.begin(lengths[r]);
      if (runs.holds(run, 0, runs.blocks(run))) continue;
      TaskSpec task;
      const Sink sink = to_run(task, runs, run, 0, lengths[r]);
      form(std::move(task), sink, static_cast<Index>(r) * scheme_.run, lengths[r]);
      runs.finish(run, 0, runs.blocks(run));
      stages_.offer();
    }
  }

  /// Room for runs of these lengths, and for the one that the last of them make where they are too many.
  std::unique_ptr<Runs> runs_of(std::span<const Index> lengths) {
    Index blocks = 0, records = 0;
    for (const Index length : lengths) blocks += ceil_div(length, scheme_.block);
    if (const std::size_t more = too_many(lengths.size()); more > 0)
      for (const Index length : lengths.last(more + 1)) records += length;
    blocks += ceil_div(records, scheme_.block);
    // Of one level at a time, the last one: beside runs that are still read there is no room for as many more.
    const Index kept = lengths.size() < 2 * most_at_once() ? scheme_.kept : 0;
    return std::make_unique<Runs>(graph_, stages_, level_name(level_), blocks, kept, width_, scheme_.block);
  }

  Runs::Run merge_into(const Runs& from, std::span<const Runs::Run> group, Runs& to) {
    Index all = 0;
    for (const Runs::Run& run : group) all += run.records;
    const Runs::Run made = to.begin(all);
    const Index tile = std::max<Index>(1, scheme_.tile / scheme_.block) * scheme_.block;
    const auto blocks = [&](Index records) { return ceil_div(records, scheme_.block); };
    merge(
        from, group, tile,
        [&](Index first, Index number) { return to.holds(made, first / scheme_.block, blocks(number)); },
        [&](TaskSpec& task, Index first, Index number) { return to_run(task, to, made, first, number); },
        [&](Index first, Index number) {
          to.finish(made, first / scheme_.block, blocks(number));
          stages_.offer();
        });
    return made;
  }

  /// How long the runs are that a level of merges makes of runs.
  std::vector<Index> merged(std::span<const Index> lengths) const {
    std::vector<Index> longer;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      if (r % most_at_once() == 0) longer.push_back(0);
      longer.back() += lengths[r];
    }
    return longer;
  }

  /// A level: as many runs at a time as can be.
  std::unique_ptr<Runs> merge_all(const Runs& runs) {
    std::vector<Index> lengths;
    for (const Runs::Run& run : runs.all()) lengths.push_back(run.records);
    ++level_;
    auto longer = runs_of(merged(lengths));
    for (std::size_t r = 0; r < lengths.size(); r += most_at_once())
      merge_into(runs, std::span(runs.all()).subspan(r, std::min(most_at_once(), lengths.size() - r)), *longer);
    graph_.barrier();  // the shorter ones, and what they take of scratch, are gone
    return longer;
  }

  /// Whole stored units of the outputs.
  Sink to_outputs(TaskSpec& task, Index first, Index records) {
    Sink sink;
    for (Index at = 0; at < records; at += scheme_.unit)
      for (std::size_t i = 0; i < job_.to.size(); ++i) {
        const Index elements = std::min(scheme_.unit, records - at);
        sink.elements.push_back({static_cast<std::uint32_t>(task.accesses.size()), i, at, elements, 0});
        task.accesses.push_back(once(write({job_.to[i].array, job_.to[i].box(first + at, elements)})));
      }
    return sink;
  }

  Sink to_run(TaskSpec& task, const Runs& runs, const Runs::Run& run, Index first, Index records) {
    Sink sink;
    const Index begin = first / scheme_.block, number = ceil_div(records, scheme_.block);
    for (Index b = 0; b < number; ++b) {
      sink.blocks.push_back(
          {static_cast<std::uint32_t>(task.accesses.size()), b * scheme_.block, runs.records_of(run, begin + b)});
      task.accesses.push_back(runs.made(run, begin + b));
    }
    sink.lasts = static_cast<std::uint32_t>(task.accesses.size());
    task.accesses.push_back(write(runs.lasts(run, begin, number)));
    return sink;
  }

  /// Reads elements [first, first + records), sorts them.
  void form(TaskSpec task, const Sink& sink, Index first, Index records) {
    std::vector<LaneTile> parts;
    for (std::size_t i = 0; i < job_.from.size(); ++i) {
      const Lane& lane = job_.from[i];
      if (!lane.array) continue;
      const Index origin = lane.start[lane.axis], unit = lane.unit();
      const Index piece = unit > 0 ? unit : std::max<Index>(1, piece_bytes / static_cast<Index>(lane.item()));
      for (Index at = first; at < first + records;) {
        const Index end = std::min((at + origin) / piece * piece + piece - origin, first + records);
        parts.push_back({static_cast<std::uint32_t>(task.accesses.size()), i, at - first, end - at, 0});
        task.accesses.push_back(read({lane.array, lane.box(at, end - at)}));
        at = end;
      }
    }
    const auto memory = static_cast<std::uint32_t>(task.accesses.size());
    task.accesses.push_back(scratch(memory_of(*job_.order, records)));
    task.body = [=, order = job_.order, lanes = job_.from, to = job_.to](std::span<const Tile> tiles) {
      std::byte* gathered = tiles[memory].data;
      for (const Lane& lane : lanes)
        if (!lane.array) number_records(lane, first, records, order->width(), gathered);
      for (const LaneTile& part : parts) to_records(lanes, part, tiles, order->width(), gathered);
      deliver(*order, to, sink, tiles, order->sort(gathered, records, work_in(*order, gathered, records)));
    };
    add("sort_run", std::move(task), records);
  }

  /// Tile after tile of the group's records, but those that `done` knows of.
  template <class Done, class Into, class Added>
  void merge(const Runs& runs, std::span<const Runs::Run> group, Index tile, const Done& done, const Into& into,
             const Added& added) {
    Parting parting(graph_, *job_.order, runs, group);
    Index records = 0;
    for (const Runs::Run& run : group) records += run.records;
    std::vector<Index> at(group.size(), 0);
    Index reached = 0;
    for (Index first = 0; first < records; first += tile) {
      const Index number = std::min(tile, records - first);
      if (done(first, number)) continue;
      if (reached < first) at = parting.at(first);
      const std::vector<Index> next = parting.at(first + number);
      TaskSpec task;
      const Sink sink = into(task, first, number);
      merge_tile(std::move(task), sink, runs, group, at, next, number);
      added(first, number);
      at = next, reached = first + number;
    }
    graph_.barrier();  // the places, and what is charged for them, go with `parting`
  }

  void merge_tile(TaskSpec task, const Sink& sink, const Runs& runs, std::span<const Runs::Run> group,
                  const std::vector<Index>& from, const std::vector<Index>& to, Index records) {
    struct Part {
      std::uint32_t access = 0;
      Index skipped = 0, records = 0;
    };
    std::vector<Part> parts;
    std::vector<Index> ends;
    Index end = 0;
    for (std::size_t r = 0; r < group.size(); ++r) {
      for (Index place = from[r]; place < to[r];) {
        const Index block = place / scheme_.block, behind = block * scheme_.block + runs.records_of(group[r], block);
        const Index stop = std::min(behind, to[r]);
        parts.push_back({static_cast<std::uint32_t>(task.accesses.size()), place % scheme_.block, stop - place});
        task.accesses.push_back(stop == behind ? runs.spent(group[r], block)
                                               : again(read(runs.records(group[r], block))));
        place = stop;
      }
      if (from[r] < to[r]) ends.push_back(end += to[r] - from[r]);
    }
    const auto memory = static_cast<std::uint32_t>(task.accesses.size());
    task.accesses.push_back(scratch(memory_of(*job_.order, records)));
    // How runs part is known by then alone: a task takes what the worst would, so that a plan knows its memory.
    const std::size_t most = static_cast<std::size_t>(records / scheme_.block) + 2 * group.size() + 1;
    if (parts.size() < most)
      task.accesses.push_back(scratch((most - parts.size()) * static_cast<std::size_t>(scheme_.block) * width_));
    task.body = [=, order = job_.order, outputs = job_.to](std::span<const Tile> tiles) {
      std::byte* gathered = tiles[memory].data;
      std::byte* next = gathered;
      const std::size_t width = order->width();
      for (const Part& part : parts) {
        const auto bytes = static_cast<std::size_t>(part.records) * width;
        std::memcpy(next, tiles[part.access].data + static_cast<std::size_t>(part.skipped) * width, bytes);
        next += bytes;
      }
      deliver(*order, outputs, sink, tiles, order->merge(gathered, ends, work_in(*order, gathered, records)));
    };
    add("sort_merge", std::move(task), records);
  }

  static void deliver(const kernel::RecordOrder& order, const std::vector<Lane>& to, const Sink& sink,
                      std::span<const Tile> tiles, const std::byte* sorted) {
    const std::size_t width = order.width();
    for (const LaneTile& part : sink.elements) from_records(to, part, tiles, width, sorted);
    std::byte* lasts = sink.blocks.empty() ? nullptr : tiles[sink.lasts].data;
    for (const Sink::Block& block : sink.blocks) {
      const std::byte* from = sorted + static_cast<std::size_t>(block.first) * width;
      std::memcpy(tiles[block.access].data, from, static_cast<std::size_t>(block.records) * width);
      std::memcpy(lasts, from + static_cast<std::size_t>(block.records - 1) * width, width);
      lasts += width;
    }
  }

  void add(const char* name, TaskSpec task, Index records) {
    task.name = name;
    task.cost.bytes_touched = sort_bytes * static_cast<double>(records) * static_cast<double>(width_);
    graph_.add(std::move(task));
  }

  Graph& graph_;
  Stages& stages_;
  Outputs& outputs_;
  std::string name_;
  const Job& job_;
  const Scheme& scheme_;
  std::size_t width_;
  int level_ = 0;  // of merges before
};

}  // namespace

void run(Graph& graph, const Job& job, const Scheme& scheme) { run(graph, std::vector{job}, scheme, nullptr); }

void run(Graph& graph, const std::vector<Job>& jobs, const Scheme& scheme,
         const std::shared_ptr<Checkpoint>& checkpoint) {
  if (jobs.empty() || jobs.front().records == 0) return;
  graph.trust_order(true);
  // Each task names hundreds of blocks, and a task a worker and half of one more have room: further ones would only
  // hold memory that nobody charges.
  graph.look_ahead(2 * static_cast<std::size_t>(graph.workers()) + 2, true);
  const std::vector<Index> told = scheme.numbers();
  // Runs of another scheme have other blocks.
  if (checkpoint && !graph.planning() && Stages::begun_before<std::vector<Index>>(checkpoint.get(), "scheme") != told)
    checkpoint->forget_all("runs of job ");
  Stages stages(graph, checkpoint);
  stages.begun_with("scheme", told);
  Outputs outputs(stages, jobs.front().to, scheme.unit);
  for (std::size_t j = 0; j < jobs.size(); ++j)
    Builder(graph, stages, outputs, "runs of job " + std::to_string(j), jobs[j], scheme).run();
  graph.trust_order(false);
  graph.barrier();  // what was allocated goes
}

}  // namespace flagstone::sort
