#include "flagstone/algorithms/subspace/project.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "flagstone/algorithms/subspace/pair_product.hpp"
#include "flagstone/algorithms/subspace/panels.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::subspace {
namespace {

/// Of few panels, so that each streams through handles of its own; more of them hold the whole budget before they run,
/// and every tile gets fresh pages (Nmax 8 in 256 MiB: 1.6 million faults instead of 0.5, a tenth of the time).
constexpr std::size_t tasks_ahead = 32;
constexpr double bytes_of_task = 4e6;  // copied while its tiles are taken and stored: 70 us measured
constexpr Index index_rows = 1 << 14;  // of the list of blocks, that one task writes

/// Makers that tasks borrow: each keeps lists that the next task may share, never more than there are workers.
class Makers {
 public:
  explicit Makers(const BlockSource& h) : h_(h) {}
  std::unique_ptr<PairProduct> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<PairProduct>(h_);
    auto held = std::move(free_.back());
    free_.pop_back();
    return held;
  }
  void give(std::unique_ptr<PairProduct> held) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(held));
  }

 private:
  const BlockSource& h_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PairProduct>> free_;
};

/// Some blocks of a run that one task makes: all, those of one column, or those of some rows.
struct Piece {
  Run run;
  Index begin = 0, end = 0;               // blocks of the run
  Index to = 0;                           // elements of the run before them
  Index first_group = 0, last_group = 0;  // rows: of these blocks those whose i lies between
  bool first = true, last = true;

  bool has(Index i) const { return i >= first_group && i < last_group; }
};

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
        charge_(graph.charge(job_->runs.workspace * static_cast<std::uint64_t>(graph.workers()) + place_bytes(values))),
        finished_(stages_.tiles(values, values.chunks())) {
    const BlockLayout& z = job_->z.layout;
    const bool all = all_stored(z);
    for (Index s = 0; s < z.stripe_count(); ++s)
      stripes_.push_back(std::make_shared<const StripeAccess>(access_of(z, s, all)));
    by_row_.resize(stripes_.size());
    for (const Run& run : job_->runs.runs) by_row_[static_cast<std::size_t>(run.row)].push_back(&run);
  }

  void add() {
    add_index();
    graph_.trust_order(true);
    if (job_->order == Order::columns) {
      graph_.look_ahead(column_handles - 1, true);
      add_columns();
    } else {
      graph_.look_ahead(tasks_ahead, true);
      add_panels();
    }
    graph_.barrier();
    graph_.trust_order(false);
  }

 private:
  void add_panels() {
    const auto count = static_cast<Index>(stripes_.size());
    const auto handles = static_cast<Index>(job_->z.values.size() / job_->z.layout.lengths.size());
    held_ = std::make_unique<HeldBasis>(graph_, job_->z, stripes_, all_stored(job_->z.layout), room());
    for (Index first = 0; first < count; first = held_->panel_end(first)) {
      const Index last = held_->panel_end(first);
      for (Index row = first; row < count; ++row) {
        std::vector<const Run*> left;
        for (const Run* run : by_row_[static_cast<std::size_t>(row)])
          if (run->col >= first && run->col < last && !finished_.holds({{run->first}, {run->length}}))
            left.push_back(run);
        for (const Run* run : left) add_run(*run, first, last, notes_->panels % handles, run == left.back());
      }
      ++notes_->panels;
    }
  }

  /// `alone`: what is read of a row that streams past the panel [first, last) is not needed behind this run.
  void add_run(const Run& run, Index first, Index last, Index handle, bool alone) {
    const auto& stripes = job_->z.layout.stripes;
    const auto row = static_cast<std::size_t>(run.row);
    const auto rows = run.row < last ? held_->held(run.row, first, handle) : stripes_[row];
    const auto cols = held_->held(run.col, first, handle);
    const std::vector<Index> cuts = job_->h->cuts(stripes[row], stripes[row + 1]);
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c)
      add_piece({run, 0, run.count, 0, cuts[c], cuts[c + 1], c == 0, c + 2 == cuts.size()}, rows, cols, handle,
                alone && c + 2 == cuts.size());
    finished_.finish({{run.first}, {run.length}});
    finished_.offer();
  }

  /// For each j the pieces of its runs: its own block stays, the others are read for it alone.
  void add_columns() {
    const BlockLayout& z = job_->z.layout;
    const auto& all = job_->runs.runs;
    Index handle = 0;
    for (std::size_t from = 0; from < all.size();) {
      std::vector<Piece> open;  // the runs of one column of stripes, at the groups that are done
      std::size_t to = from;
      for (; to < all.size() && all[to].col == all[from].col; ++to)
        if (!finished_.holds({{all[to].first}, {all[to].length}})) open.push_back({all[to]});
      const Index stripe = all[from].col, groups = z.stripes[static_cast<std::size_t>(stripe) + 1] -
                                                   z.stripes[static_cast<std::size_t>(stripe)];
      for (Index j = 0; j < groups; ++j) {
        bool any = false;
        for (Piece& piece : open) any = add_column(piece, j, handle) || any;
        handle += any;
      }
      finished_.offer();
      from = to;
    }
  }

  /// The blocks of one group j in a run; whether there are some.
  bool add_column(Piece& piece, Index j, Index handle) {
    const BlockLayout& z = job_->z.layout;
    const Run& run = piece.run;
    const auto place = [&](Index b) { return job_->runs.places[static_cast<std::size_t>(run.blocks + b)]; };
    piece.first_group = z.stripes[static_cast<std::size_t>(run.row)];
    piece.last_group = z.stripes[static_cast<std::size_t>(run.row) + 1];
    piece.begin = piece.end;
    while (piece.end < run.count && place(piece.end).j == j) ++piece.end;
    if (piece.end == piece.begin) return false;
    piece.first = piece.begin == 0, piece.last = piece.end == run.count;
    const Index i0 = z.stripes[static_cast<std::size_t>(run.row)], j0 = z.stripes[static_cast<std::size_t>(run.col)];
    auto rows = std::make_shared<StripeAccess>(), cols = std::make_shared<StripeAccess>();
    rows->of_group.assign(static_cast<std::size_t>(z.stripes[static_cast<std::size_t>(run.row) + 1] - i0), {-1, 0});
    cols->of_group.assign(static_cast<std::size_t>(j) + 1, {0, 0});
    cols->parts = {part_of(z, j0 + j)};
    Index length = 0;
    for (Index b = piece.begin; b < piece.end; ++b) {
      const Index i = i0 + place(b).i;
      const Part part = part_of(z, i);
      auto& parts = rows->parts;
      const auto known = std::find(parts.begin(), parts.end(), part);
      rows->of_group[place(b).i] = {static_cast<std::int32_t>(known - parts.begin()), 0};
      if (known == parts.end()) parts.push_back(part);
      length += z.columns[static_cast<std::size_t>(i)] * z.columns[static_cast<std::size_t>(j0 + j)];
    }
    add_piece(piece, rows, cols, handle % column_handles, true);
    piece.to += length;
    if (piece.last) finished_.finish({{run.first}, {run.length}});
    return true;
  }

  std::size_t item() const { return size_of(values_.dtype()); }

  /// Bytes for what stays of Z: beside it a task is to find room at once, with what streams past and some that are
  /// stored meanwhile.
  std::uint64_t room() const {
    std::uint64_t widest = 0, most = 0, all = 0;
    for (const auto& stripe : stripes_) {
      std::uint64_t bytes = 0;
      for (const Part& part : stripe->parts)
        bytes += align_up(static_cast<std::uint64_t>(part.end - part.begin) * item());
      widest = std::max(widest, bytes);
    }
    for (const Run& run : job_->runs.runs) {
      const std::uint64_t bytes = align_up(static_cast<std::uint64_t>(run.length) * item()) + align_up(run.scratch);
      most = std::max(most, bytes), all += bytes;
    }
    const auto tasks = std::max<std::uint64_t>(1, job_->runs.runs.size());
    const auto workers = static_cast<std::uint64_t>(graph_.workers());
    const std::uint64_t beside = 2 * (most + widest + bytes_of_rows()) + 4 * workers * (all / tasks);
    const std::uint64_t budget = graph_.budget() / 10 * 9, left = budget > beside ? budget - beside : 0;
    return job_->panel > 0 ? std::min(left, job_->panel) : left;
  }

  /// Of an H that lies in arrays: the most that one task reads of it.
  std::uint64_t bytes_of_rows() const {
    const auto& stripes = job_->z.layout.stripes;
    std::uint64_t most = 0;
    for (std::size_t s = 0; s + 1 < stripes.size(); ++s) {
      const std::vector<Index> cuts = job_->h->cuts(stripes[s], stripes[s + 1]);
      for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
        std::uint64_t bytes = 0;
        for (const Region& region : job_->h->regions(cuts[c], cuts[c + 1]))
          bytes += align_up(static_cast<std::uint64_t>(count(region.box.shape)) * size_of(region.array.dtype()));
        most = std::max(most, bytes);
      }
    }
    return most;
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

  /// `handle`: of each file; `alone`: what is read of the rows serves this task and no other.
  void add_piece(const Piece& piece, std::shared_ptr<const StripeAccess> rows, std::shared_ptr<const StripeAccess> cols,
                 Index handle, bool alone) {
    const Run& run = piece.run;
    const BlockLayout& z = job_->z.layout;
    const auto files = static_cast<Index>(z.lengths.size());
    const auto region = [&](const Part& part) {
      if (part.file == in_memory) return read({held_->memory(), {{part.begin}, {part.end - part.begin}}});
      return read({job_->z.values[static_cast<std::size_t>(handle * files + part.file)],
                   {{part.begin}, {part.end - part.begin}}});
    };
    TaskSpec task;
    task.name = "project";
    std::vector<std::size_t> col_access;  // parts that both sides share are accessed once
    for (const Part& part : rows->parts) task.accesses.push_back(region(part));
    for (const Part& part : cols->parts) {
      const auto same = std::find(rows->parts.begin(), rows->parts.end(), part);
      const bool shared = same != rows->parts.end();
      col_access.push_back(shared ? static_cast<std::size_t>(same - rows->parts.begin()) : task.accesses.size());
      if (!shared) task.accesses.push_back(region(part));
    }
    if (alone)
      for (std::size_t p = 0; p < rows->parts.size(); ++p)
        if (rows->parts[p].file != in_memory && std::find(col_access.begin(), col_access.end(), p) == col_access.end())
          task.accesses[p] = flagstone::last(std::move(task.accesses[p]));
    const std::size_t out = task.accesses.size();
    const Region values{values_, {{run.first}, {run.length}}};
    const Access written = piece.first ? write(values) : update(values);
    task.accesses.push_back(piece.last ? once(written) : again(written));
    task.accesses.push_back(scratch(std::max<std::size_t>(run.scratch, 64)));
    for (const Region& of_h : job_->h->regions(piece.first_group, piece.last_group))
      task.accesses.push_back(read(of_h));
    const auto stripe = static_cast<std::size_t>(run.row);
    const double share = static_cast<double>(piece.end - piece.begin) / static_cast<double>(run.count) *
                         static_cast<double>(piece.last_group - piece.first_group) /
                         static_cast<double>(z.stripes[stripe + 1] - z.stripes[stripe]);
    task.cost.flops = run.work.flops() * share;
    task.cost.float64 = values_.dtype() == Dtype::float64;
    task.cost.bytes_touched = job_->pace * run.work.bytes_touched() * share + bytes_of_task;
    task.body = [job = job_, piece, rows = std::move(rows), cols = std::move(cols), col_access, out, makers = makers_,
                 notes = notes_](std::span<const Tile> tiles) {
      compute(*job, piece, *rows, *cols, col_access, out, *makers, *notes, tiles);
    };
    graph_.add(std::move(task));
  }

  static void compute(const Projection& job, const Piece& piece, const StripeAccess& rows, const StripeAccess& cols,
                      const std::vector<std::size_t>& col_access, std::size_t out, Makers& makers, Notes& notes,
                      std::span<const Tile> tiles) {
    const Run& run = piece.run;
    const BlockLayout& z = job.z.layout;
    const Dtype dtype = tiles[out].dtype;
    const std::size_t item = size_of(dtype);
    std::byte* to = tiles[out].data + static_cast<std::size_t>(piece.to) * item;
    std::byte* product = tiles[out + 1].data;
    const std::byte* end = tiles[out].data + static_cast<std::size_t>(run.length) * item;
    auto held = makers.take();
    held->maker().load(piece.first_group, tiles.subspan(out + 2));
    Measured took{run.first, {}};
    std::vector<Measured> blocks;
    Index nonzeros = 0, pairs = 0;
    for (Index b = piece.begin; b < piece.end; ++b) {
      const BlockPlace& place = job.runs.places[static_cast<std::size_t>(run.blocks + b)];
      const Index i = z.stripes[static_cast<std::size_t>(run.row)] + place.i,
                  j = z.stripes[static_cast<std::size_t>(run.col)] + place.j;
      const Index zi = z.columns[static_cast<std::size_t>(i)], zj = z.columns[static_cast<std::size_t>(j)],
                  di = z.rows[static_cast<std::size_t>(i)], dj = z.rows[static_cast<std::size_t>(j)];
      if (!piece.has(i)) {
        to += static_cast<std::size_t>(zi * zj) * item;
        continue;
      }
      ++pairs;
      const auto& [row_box, row_at] = rows.of_group[place.i];
      const auto& [col_box, col_at] = cols.of_group[place.j];
      const std::byte* left = tiles[static_cast<std::size_t>(row_box)].data + static_cast<std::size_t>(row_at) * item;
      const std::byte* right =
          tiles[col_access[static_cast<std::size_t>(col_box)]].data + static_cast<std::size_t>(col_at) * item;
      const PairProduct::Side of_i{i, di, zi, left}, of_j{j, dj, zj, right};
      const PairWork work = held->work(of_i, of_j);
      const auto [making, multiplying, made] = (*held)(of_i, of_j, work.right, dtype, product, to);
      nonzeros += made;
      to += static_cast<std::size_t>(zi * zj) * item;
      const Measured block{run.first, work, making, multiplying};
      took.making += block.making, took.multiplying += block.multiplying;
      if (notes.keep) blocks.push_back(block);
    }
    if (piece.last) std::memset(to, 0, static_cast<std::size_t>(end - to));
    makers.give(std::move(held));
    notes.pairs += pairs, notes.nonzeros += nonzeros;
    notes.making.fetch_add(took.making), notes.multiplying.fetch_add(took.multiplying);
    if (notes.keep) {
      const std::lock_guard lock(notes.mutex);
      notes.blocks.insert(notes.blocks.end(), blocks.begin(), blocks.end());
    }
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
  std::unique_ptr<HeldBasis> held_;
};

}  // namespace

void project(Graph& graph, std::shared_ptr<const Projection> job, const Array& values, const Array& blocks,
             const std::shared_ptr<Checkpoint>& checkpoint, std::shared_ptr<Notes> notes) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  notes->panels = 0;
  Projecting(graph, std::move(job), values, blocks, checkpoint, std::move(notes)).add();
}

}  // namespace flagstone::subspace
