#include "flagstone/algorithms/stencil/schedules/wavefront.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "flagstone/algorithms/stencil/field/states.hpp"
#include "flagstone/algorithms/stencil/schedules/strip.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::stencil {
namespace {

constexpr Index tile_bytes = 64 * KiB;  // a request that long costs a disk little more than its bytes

Index plane_bytes(const Problem& problem) {
  return std::max<Index>(1, problem.space.shape[1] * problem.space.shape[2] * problem.item());
}

/// Planes of one tile, where nothing stored says how many: a divisor of a batch.
Index unit_of(const Problem& problem, const WavefrontScheme& scheme) {
  Index unit = std::min(scheme.planes, ceil_div(tile_bytes, plane_bytes(problem)));
  while (scheme.planes % unit != 0) --unit;
  return unit;
}

/// Of an array: stored units are read or written whole where they cannot be cut.
Index unit_of(const Problem& problem, const WavefrontScheme& scheme, const Array& array, bool written) {
  if (array.in_memory() || (written ? takes_any_box(array) : reads_any_box(array))) return unit_of(problem, scheme);
  const Index chunk = std::min(problem.space.shape[0], problem.extents(array.chunks())[0]);
  return written ? chunk : std::lcm(chunk, unit_of(problem, scheme));
}

Index floor_div(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

class Builder {
 public:
  Builder(Graph& graph, std::shared_ptr<const Problem> problem, const WavefrontScheme& scheme)
      : graph_(graph),
        problem_(std::move(problem)),
        scheme_(scheme),
        depths_(problem_->left(), scheme.depth),
        states_(graph, problem_, depths_.number(), plane_cell(), scheme.held),
        observers_(graph, problem_) {
    const auto deepest = std::make_shared<Levels>(*problem_, scheme_, depths_[0]);
    const auto strips = deepest->strips();
    // A task names all its planes, 30 KiB of them with a radius of 4: so no more than the next batches are in sight.
    graph.look_ahead(static_cast<std::size_t>(4 * strips + 8 * graph.workers()), true);
    rings_ = graph.allocate({strips, static_cast<Index>(deepest->ring_bytes())}, Dtype::uint8);
    turns_ = graph.workers() + 1;
    if (strips > 1 && deepest->face_bytes() > 0)
      faces_ = graph.allocate({turns_ * 2, static_cast<Index>(deepest->face_bytes())}, Dtype::uint8);
  }

  Index run() {
    Index step = problem_->first;
    for (Index s = 0; s < depths_.number(); ++s) {
      states_.begin(s);
      if (!levels_ || levels_->steps() != depths_[s])
        levels_ = std::make_shared<Levels>(*problem_, scheme_, depths_[s]);
      place_receivers();
      const Interval batches = levels_->batches();
      Axes largest = problem_->space.shape;
      largest[0] = std::min(largest[0], scheme_.planes);
      if (levels_->strips() > 1) largest[strip_axis(*problem_)] = scheme_.strip;
      observers_.begin(step, depths_[s], (batches.last - batches.first) * levels_->strips(), largest);
      for (Index batch = batches.first; batch < batches.last; ++batch)
        for (Index strip = 0; strip < levels_->strips(); ++strip) {
          graph_.add(task_of(s, step, batch, strip));
          observers_.added();
          if (!problem_->overlap && strip + 1 == levels_->strips()) graph_.drain();
        }
      step += depths_[s];
      if (observers_.ends()) {
        states_.finish(s, batch_box());
        break;
      }
      states_.end(s, step);
    }
    return step;
  }

 private:
  /// Planes of a batch: whole chunks of the results.
  Axes batch_box() const {
    Axes box = problem_->space.shape;
    box[0] = scheme_.planes;
    return box;
  }

  Axes plane_cell() const {
    Axes cell = problem_->space.shape;
    cell[0] = unit_of(*problem_, scheme_);
    return cell;
  }

  /// Accesses to planes [first, last) of an array, those beyond a periodic edge by what they are.
  template <class Make>
  PlaneList planes_of(TaskSpec& task, Interval planes, Index unit, const Make& make) const {
    PlaneList list{planes.first, {}};
    const Index n = problem_->space.shape[0];
    for (Index z = planes.first; z < planes.last; ++z) {
      const Index plane = (z % n + n) % n, start = plane / unit * unit;
      Range3 cell = problem_->space.whole();
      cell.first[0] = start, cell.last[0] = std::min(n, start + unit);
      if (list.places.empty() || !(list.places.back().cell == cell)) {
        list.places.push_back({static_cast<std::uint32_t>(task.accesses.size()), cell});
        task.accesses.push_back(make(cell));
      } else {
        list.places.push_back(list.places.back());
      }
    }
    return list;
  }

  PlaneList read_state(TaskSpec& task, Index s, std::size_t state, Interval planes) const {
    const Index unit =
        states_.reads_turn(s) ? unit_of(*problem_, scheme_) : unit_of(*problem_, scheme_, problem_->from[state], false);
    return planes_of(task, planes, unit, [&](const Range3& cell) { return read(states_.in(s, state, cell)); });
  }

  static Interval common(const Interval& a, const Interval& b) {
    return {std::max(a.first, b.first), std::max(std::max(a.first, b.first), std::min(a.last, b.last))};
  }

  /// Planes of the field that levels `from` to `to` compute in a batch; of a periodic axis all of it, where they wrap.
  Interval computed_planes(Index batch, Index from, Index to) const {
    const Interval fronts = levels_->fronts(batch);
    Interval made{levels_->plane_at(to, fronts.first), levels_->plane_at(from, fronts.last - 1) + 1};
    const Interval field{0, problem_->space.shape[0]};
    Interval all = levels_->planes(from);
    made = common(made, all);
    if (made.empty() || (made.first >= 0 && made.last <= field.last)) return made;
    return field;
  }

  TaskSpec task_of(Index s, Index first_step, Index batch, Index strip) {
    auto work = std::make_shared<StripWork>();
    work->problem = problem_, work->levels = levels_;
    work->strip = strip, work->batch = batch, work->first_step = first_step;
    const Index depth = levels_->depth(), reach = levels_->versions().radius()[0];
    const Interval fronts = levels_->fronts(batch);
    TaskSpec task;
    task.name = "stencil_strip";
    const Interval read_planes = common({fronts.first + reach, fronts.last + reach}, levels_->planes(0));
    for (std::size_t field = 0; field < levels_->versions().fields(); ++field)
      work->now.push_back(read_state(task, s, field, read_planes));
    if (!problem_->fields() && problem_->order() == 2)
      work->before = read_state(task, s, 1, computed_planes(batch, 1, 1));
    for (const Array& array : problem_->coefficients)
      work->coefficients.push_back(planes_of(task, computed_planes(batch, 1, depth),
                                             unit_of(*problem_, scheme_, array, false), [&](const Range3& cell) {
                                               return read(Region{array, problem_->box(cell)});
                                             }));
    add_results(s, *work, task);
    add_memory(*work, task);
    add_traces(*work, task, first_step);
    work->observed = observers_.task(task, [&](Index step) { return shown(step * stages(), batch, strip); });
    work->scratch = static_cast<std::uint32_t>(task.accesses.size());
    task.accesses.push_back(scratch(StripWork::scratch_bytes(*problem_, *levels_)));
    const double updates = count_updates(batch, strip) / static_cast<double>(stages());
    task.cost.flops = updates * problem_->flops();
    task.cost.bytes_touched = updates * static_cast<double>(problem_->item());
    task.cost.float64 = problem_->dtype == Dtype::float64 || problem_->dtype == Dtype::complex128;
    Call call(Kernel::stencil_strip, problem_->dtype, {});
    call.flops = task.cost.flops;
    call.value = std::move(work);
    task.calls.push_back(std::move(call));
    return task;
  }

  void add_results(Index s, StripWork& work, TaskSpec& task) const {
    const Interval planes = common({work.batch * scheme_.planes, (work.batch + 1) * scheme_.planes}, problem_->core(0));
    const bool first = work.strip == 0, last = work.strip + 1 == levels_->strips(), result = states_.is_result(s);
    for (std::size_t state = 0; state < problem_->order(); ++state) {
      const Index unit = result ? unit_of(*problem_, scheme_, problem_->to[state], true) : unit_of(*problem_, scheme_);
      work.results.push_back(planes_of(task, planes, unit, [&](const Range3& cell) {
        Region region = states_.out(s, state, cell);
        const Access access = first ? write(std::move(region)) : update(std::move(region));
        return last ? once(access) : again(access);
      }));
    }
  }

  /// The strip's ring, the face that it takes and the one that it gives: these take turns.
  void add_memory(StripWork& work, TaskSpec& task) const {
    work.ring = static_cast<std::uint32_t>(task.accesses.size());
    task.accesses.push_back(update({rings_, {{work.strip, 0}, {1, rings_.shape()[1]}}}));
    if (!faces_) return;
    const auto at = [&](Index strip) {
      const Index turn = (work.batch % turns_ + turns_) % turns_;
      return Region{faces_, {{turn * 2 + strip % 2, 0}, {1, faces_.shape()[1]}}};
    };
    if (work.strip > 0) {
      work.face_in = static_cast<std::uint32_t>(task.accesses.size());
      task.accesses.push_back(read(at(work.strip)));
    }
    if (work.strip + 1 < levels_->strips()) {
      work.face_out = static_cast<std::uint32_t>(task.accesses.size());
      task.accesses.push_back(write(at(work.strip + 1)));
    }
  }

  /// Levels of a step.
  Index stages() const { return levels_->versions().stages(); }

  /// Which task of the superstep computes which receiver at which step.
  void place_receivers() {
    traced_.clear();
    for (std::size_t r = 0; r < problem_->receivers.size(); ++r)
      for (Index step = 1; step <= levels_->steps(); ++step) {
        const Axes& point = problem_->receivers[r];
        const Index level = step * stages(), front = levels_->front_of(level, point[0]);
        const Index batch = floor_div(front - levels_->fronts(0).first, scheme_.planes);
        const Index strip = levels_->strip_of(level, point[strip_axis(*problem_)]);
        traced_[{batch, strip}].push_back({r, step});
      }
  }

  void add_traces(StripWork& work, TaskSpec& task, Index first_step) const {
    const auto found = traced_.find({work.batch, work.strip});
    if (found == traced_.end()) return;
    const auto& list = found->second;
    for (std::size_t i = 0; i < list.size();) {
      std::size_t end = i + 1;
      while (end < list.size() && list[end].first == list[i].first && list[end].second == list[end - 1].second + 1)
        ++end;
      const auto access = static_cast<std::uint32_t>(task.accesses.size());
      const Index first = list[i].second;
      task.accesses.push_back(
          write({problem_->traces,
                 {{problem_->row_of(list[i].first), first_step + first - 1}, {1, static_cast<Index>(end - i)}}}));
      for (; i < end; ++i)
        work.traces.push_back({access, problem_->receivers[list[i].first], list[i].second, list[i].second - first,
                               problem_->receiver_fields[list[i].first]});
    }
  }

  /// Points of the field that the task computes of a level.
  Range3 shown(Index level, Index batch, Index strip) const {
    const Interval fronts = levels_->fronts(batch);
    const Interval planes = common({levels_->plane_at(level, fronts.first), levels_->plane_at(level, fronts.last)},
                                   {0, problem_->space.shape[0]});
    Range3 range = levels_->range(0, levels_->computed(level, strip));
    range.first[0] = planes.first, range.last[0] = planes.last;
    return range;
  }

  double count_updates(Index batch, Index strip) const {
    double updates = 0;
    const Interval fronts = levels_->fronts(batch);
    for (Index level = 1; level <= levels_->depth(); ++level) {
      const Interval rows = levels_->computed(level, strip);
      const Interval planes = common({levels_->plane_at(level, fronts.first), levels_->plane_at(level, fronts.last)},
                                     levels_->planes(level));
      if (rows.empty() || planes.empty()) continue;
      updates += static_cast<double>(planes.last - planes.first) * static_cast<double>(levels_->range(0, rows).count());
    }
    return updates;
  }

  Graph& graph_;
  std::shared_ptr<const Problem> problem_;
  WavefrontScheme scheme_;
  Supersteps depths_;
  States states_;
  Observers observers_;
  std::shared_ptr<const Levels> levels_;
  Array rings_, faces_;
  Index turns_ = 1;
  std::map<std::pair<Index, Index>, std::vector<std::pair<std::size_t, Index>>> traced_;
};

}  // namespace

Index wavefront_cell(const Problem& problem, const WavefrontScheme& scheme) { return unit_of(problem, scheme); }

std::size_t strip_axis(const Problem& problem) { return problem.axes.size() == 3 ? 1 : 2; }

Index face_rows(const Problem& problem) {
  const Versions versions(problem);
  return (versions.age() + 1) * versions.radius()[strip_axis(problem)];
}

bool can_cut(const Problem& problem) {
  const std::size_t d = strip_axis(problem);
  return !problem.space.periodic(d) && problem.space.shape[d] > 2 * face_rows(problem);
}

Index run_wavefront(Graph& graph, std::shared_ptr<const Problem> problem, const WavefrontScheme& scheme) {
  graph.trust_order(true);
  return Builder(graph, std::move(problem), scheme).run();
}

std::uint64_t wavefront_bytes(const Problem& problem, const WavefrontScheme& scheme, int workers) {
  const Levels levels(problem, scheme, scheme.depth);
  const std::uint64_t faces =
      levels.strips() > 1 ? 2 * static_cast<std::uint64_t>(workers + 1) * levels.face_bytes() : 0;
  const Axes& n = problem.space.shape;
  const auto plane = align_up(static_cast<std::uint64_t>(n[1] * n[2] * problem.item()));
  const std::uint64_t order = problem.order(), given = problem.coefficients.size();
  const auto planes = static_cast<std::uint64_t>(scheme.planes);
  const auto lag = static_cast<std::uint64_t>(levels.versions().radius()[0] * (levels.depth() - 1));
  // Batches that run, and one that is read ahead of them or written behind; of stored units the rest.
  const auto batches = static_cast<std::uint64_t>(workers) + 1;
  std::uint64_t rest = 0;
  for (const auto* arrays : {&problem.from, &problem.coefficients})
    for (const Array& array : *arrays) {
      const Index unit = unit_of(problem, scheme, array, false);
      const Range3 tile{{0, 0, 0}, {unit, n[1], n[2]}};
      rest +=
          static_cast<std::uint64_t>(2 * (unit - 1)) * plane +
          batches * static_cast<std::uint64_t>(ceil_div(scheme.planes, unit)) * staging_of(problem, array, tile, false);
    }
  for (const Array& array : problem.to)
    rest += batches * staging_of(problem, array, {{0, 0, 0}, {scheme.planes, n[1], n[2]}}, true);
  return static_cast<std::uint64_t>(levels.strips()) * levels.ring_bytes() + faces +
         snapshot_bytes(problem.snapshots, problem.space.item) +
         plane * (batches * planes * 2 * order + given * (lag + batches * planes)) + rest +
         static_cast<std::uint64_t>(workers) * StripWork::scratch_bytes(problem, levels);
}

std::uint64_t group_bytes(const Problem& problem, const WavefrontScheme& scheme) {
  const Levels levels(problem, scheme, scheme.depth);
  const Versions& versions = levels.versions();
  const Index slots = (versions.age() + 1) * versions.radius()[0] + 1;
  std::uint64_t planes = 0;
  for (Index level = 0; level < std::min(scheme.levels, scheme.depth) * versions.stages(); ++level)
    planes += static_cast<std::uint64_t>(slots) * versions.replaced(level).size();
  return planes * levels.plane_bytes();
}

}  // namespace flagstone::stencil
