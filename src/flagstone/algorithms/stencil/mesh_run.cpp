#include "flagstone/algorithms/stencil/mesh_run.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/field/observers.hpp"
#include "flagstone/algorithms/stencil/field/states.hpp"
#include "flagstone/algorithms/stencil/mesh/moves.hpp"
#include "flagstone/algorithms/stencil/mesh/part.hpp"
#include "flagstone/algorithms/stencil/mesh/transport.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/formats/flat.hpp"

namespace flagstone::stencil {
namespace {

constexpr Index piece_bytes = 1 * MiB;  // of what one task moves between ranks, operands and results

/// Extents of about so many bytes: whole units, longest along the last axis.
Axes piece_of(const Problem& problem, Axes unit) {
  for (std::size_t d = 3; d-- > 0;) {
    const Index n = std::max<Index>(1, problem.space.shape[d]);
    const Index bytes = unit[0] * unit[1] * unit[2] * problem.item();
    unit[d] *= std::clamp<Index>(piece_bytes / bytes, 1, ceil_div(n, unit[d]));
  }
  return unit;
}

/// f(box) of a range cut into boxes no longer than `edge`, from its first point on.
template <class F>
void each_piece(const Range3& range, const Axes& edge, const F& f) {
  if (range.empty()) return;
  Axes at{}, grid;
  for (std::size_t d = 0; d < 3; ++d) grid[d] = ceil_div(range.extent(d), edge[d]);
  do {
    Range3 box;
    for (std::size_t d = 0; d < 3; ++d) {
      box.first[d] = range.first[d] + at[d] * edge[d];
      box.last[d] = std::min(range.last[d], box.first[d] + edge[d]);
    }
    f(box);
  } while (advance(at, Axes{}, grid));
}

/// A sub-buffer's place: elements in C order in a nameless file, so that any box of it can be read and written.
Array flat_array(const Problem& problem, const Range3& range, const std::shared_ptr<File>& file) {
  return open_raw(file, {problem.box(range).shape, problem.dtype}, true, "a rank's sub-buffer");
}

/// A rank's problem with arrays like its own, without space on the disk: for choosing its scheme.
Problem with_arrays(Problem part) {
  const std::shared_ptr<File> file = File::temporary(part.scratch.directory);
  file->truncate(static_cast<std::uint64_t>(part.space.whole().count() * part.item()));
  const Array like = flat_array(part, part.space.whole(), file);
  for (std::vector<Array>* arrays : {&part.from, &part.to, &part.coefficients})
    std::fill(arrays->begin(), arrays->end(), like);
  return part;
}

/// Sub-buffers, one file each; of a run their bytes are promised under the quota.
class SubBuffers {
 public:
  SubBuffers(Graph& graph, const Problem& problem) : graph_(graph), problem_(problem) {}
  Array make(const Range3& range) {
    const auto bytes = static_cast<std::uint64_t>(range.count() * problem_.item());
    const std::shared_ptr<File> file = File::temporary(problem_.scratch.directory);
    bytes_ += bytes;
    if (graph_.planning()) {
      file->truncate(bytes);
    } else {
      if (!promise_)
        promise_ =
            std::make_unique<Reservation>(problem_.scratch.who, problem_.scratch.directory, problem_.scratch.quota);
      promise_->take(bytes_);
      file->allocate(bytes);
    }
    return flat_array(problem_, range, file);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Graph& graph_;
  const Problem& problem_;
  std::unique_ptr<Reservation> promise_;
  std::uint64_t bytes_ = 0;
};

class MeshRun {
 public:
  MeshRun(Graph& graph, std::shared_ptr<const Problem> problem, const Wishes& wishes)
      : graph_(graph),
        problem_(std::move(problem)),
        wishes_(wishes),
        mesh_(mesh_of(*problem_, wishes.mesh)),
        observers_(graph, problem_),
        transport_(graph, problem_),
        buffers_(graph, *problem_) {
    const Index depth = chosen_depth();
    supersteps_ = Supersteps(problem_->left(), depth);
    for (Index rank = 0; rank < ranks_of(mesh_); ++rank) {
      ranks_.emplace_back(problem_->space, mesh_, rank, supersteps_[0]);
      parts_.push_back(with_arrays(part_of(problem_, ranks_.back(), &observers_)));
      edges_.push_back(graph.charge(std::max<std::uint64_t>(1, parts_.back().edge_bytes())));
    }
    total_ = schemes_at(supersteps_[0])[largest()];
    total_.depth = supersteps_[0], total_.supersteps = supersteps_.number();
    total_.read = total_.written = total_.updates = total_.face_elements = 0;
    total_.disk_seconds = total_.compute_seconds = total_.seconds = 0;
  }

  Scheme run() {
    graph_.trust_order(true);
    make_arrays();
    distribute();
    graph_.meet(false);
    const double begun = graph_.planned_seconds();
    Index step = problem_->first;
    for (Index s = 0; s < supersteps_.number(); ++s) {
      exchange(supersteps_[s]);
      observers_.begin(step, supersteps_[s]);
      step_on(step, supersteps_[s]);
      now_ = 1 - now_, step += supersteps_[s];
      if (observers_.ends()) break;
      if (s + 1 < supersteps_.number()) save(step);
    }
    total_.loop_seconds = graph_.planned_seconds() - begun;
    graph_.go_to_node(0);
    collect(problem_->to, piece_of(*problem_, result_units(*problem_)));
    total_.steps = step, total_.scratch_bytes = buffers_.bytes();
    return total_;
  }

 private:
  std::size_t largest() const {
    std::size_t found = 0;
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank)
      if (ranks_[rank].buffer().count() > ranks_[found].buffer().count()) found = rank;
    return found;
  }

  /// As deep as the largest rank alone would go on its core, as far as sleeves and the budget have room.
  Index chosen_depth() const {
    const Index steps = problem_->left(), most = deepest_of(problem_->space, mesh_);
    check_depth(*problem_, mesh_, wishes_.depth > 0 ? Supersteps(steps, wishes_.depth)[0] : 1);
    const auto at = [&](Index depth, bool fixed) {
      Problem widest;
      for (Index rank = 0; rank < ranks_of(mesh_); ++rank) {
        Problem part = part_of(problem_, Subdomain(problem_->space, mesh_, rank, depth), nullptr);
        if (rank == 0 || part.space.whole().count() > widest.space.whole().count()) widest = std::move(part);
      }
      widest = with_arrays(std::move(widest));
      widest.longest_superstep = problem_->longest_superstep / static_cast<double>(ranks_of(mesh_));
      Wishes wishes = wishes_;
      if (fixed) widest.steps = widest.first + depth, wishes.depth = depth;
      return choose(widest, wishes, graph_.budget(), graph_.workers());
    };
    Index depth = Supersteps(steps, std::min(most, at(1, false).depth))[0];
    while (wishes_.depth == 0 && depth > 1 && !at(depth, true).fits) depth = Supersteps(steps, depth / 2)[0];
    return depth;
  }

  /// Of each rank; one method for all.
  const std::vector<Scheme>& schemes_at(Index depth) {
    std::vector<Scheme>& found = schemes_[depth];
    if (!found.empty()) return found;
    Wishes wishes = wishes_;
    wishes.depth = depth;
    std::vector<Problem> parts = parts_;
    for (Problem& part : parts) part.steps = part.first + depth;
    if (method_.empty()) {
      const Scheme widest = choose(parts[largest()], wishes, graph_.budget(), graph_.workers());
      method_ = name_of(widest.method);
    }
    wishes.method = method_;
    for (const Problem& part : parts) found.push_back(choose(part, wishes, graph_.budget(), graph_.workers()));
    return found;
  }

  void make_arrays() {
    for (const Subdomain& rank : ranks_) {
      for (auto& place : states_) {
        place.emplace_back();
        for (std::size_t state = 0; state < problem_->order(); ++state)
          place.back().push_back(buffers_.make(rank.buffer()));
      }
      given_.emplace_back();
      for (std::size_t c = 0; c < problem_->coefficients.size(); ++c)
        given_.back().push_back(buffers_.make(rank.buffer()));
    }
  }

  /// A range, as the field counts, of an array of a rank.
  Region region(const Array& array, std::size_t rank, const Range3& range) const {
    Axes back = ranks_[rank].buffer().first;
    for (Index& each : back) each = -each;
    return {array, problem_->box(kernel::moved(range, back))};
  }

  void count(double read, double written) { total_.read += read, total_.written += written; }

  // The operands, or what a dead process saved ------------------------------------------------------------

  void distribute() {
    const Axes piece = piece_of(*problem_, {1, 1, 1});
    if (problem_->first > 0) {
      const Epoch epoch = load_epoch(*problem_);
      saved_ = epoch.place;
      for (std::size_t state = 0; state < problem_->order(); ++state)
        scatter(epoch_state(*problem_, epoch.place, state, epoch.cell, true), epoch.cell, state);
    } else {
      for (std::size_t state = 0; state < problem_->order(); ++state)
        scatter(problem_->from[state], cell_of(*problem_, problem_->from[state], piece), state);
    }
    for (std::size_t c = 0; c < problem_->coefficients.size(); ++c)
      scatter_given(problem_->coefficients[c], cell_of(*problem_, problem_->coefficients[c], piece), c);
    graph_.drain();
  }

  /// Each cell goes to the cores under it.
  void scatter(const Array& array, const Axes& cell, std::size_t state) {
    each_box(*problem_, problem_->space.whole(), cell, [&](const Range3& box) {
      Moves moves(problem_, "stencil_distribute");
      const std::size_t from = moves.read_box({array, problem_->box(box)}, box);
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const Range3 part = kernel::intersect(box, ranks_[rank].core());
        if (part.empty()) continue;
        moves.copy(from, moves.write_box(region(states_[now_][rank][state], rank, part), part), part);
      }
      moves.add_to(graph_);
      count(static_cast<double>(box.count()), static_cast<double>(box.count()));
    });
  }

  /// Coefficients do not change: their sleeves come with them.
  void scatter_given(const Array& array, const Axes& cell, std::size_t number) {
    each_box(*problem_, problem_->space.whole(), cell, [&](const Range3& box) {
      Moves moves(problem_, "stencil_distribute");
      const std::size_t from = moves.read_box({array, problem_->box(box)}, box);
      double written = 0;
      Axes first{}, last{1, 1, 1};
      for (std::size_t d = 0; d < 3; ++d)
        if (problem_->space.periodic(d) && mesh_[d] > 1) first[d] = -1, last[d] = 2;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        Axes image = first;
        do {
          Axes shift;
          for (std::size_t d = 0; d < 3; ++d) shift[d] = image[d] * problem_->space.shape[d];
          const Range3 part = kernel::intersect(kernel::moved(box, shift), ranks_[rank].buffer());
          if (part.empty()) continue;
          moves.copy(from, moves.write_box(region(given_[rank][number], rank, part), part), part, shift);
          written += static_cast<double>(part.count());
        } while (advance(image, first, last));
      }
      moves.add_to(graph_);
      count(static_cast<double>(box.count()), written);
    });
  }

  // A superstep -------------------------------------------------------------------------------------------

  void exchange(Index steps) {
    const auto begin = Clock::now();
    const double planned_begin = graph_.planned_seconds();
    double elements = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      if (mesh_[d] == 1) continue;
      // One side after the other: what a thin core sends to both is one box in part, and boxes under way are disjoint.
      for (const bool high : {false, true}) {
        for (const Subdomain& rank : ranks_) {
          if (!rank.sleeve(d, high)) continue;
          graph_.go_to_node(node_of(rank.rank()));
          elements += receive(rank, d, high, steps);
        }
        transport_.barrier();
      }
      graph_.meet(false);  // the next axis sends on what came along this one
    }
    count(elements, elements);
    total_.sleeve_elements += elements;
    const double bytes = elements * static_cast<double>(problem_->item());
    const double planned = bytes / wishes_.rates.read + bytes / wishes_.rates.written;
    total_.disk_seconds += planned;
    if (graph_.nodes() > 1)
      total_.exchange_seconds += graph_.planned_seconds() - planned_begin;
    else
      total_.exchange_seconds += graph_.planning() ? planned : since(begin);
  }

  double receive(const Subdomain& rank, std::size_t axis, bool high, Index steps) {
    const Range3 all = rank.received(axis, high, steps);
    const Axes shift = rank.shift(axis, high);
    const auto to = static_cast<std::size_t>(rank.rank()), from = static_cast<std::size_t>(rank.neighbour(axis, high));
    each_piece(all, piece_of(*problem_, {1, 1, 1}), [&](const Range3& range) {
      for (std::size_t state = 0; state < problem_->order(); ++state)
        transport_.send({rank.neighbour(axis, high), rank.rank(),
                         region(states_[now_][from][state], from, kernel::moved(range, shift)),
                         region(states_[now_][to][state], to, range)});
    });
    return static_cast<double>(all.count()) * static_cast<double>(problem_->order());
  }

  /// The chosen method inside each rank; the barrier costs each of them what it waits for the slowest.
  void step_on(Index first_step, Index steps) {
    double longest = 0, all = 0;
    const std::vector<Scheme>& schemes = schemes_at(steps);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto begin = Clock::now();
      graph_.go_to_node(node_of(static_cast<Index>(rank)));
      auto part = std::make_shared<Problem>(parts_[rank]);
      part->first = first_step, part->steps = first_step + steps;
      part->from = states_[now_][rank], part->to = states_[1 - now_][rank], part->coefficients = given_[rank];
      const Scheme done = run_scheme(graph_, part, schemes[rank]);
      transport_.barrier();
      const double seconds = graph_.planning() ? done.seconds : since(begin);
      longest = std::max(longest, seconds), all += seconds;
      count(done.read, done.written);
      total_.updates += done.updates, total_.face_elements += done.face_elements;
      total_.disk_seconds += done.disk_seconds, total_.compute_seconds += done.compute_seconds;
      total_.seconds += done.seconds;
    }
    if (graph_.nodes() > 1)
      total_.barrier_seconds += graph_.meet(true);
    else
      total_.barrier_seconds += longest - all / static_cast<double>(ranks_.size());
  }

  /// Where a plan has the rank.
  int node_of(Index rank) const { return static_cast<int>(rank % graph_.nodes()); }

  // The results, and epochs -------------------------------------------------------------------------------

  /// Boxes of `unit` from the cores that they lie on.
  void collect(const std::vector<Array>& to, const Axes& unit) {
    for (std::size_t state = 0; state < problem_->order(); ++state)
      each_box(*problem_, problem_->space.whole(), unit, [&](const Range3& box) {
        Moves moves(problem_, "stencil_collect");
        std::vector<std::pair<std::size_t, Range3>> found;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
          if (const Range3 part = kernel::intersect(box, ranks_[rank].core()); !part.empty())
            found.emplace_back(moves.read_box(region(states_[now_][rank][state], rank, part), part), part);
        const std::size_t made = moves.write_box({to[state], problem_->box(box)}, box);
        for (const auto& [from, part] : found) moves.copy(from, made, part);
        moves.add_to(graph_);
      });
    const double all = static_cast<double>(problem_->order()) * static_cast<double>(problem_->space.whole().count());
    count(all, all);
    graph_.drain();
  }

  void save(Index step) {
    if (!problem_->checkpoint || graph_.planning() || !graph_.agree(problem_->checkpoint->due())) return;
    const Epoch epoch{step, saved_ == 0 ? 1 : 0, piece_of(*problem_, {1, 1, 1})};
    std::vector<Array> places;
    for (std::size_t state = 0; state < problem_->order(); ++state)
      places.push_back(epoch_state(*problem_, epoch.place, state, epoch.cell, false));
    collect(places, epoch.cell);
    for (const Array& place : places) place.store().checkpoint();
    save_epoch(*problem_, epoch);
    saved_ = epoch.place;
  }

  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

  Graph& graph_;
  std::shared_ptr<const Problem> problem_;
  Wishes wishes_;
  Mesh mesh_;
  Observers observers_;
  Copies transport_;
  SubBuffers buffers_;
  Supersteps supersteps_{0, 1};
  std::vector<Subdomain> ranks_;
  std::vector<Problem> parts_;  // of each rank
  std::vector<Charge> edges_;
  std::map<Index, std::vector<Scheme>> schemes_;  // by depth, of each rank
  std::string method_;
  std::array<std::vector<std::vector<Array>>, 2> states_;  // of the places that take turns, of each rank, each state
  std::vector<std::vector<Array>> given_;                  // of each rank, each coefficient
  std::size_t now_ = 0;
  Index saved_ = -1;  // the place of the last epoch
  Scheme total_;
};

}  // namespace

Scheme run_mesh(Graph& graph, std::shared_ptr<const Problem> problem, const Wishes& wishes) {
  return MeshRun(graph, std::move(problem), wishes).run();
}

}  // namespace flagstone::stencil
