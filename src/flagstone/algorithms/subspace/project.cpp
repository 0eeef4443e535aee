#include "flagstone/algorithms/subspace/project.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::subspace {
namespace {

constexpr double bytes_of_nonzero = 1500;  // making one takes as long as copying so many
constexpr std::size_t tasks_ahead = 1024;  // a sweep past a panel of some hundred stripes sees each again
constexpr Index index_rows = 1 << 14;      // of the list of blocks, that one task writes

/// Makers that tasks borrow: each keeps lists that the next task may share, never more than there are workers.
class Makers {
 public:
  struct Held {
    std::unique_ptr<BlockMaker> maker;
    kernel::SparseBlock block;
  };
  explicit Makers(const BlockSource& h) : h_(h) {}
  std::unique_ptr<Held> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Held>(Held{h_.maker(), {}});
    auto held = std::move(free_.back());
    free_.pop_back();
    return held;
  }
  void give(std::unique_ptr<Held> held) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(held));
  }

 private:
  const BlockSource& h_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Held>> free_;
};

/// Which boxes of Z a stripe is, and where in them its groups' blocks begin.
struct StripeAccess {
  std::vector<Box> boxes;
  std::vector<std::pair<std::int32_t, Index>> of_group;  // box, first element in it; -1: no columns
};

StripeAccess access_of(const BlockLayout& z, Index stripe) {
  StripeAccess made;
  const Index first = z.stripes[static_cast<std::size_t>(stripe)],
              last = z.stripes[static_cast<std::size_t>(stripe) + 1];
  std::vector<std::pair<Index, Index>> parts;  // begin and end, of distinct blocks
  for (Index g = first; g < last; ++g)
    if (const auto at = z.stored[static_cast<std::size_t>(g)]; at >= 0) {
      const Index begin = z.offsets[static_cast<std::size_t>(at)];
      parts.emplace_back(begin, begin + z.rows[static_cast<std::size_t>(g)] * z.columns[static_cast<std::size_t>(g)]);
    }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  const bool together =
      parts.size() > 1 && z.offsets.size() == static_cast<std::size_t>(std::count_if(z.stored.begin(), z.stored.end(),
                                                                                     [](auto s) { return s >= 0; }));
  if (together) parts = {{parts.front().first, parts.back().second}};  // all are stored: a stripe is one stretch
  for (const auto& [begin, end] : parts) made.boxes.push_back({{begin}, {end - begin}});
  for (Index g = first; g < last; ++g) {
    const auto at = z.stored[static_cast<std::size_t>(g)];
    if (at < 0) {
      made.of_group.emplace_back(-1, 0);
      continue;
    }
    const Index begin = z.offsets[static_cast<std::size_t>(at)];
    const auto box = std::upper_bound(parts.begin(), parts.end(), std::pair(begin, std::numeric_limits<Index>::max())) -
                     parts.begin() - 1;
    made.of_group.emplace_back(static_cast<std::int32_t>(box), begin - parts[static_cast<std::size_t>(box)].first);
  }
  return made;
}

/// A block of the diagonal is symmetric to the last bit.
template <class T>
void mirror_lower_of(T* block, Index n) {
  for (Index a = 0; a < n; ++a)
    for (Index b = a + 1; b < n; ++b) block[a * n + b] = block[b * n + a];
}
void mirror_lower(const Tile& block) {
  if (block.dtype == Dtype::float32)
    mirror_lower_of(block.as<float>(), block.shape[0]);
  else
    mirror_lower_of(block.as<double>(), block.shape[0]);
}

class Projecting {
 public:
  Projecting(Graph& graph, std::shared_ptr<const Projection> job, const Array& values, const Array& blocks,
             const std::shared_ptr<Checkpoint>& checkpoint, std::shared_ptr<Notes> notes)
      : graph_(graph),
        job_(std::move(job)),
        values_(values),
        blocks_(blocks),
        notes_(std::move(notes)),
        stages_(graph, checkpoint),
        makers_(std::make_shared<Makers>(*job_->h)),
        charge_(graph.charge(job_->runs.workspace * static_cast<std::uint64_t>(graph.workers()) +
                             static_cast<std::uint64_t>(values.shape()[0] / values.chunks()[0]) * bytes_of_chunk)),
        finished_(stages_.tiles(values, values.chunks())) {
    const BlockLayout& z = job_->z.layout;
    for (Index s = 0; s < z.stripe_count(); ++s)
      stripes_.push_back(std::make_shared<const StripeAccess>(access_of(z, s)));
    by_row_.resize(stripes_.size());
    for (const Run& run : job_->runs.runs) by_row_[static_cast<std::size_t>(run.row)].push_back(&run);
  }

  void add() {
    add_index();
    graph_.look_ahead(tasks_ahead, true);
    graph_.trust_order(true);
    const auto count = static_cast<Index>(stripes_.size());
    for (Index first = 0; first < count;) {
      const Index last = panel_end(first);
      ++notes_->panels;
      for (Index row = first; row < count; ++row)
        for (const Run* run : by_row_[static_cast<std::size_t>(row)])
          if (run->col >= first && run->col < last) add_pair(*run);
      first = last;
    }
    graph_.barrier();
    graph_.trust_order(false);
  }

 private:
  std::size_t item() const { return size_of(values_.dtype()); }

  std::uint64_t bytes_of(Index stripe) const {
    std::uint64_t elements = 0;
    for (const Box& box : stripes_[static_cast<std::size_t>(stripe)]->boxes)
      elements += align_up(static_cast<std::uint64_t>(box.shape[0]) * item()) / item();
    return elements * item();
  }

  /// Where the panel that begins with this stripe ends.
  Index panel_end(Index first) {
    if (job_->order == Order::columns) return first + 1;
    if (room_ == 0) {
      std::uint64_t widest = 0, run = 0, scratch = 0;
      for (Index s = 0; s < static_cast<Index>(stripes_.size()); ++s) widest = std::max(widest, bytes_of(s));
      for (const Run& r : job_->runs.runs)
        run = std::max(run, static_cast<std::uint64_t>(r.length) * item()),
        scratch = std::max<std::uint64_t>(scratch, r.scratch);
      const std::uint64_t beside = static_cast<std::uint64_t>(graph_.workers() + 2) * (2 * run + scratch) + 3 * widest;
      const std::uint64_t budget = graph_.budget() / 10 * 9;
      room_ = std::max<std::uint64_t>(1, budget > beside ? budget - beside : 1);
      if (job_->panel > 0) room_ = std::min(room_, job_->panel);
    }
    std::uint64_t bytes = 0;
    Index last = first;
    while (last < static_cast<Index>(stripes_.size()) && (last == first || bytes + bytes_of(last) <= room_))
      bytes += bytes_of(last++);
    return last;
  }

  /// The list of blocks, in the order in which they lie.
  void add_index() {
    const auto total = static_cast<Index>(job_->runs.places.size());
    for (Index at = 0; at < total; at += index_rows) {
      const Index rows = std::min(index_rows, total - at);
      TaskSpec task;
      task.name = "project_index";
      task.accesses = {once(write({blocks_, {{at, 0}, {rows, 2}}}))};
      task.cost.bytes_touched = 16.0 * static_cast<double>(rows);
      task.body = [job = job_, at, rows](std::span<const Tile> tiles) {
        const Runs& runs = job->runs;
        auto run = std::upper_bound(runs.runs.begin(), runs.runs.end(), at,
                                    [](Index block, const Run& r) { return block < r.blocks; }) -
                   1;
        auto* to = tiles[0].as<std::int32_t>();
        const Index step = tiles[0].strides[0] / 4;
        for (Index b = at; b < at + rows; ++b, to += step) {
          while (b >= run->blocks + run->count) ++run;
          const BlockPlace& place = runs.places[static_cast<std::size_t>(b)];
          const auto& stripes = job->z.layout.stripes;
          to[0] = static_cast<std::int32_t>(stripes[static_cast<std::size_t>(run->row)] + place.i);
          to[1] = static_cast<std::int32_t>(stripes[static_cast<std::size_t>(run->col)] + place.j);
        }
      };
      graph_.add(std::move(task));
    }
  }

  void add_pair(const Run& run) {
    const Box box{{run.first}, {run.length}};
    if (finished_.holds(box)) return;
    const auto &rows = stripes_[static_cast<std::size_t>(run.row)], &cols = stripes_[static_cast<std::size_t>(run.col)];
    TaskSpec task;
    task.name = "project";
    for (const Box& part : rows->boxes) task.accesses.push_back(read({job_->z.values, part}));
    std::vector<std::size_t> col_access;  // blocks that both stripes share are accessed once
    for (const Box& part : cols->boxes) {
      const auto same = std::find_if(rows->boxes.begin(), rows->boxes.end(), [&](const Box& other) {
        return other.start == part.start && other.shape == part.shape;
      });
      col_access.push_back(same == rows->boxes.end() ? task.accesses.size()
                                                     : static_cast<std::size_t>(same - rows->boxes.begin()));
      if (same == rows->boxes.end()) task.accesses.push_back(read({job_->z.values, part}));
    }
    const std::size_t out = task.accesses.size();
    task.accesses.push_back(once(write({values_, box})));
    task.accesses.push_back(scratch(std::max<std::size_t>(run.scratch, 64)));
    task.cost.flops = 2 * run.multiply_adds;
    task.cost.float64 = values_.dtype() == Dtype::float64;
    task.cost.bytes_touched = bytes_of_nonzero * static_cast<double>(run.nonzeros);
    task.body = [job = job_, run, rows, cols, col_access, out, makers = makers_,
                 notes = notes_](std::span<const Tile> tiles) {
      compute(*job, run, *rows, *cols, col_access, out, *makers, *notes, tiles);
    };
    graph_.add(std::move(task));
    finished_.finish(box);
    finished_.offer();
  }

  static Tile matrix(const std::byte* data, Index rows, Index cols, Dtype dtype) {
    const auto item = static_cast<Index>(size_of(dtype));
    return {const_cast<std::byte*>(data), dtype, {rows, cols}, {cols * item, item}};
  }

  static void compute(const Projection& job, const Run& run, const StripeAccess& rows, const StripeAccess& cols,
                      const std::vector<std::size_t>& col_access, std::size_t out, Makers& makers, Notes& notes,
                      std::span<const Tile> tiles) {
    using Clock = std::chrono::steady_clock;
    const BlockLayout& z = job.z.layout;
    const Dtype dtype = job.z.values.dtype();
    const std::size_t item = size_of(dtype);
    std::byte* to = tiles[out].data;
    std::byte* product = tiles[out + 1].data;
    const std::byte* end = to + static_cast<std::size_t>(run.length) * item;
    auto held = makers.take();
    double making = 0, multiplying = 0;
    Index nonzeros = 0;
    for (Index b = 0; b < run.count; ++b) {
      const BlockPlace& place = job.runs.places[static_cast<std::size_t>(run.blocks + b)];
      const Index i = z.stripes[static_cast<std::size_t>(run.row)] + place.i,
                  j = z.stripes[static_cast<std::size_t>(run.col)] + place.j;
      const Index zi = z.columns[static_cast<std::size_t>(i)], zj = z.columns[static_cast<std::size_t>(j)],
                  di = z.rows[static_cast<std::size_t>(i)], dj = z.rows[static_cast<std::size_t>(j)];
      const auto& [row_box, row_at] = rows.of_group[place.i];
      const auto& [col_box, col_at] = cols.of_group[place.j];
      const std::byte* left = tiles[static_cast<std::size_t>(row_box)].data + static_cast<std::size_t>(row_at) * item;
      const std::byte* right =
          tiles[col_access[static_cast<std::size_t>(col_box)]].data + static_cast<std::size_t>(col_at) * item;
      const auto start = Clock::now();
      held->maker->make(i, j, held->block);
      const auto made = Clock::now();
      nonzeros += held->block.nonzeros();
      bool from_right = true;
      pair_work(static_cast<double>(job.h->most_nonzeros(i, j)), di, zi, dj, zj, from_right);
      const Tile result = matrix(to, zi, zj, dtype);
      if (from_right) {
        kernel::multiply(held->block, dtype, right, zj, product);
        kernel::gemm(1, matrix(left, di, zi, dtype), {.transpose = true}, matrix(product, di, zj, dtype), {}, 0, result,
                     nullptr);
      } else {
        kernel::multiply_transposed(held->block, dtype, left, zi, product);
        kernel::gemm(1, matrix(product, dj, zi, dtype), {.transpose = true}, matrix(right, dj, zj, dtype), {}, 0,
                     result, nullptr);
      }
      if (i == j) mirror_lower(result);
      to += static_cast<std::size_t>(zi * zj) * item;
      making += std::chrono::duration<double>(made - start).count();
      multiplying += std::chrono::duration<double>(Clock::now() - made).count();
    }
    std::memset(to, 0, static_cast<std::size_t>(end - to));
    makers.give(std::move(held));
    notes.pairs += run.count, notes.nonzeros += nonzeros;
    notes.making.fetch_add(making), notes.multiplying.fetch_add(multiplying);
  }

  Graph& graph_;
  std::shared_ptr<const Projection> job_;
  Array values_, blocks_;
  std::shared_ptr<Notes> notes_;
  Stages stages_;
  std::shared_ptr<Makers> makers_;
  Charge charge_;
  FinishedTiles finished_;
  std::vector<std::shared_ptr<const StripeAccess>> stripes_;
  std::vector<std::vector<const Run*>> by_row_;
  std::uint64_t room_ = 0;
};

}  // namespace

void project(Graph& graph, std::shared_ptr<const Projection> job, const Array& values, const Array& blocks,
             const std::shared_ptr<Checkpoint>& checkpoint, std::shared_ptr<Notes> notes) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  notes->panels = 0;
  Projecting(graph, std::move(job), values, blocks, checkpoint, std::move(notes)).add();
}

}  // namespace flagstone::subspace
