#include <algorithm>
#include <numeric>

#include "flagstone/algorithms/sort/external.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/resume/stages.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::sort {
namespace {

constexpr std::uint64_t least_block = 32 * KiB, most_block = 1 * MiB;
constexpr std::uint64_t flat_unit = 1 * MiB;  // of an output without stored units
constexpr Index most_fan = 4096;
constexpr Index blocks_of_run = 4;               // at least so many of each run lie under a tile of the merge
constexpr std::uint64_t good_block = 512 * KiB;  // shorter requests cost a disk more than fewer of them save

Index unit_of(const Job& job) {
  Index unit = 1, flat = 1;
  for (const Lane& lane : job.to) {
    flat = std::max(flat, static_cast<Index>(flat_unit / lane.item()));
    if (lane.array.in_memory() || takes_any_box(lane.array)) continue;
    const Index chunk = std::min(lane.array.chunks()[lane.axis], std::max<Index>(1, job.records));
    const Index times = chunk / std::gcd(unit, chunk);
    if (unit > job.records / times) return std::max<Index>(1, job.records);  // one unit, and no product that overflows
    unit *= times;
  }
  return unit == 1 ? flat : ceil_div(std::max<Index>(1, std::min(flat, unit)), unit) * unit;
}

std::uint64_t bytes_in(const std::vector<Lane>& lanes) {
  std::uint64_t bytes = 0;
  for (const Lane& lane : lanes)
    if (lane.array && !lane.array.in_memory()) bytes += lane.item();
  return bytes;
}

/// Bytes of memory that a record takes in a task that forms a run, and in one that merges.
struct Memory {
  explicit Memory(const Job& job) {
    const auto width = static_cast<Index>(job.order->width());
    const auto work = static_cast<Index>(job.order->work_bytes(1024)) / 1024;
    in_run = static_cast<Index>(bytes_in(job.from)) + 2 * width + work;
    in_tile = static_cast<Index>(bytes_in(job.to)) + 3 * width + work;
  }
  Index in_run = 0, in_tile = 0;
};

/// Bytes of so many tasks of this scheme, and of the search for the next places.
Index bytes_of_tasks(const Job& job, const Scheme& scheme, int tasks) {
  const Memory memory(job);
  const auto width = static_cast<Index>(job.order->width());
  const Index block = scheme.block * width, group = std::min(scheme.runs, scheme.fan);
  Index form = scheme.run * memory.in_run;
  for (const Lane& lane : job.from)
    if (lane.array) form += 2 * lane.unit() * static_cast<Index>(lane.item());  // stored units travel whole
  const Index merge = scheme.tile * memory.in_tile + (2 * group + 1) * block;
  return tasks * std::max(form, merge) + (3 * group + 2) * block;
}

/// Blocks that stay beside tasks of this scheme: one a worker, one on its way. The first ones made stay; which ones
/// matters to nobody, as each is read once.
Index kept_beside(const Job& job, const Scheme& scheme, std::uint64_t budget, int workers) {
  const Index left = static_cast<Index>(budget) - bytes_of_tasks(job, scheme, workers + 1);
  return std::max<Index>(0, left) / (scheme.block * static_cast<Index>(job.order->width()));
}

/// What a dead process began with, where it is this job's and one task of it has room.
std::optional<Scheme> begun(const Job& job, std::uint64_t budget, const Checkpoint* checkpoint) {
  const auto told = Stages::begun_before<std::vector<Index>>(checkpoint, "scheme");
  if (!told || told->size() != Scheme{}.numbers().size()) return std::nullopt;
  const Scheme scheme = Scheme::of(*told);
  const bool same = scheme.unit == std::min(unit_of(job), std::max<Index>(1, job.records)) && scheme.run > 0 &&
                    scheme.runs == ceil_div(job.records, scheme.run);
  if (!same || bytes_of_tasks(job, scheme, 1) > static_cast<Index>(budget)) return std::nullopt;
  return scheme;
}

/// Tasks of `share` bytes.
Scheme within(const Job& job, Index share, int workers) {
  const Index n = std::max<Index>(1, job.records);
  const auto width = static_cast<Index>(job.order->width());
  const Memory memory(job);
  Scheme scheme;
  scheme.unit = std::min(unit_of(job), n);
  const auto even = [&](Index most, Index unit) {  // of equal parts, as many as workers at least
    const Index parts = std::max<Index>(ceil_div(n, most), n * width > static_cast<Index>(4 * MiB) ? workers : 1);
    return std::max(unit, ceil_div(ceil_div(n, parts), unit) * unit);
  };
  scheme.tile = even(std::max(scheme.unit, share / memory.in_tile / scheme.unit * scheme.unit), scheme.unit);
  const Index least_run = std::max<Index>(1, static_cast<Index>(flat_unit) / width);
  scheme.run = std::max(least_run, share / memory.in_run);
  const Index tile_bytes = scheme.tile * width;
  scheme.fan = std::clamp<Index>(tile_bytes / (blocks_of_run * static_cast<Index>(least_block)), 2, most_fan);
  const Index runs = std::min(ceil_div(n, scheme.run), scheme.fan);
  const Index block = std::clamp<Index>(tile_bytes / (blocks_of_run * std::max<Index>(1, runs)),
                                        static_cast<Index>(least_block), static_cast<Index>(most_block));
  scheme.block = std::max<Index>(1, block / width);
  scheme.run = even(std::max(scheme.block, scheme.run / scheme.block * scheme.block), scheme.block);
  scheme.runs = ceil_div(n, scheme.run);
  scheme.passes = scheme.runs > 1 ? 2 : 1;
  for (Index left = scheme.runs; left > scheme.fan; left = ceil_div(left, scheme.fan)) {
    ++scheme.passes;
    if (left < 2 * scheme.fan) break;  // the last runs alone are merged once more
  }
  return scheme;
}

}  // namespace

Scheme Scheme::of(const std::vector<Index>& n) {
  return {n[0], n[1], n[2], n[3], n[4], n[5], n[6], static_cast<int>(n[7])};
}

Scheme choose(const Job& job, std::uint64_t budget, int workers, const Checkpoint* checkpoint) {
  if (const auto before = begun(job, budget, checkpoint)) return *before;
  // A task a worker, and half of one on its way.
  auto share = static_cast<Index>(static_cast<double>(budget) * 0.85 / (workers + 0.5));
  Scheme best = within(job, share, workers);
  if (best.runs == 1) return best;
  best.kept = kept_beside(job, best, budget, workers);
  // Smaller tasks leave room for blocks that need not travel, as long as requests are long and passes few.
  while ((share /= 2) > 0) {
    Scheme next = within(job, share, workers);
    next.kept = kept_beside(job, next, budget, workers);
    const bool long_requests = static_cast<std::uint64_t>(next.block) * job.order->width() >= good_block;
    if (!long_requests || next.passes > best.passes || next.kept * next.block <= best.kept * best.block) break;
    best = next;
  }
  return best;
}

std::string Scheme::why() const {
  if (runs == 1) return "in memory";
  std::string told = std::to_string(runs) + " sorted runs";
  if (runs > fan && runs < 2 * fan)
    told += ", of which the last " + std::to_string(runs - fan + 1) + " are merged first";
  else if (passes > 2)
    told += ", merged " + std::to_string(fan) + " at a time";
  return told;
}

}  // namespace flagstone::sort
