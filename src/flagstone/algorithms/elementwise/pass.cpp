#include "flagstone/algorithms/elementwise/pass.hpp"

#include <algorithm>
#include <memory>

#include "flagstone/algorithms/kernels/elementwise.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone::elementwise {
namespace {

constexpr std::uint64_t tile_bytes = 4 * MiB;  // of the widest array: one request of this size fills a disk
constexpr std::uint64_t most_bytes = 32 * MiB;
constexpr std::size_t short_run = 256 * KiB;  // requests below it cost more than their bytes

Shape reversed(Shape shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

std::uint64_t bytes_of(const Shape& box, std::size_t item) { return static_cast<std::uint64_t>(count(box)) * item; }

/// The part of an operand that a box of the pass needs, in the operand's own order of dimensions.
Box box_of(const Operand& operand, const Box& box) {
  const Shape shape = operand.transpose ? reversed(operand.array.shape()) : operand.array.shape();
  const std::size_t missing = box.shape.size() - shape.size();
  Box part{Shape(shape.size(), 0), Shape(shape.size(), 1)};
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) part.start[d] = box.start[missing + d], part.shape[d] = box.shape[missing + d];
  if (operand.transpose) part = {reversed(part.start), reversed(part.shape)};
  return part;
}

/// Chunks of an operand along the pass's dimensions; 0: it does not say.
Shape chunks_of(const Operand& operand, std::size_t dims) {
  const Shape own = operand.transpose ? reversed(operand.array.chunks()) : operand.array.chunks();
  const Shape extents = operand.transpose ? reversed(operand.array.shape()) : operand.array.shape();
  Shape chunks(dims, 0);
  for (std::size_t d = 0; d < own.size(); ++d)
    if (extents[d] != 1) chunks[dims - own.size() + d] = own[d];
  return chunks;
}

/// Multiplies the box by whole units, the dimension that lies closest in storage first, while it stays within `limit`
/// bytes.
void grow(Shape& box, const Shape& unit, const Shape& shape, std::size_t item, std::uint64_t limit, bool backward) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t d = backward ? i : shape.size() - 1 - i;
    if (box[d] >= shape[d]) continue;
    const Index fits = static_cast<Index>(limit / std::max<std::uint64_t>(1, bytes_of(box, item)));
    if (fits <= 1) return;
    box[d] = std::min(shape[d], box[d] * fits);
    if (box[d] < shape[d]) {
      box[d] = std::max(unit[d], box[d] / unit[d] * unit[d]);
      return;
    }
  }
}

/// Whether the first dimension of a flat array is the one that lies closest in its file, not the last.
bool column_major(const Array& array) {
  const Shape& shape = array.shape();
  const auto longer = [](Index extent) { return extent > 1; };
  const auto first = std::find_if(shape.begin(), shape.end(), longer);
  if (std::count_if(first, shape.end(), longer) < 2) return false;
  Shape two(shape.size(), 1);
  two[static_cast<std::size_t>(first - shape.begin())] = 2;
  return array.store().run_bytes(two) > size_of(array.dtype());
}

/// Whether an operand is repeated along a dimension of the pass.
bool broadcast(const Operand& operand, const Pass& pass) {
  const Shape own = operand.transpose ? reversed(operand.array.shape()) : operand.array.shape();
  const std::size_t missing = pass.shape.size() - own.size();
  for (std::size_t d = 0; d < pass.shape.size(); ++d)
    if (pass.shape[d] > 1 && (d < missing || own[d - missing] == 1)) return true;
  return false;
}

/// Whether all flat files of the pass lie with its first dimension closest (Fortran order, or C order transposed):
/// tiles are slabs of columns then. Where some lie one way and some the other, rows as in C order.
bool lies_backward(const Pass& pass) {
  bool backward = false;
  for (const Store& store : pass.stores)
    if (!store.array.in_memory()) return false;
  for (const Operand& operand : pass.operands) {
    if (operand.array.in_memory() || broadcast(operand, pass)) continue;
    if (column_major(operand.array) == operand.transpose) return false;
    backward = true;
  }
  return backward;
}

/// The array whose layout decides: what is written to disk, else the largest operand on disk, else none.
struct Lead {
  Shape chunks;
  bool flat = true;  // rows of any length may be taken
};
Lead lead_of(const Pass& pass) {
  const std::size_t dims = pass.shape.size();
  Lead lead{Shape(dims, 1), true};
  for (const Store& store : pass.stores)
    if (!store.array.in_memory() && store.array.chunks() != store.array.shape()) return {store.array.chunks(), false};
  std::uint64_t most = 0;
  for (const Operand& operand : pass.operands) {
    const Shape chunks = chunks_of(operand, dims);
    const bool stretched = count(operand.array.shape()) != count(pass.shape);
    const bool one_chunk = operand.array.chunks() == operand.array.shape();
    if (operand.array.nbytes() <= most || reads_any_box(operand.array) || (one_chunk && stretched)) continue;
    most = operand.array.nbytes();
    lead = {chunks, false};
    for (Index& extent : lead.chunks) extent = std::max<Index>(extent, 1);
  }
  return lead;
}

}  // namespace

Shape choose_tile(const Pass& pass) {
  std::size_t item = 1;
  for (const Operand& operand : pass.operands) item = std::max(item, size_of(operand.array.dtype()));
  for (const Store& store : pass.stores) item = std::max(item, size_of(store.array.dtype()));
  for (const Reduction& reduction : pass.reductions)
    item = std::max(item, size_of(pass.program.dtype(reduction.value)));
  for (const int value : pass.visit.values) item = std::max(item, size_of(pass.program.dtype(value)));
  const Lead lead = lead_of(pass);
  const std::size_t dims = pass.shape.size();
  Shape unit = lead.chunks, box(dims, 1);
  for (std::size_t d = 0; d < dims; ++d)
    unit[d] = std::min(std::max<Index>(unit[d], 1), std::max<Index>(pass.shape[d], 1)), box[d] = unit[d];
  grow(box, unit, pass.shape, item, tile_bytes, lead.flat && lies_backward(pass));
  // Whole rows for operands whose layout has short runs otherwise (.npy).
  for (const Operand& operand : pass.operands) {
    if (operand.array.in_memory() || box.empty()) continue;
    const Box part = box_of(operand, {Shape(dims, 0), box});
    const std::size_t along = operand.transpose ? 0 : dims - 1;
    Shape rows = box;
    rows[along] = pass.shape[along];
    const Box longer = box_of(operand, {Shape(dims, 0), rows});
    const auto& store = operand.array.store();
    if (store.run_bytes(part.shape) < short_run && store.run_bytes(longer.shape) > store.run_bytes(part.shape)) {
      const Index fits = static_cast<Index>(most_bytes / std::max<std::uint64_t>(1, bytes_of(box, item)));
      box[along] = std::min(pass.shape[along], std::max<Index>(1, fits) * box[along]);
      if (box[along] < pass.shape[along]) box[along] = std::max(unit[along], box[along] / unit[along] * unit[along]);
    }
  }
  return box;
}

namespace {

/// Adds the tasks of one pass.
class Builder {
 public:
  Builder(Graph& graph, const Pass& pass) : graph_(graph), pass_(std::make_shared<const Pass>(pass)) { check(); }

  void run() {
    if (count(pass_->shape) == 0) return;
    graph_.trust_order(true);
    tile_ = pass_->tile.empty() ? choose_tile(*pass_) : pass_->tile;
    const Charge held = pass_->visit.held != 0 ? graph_.charge(pass_->visit.held) : Charge();
    for (std::size_t r = 0; r < pass_->reductions.size(); ++r) states_.push_back(make_states(pass_->reductions[r]));
    for_each_box(whole(pass_->shape), tile_, order_, [this](const Box& box) { add_tile(box); });
    if (pass_->visit.held != 0) graph_.barrier();  // as long as it is charged
  }

 private:
  /// Partial results of one reduction: slot 0 and up, each the states of one tile's results.
  struct States {
    Array partials;
    Index slot_words = 0;
    Index slots = 0;
    Shape tiles;  // of the pass along each dimension
    /// For each tile of results (C order over kept dimensions): the slot that gathers, and how many tiles are in it.
    std::vector<std::pair<Index, Index>> gathered;
  };

  void check() {
    const Pass& pass = *pass_;
    if (static_cast<int>(pass.operands.size()) != pass.program.inputs())
      throw ShapeError("elementwise: the program has " + std::to_string(pass.program.inputs()) + " inputs and " +
                       std::to_string(pass.operands.size()) + " operands were given.");
    for (const Operand& operand : pass.operands) {
      const Shape shape = operand.transpose ? reversed(operand.array.shape()) : operand.array.shape();
      bool fits = shape.size() <= pass.shape.size();
      for (std::size_t d = 0; fits && d < shape.size(); ++d) {
        const std::size_t p = pass.shape.size() - shape.size() + d;
        fits = shape[d] == 1 || shape[d] >= pass.start[p] + pass.shape[p];
      }
      if (!fits)
        throw ShapeError("elementwise: an operand is " + to_string(shape) + " and the result " + to_string(pass.shape) +
                         "; operands must broadcast.");
    }
    for (const Store& store : pass.stores)
      if (store.array.shape() != pass.shape || store.array.dtype() != pass.program.dtype(store.value))
        throw ShapeError("elementwise: the output is " + to_string(store.array.shape()) + " " +
                         std::string(name_of(store.array.dtype())) + " and the result " + to_string(pass.shape) + " " +
                         std::string(name_of(pass.program.dtype(store.value))) + "; they must agree.");
    // Tiles that reduce into the same results follow one another: few partial results wait.
    std::vector<bool> last = pass.reductions.empty() ? pass.visit.last : pass.reductions[0].reduced;
    last.resize(pass.shape.size());
    for (const bool late : {false, true})
      for (std::size_t d = 0; d < pass.shape.size(); ++d)
        if (last[d] == late) order_.push_back(d);
  }

  States make_states(const Reduction& reduction) const {
    States states;
    Index results = 1, tiles = 1, kept_tiles = 1;
    for (std::size_t d = 0; d < tile_.size(); ++d) {
      states.tiles.push_back(ceil_div(pass_->shape[d], tile_[d]));
      tiles *= states.tiles[d];
      if (!reduction.reduced[d]) results *= tile_[d], kept_tiles *= states.tiles[d];
    }
    states.slot_words = results * kernel::state_words(reduction.fold, pass_->program.dtype(reduction.value));
    states.partials = temporary_array({tiles * states.slot_words}, Dtype::float64, {states.slot_words}, pass_->scratch);
    states.gathered.assign(static_cast<std::size_t>(kept_tiles), {-1, 0});
    return states;
  }

  /// One task reads a tile of every operand, stores, and folds into a partial result of its own.
  void add_tile(const Box& box) {
    const Pass& pass = *pass_;
    TaskSpec task;
    task.name = "elementwise";
    Box shifted = box;
    for (std::size_t d = 0; d < box.start.size(); ++d) shifted.start[d] += pass.start[d];
    for (const Operand& operand : pass.operands)
      task.accesses.push_back(read({operand.array, box_of(operand, shifted)}));
    for (const Store& store : pass.stores) task.accesses.push_back(write({store.array, box}));
    std::vector<Index> slots;
    for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
      slots.push_back(states_[r].slots++);
      task.accesses.push_back(write(slot(r, slots[r])));
    }
    task.accesses.push_back(scratch(kernel::evaluate_scratch(pass.program)));
    for (const int value : pass.visit.values)
      task.accesses.push_back(scratch(bytes_of(box.shape, size_of(pass.program.dtype(value)))));
    if (pass.visit.scratch != 0) task.accesses.push_back(scratch(pass.visit.scratch));
    const auto elements = static_cast<double>(count(box.shape));
    task.cost.flops = elements * pass.program.verbs();
    task.cost.float64 = true;
    for (const Operand& operand : pass.operands)
      task.cost.bytes_touched += elements * static_cast<double>(size_of(operand.array.dtype()));
    for (const Store& store : pass.stores)
      task.cost.bytes_touched += elements * static_cast<double>(size_of(store.array.dtype()));
    for (const int value : pass.visit.values)
      task.cost.bytes_touched +=
          pass.visit.touches * elements * static_cast<double>(size_of(pass.program.dtype(value)));
    auto evaluation = evaluation_of(box);
    if (pass.visit.body)
      task.body = [pass = pass_, box, evaluation = std::move(evaluation)](std::span<const Tile> tiles) {
        host_kernels().run(call::evaluate(evaluation), tiles);
        std::vector<Tile> visited;
        for (std::size_t i = pass->stores.size(); i < evaluation->outputs.size(); ++i)
          visited.push_back(call::output_tile(*evaluation, evaluation->outputs[i], tiles));
        pass->visit.body(box, visited);
      };
    else
      task.calls = {call::evaluate(std::move(evaluation))};
    graph_.add(std::move(task));
    for (std::size_t r = 0; r < pass.reductions.size(); ++r) gather(r, box, slots[r]);
  }

  /// The program over the tiles of one task, in the order in which add_tile names them.
  std::shared_ptr<call::Evaluation> evaluation_of(const Box& box) const {
    const Pass& pass = *pass_;
    auto made = std::make_shared<call::Evaluation>();
    made->program = {pass_, &pass.program};
    made->shape = box.shape;
    std::uint32_t next = 0;
    for (const Operand& operand : pass.operands) {
      std::vector<std::size_t> axes;
      for (std::size_t d = operand.array.ndim(); operand.transpose && d-- > 0;) axes.push_back(d);
      made->inputs.push_back({next++, {}, std::move(axes)});
    }
    for (const Store& store : pass.stores) made->outputs.push_back({next++, store.value, {}, false});
    for (const Reduction& reduction : pass.reductions) made->folds.push_back({next++, target_of(reduction, box)});
    made->scratch = next++;
    for (const int value : pass.visit.values) made->outputs.push_back({next++, value, {}, true});
    return made;
  }

  static Index results_of(const Reduction& reduction, const Shape& box) {
    Index results = 1;
    for (std::size_t d = 0; d < box.size(); ++d)
      if (!reduction.reduced[d]) results *= box[d];
    return results;
  }

  kernel::FoldTarget target_of(const Reduction& reduction, const Box& box) const {
    kernel::FoldTarget target;
    target.fold = reduction.fold;
    target.value = reduction.value;
    target.results = results_of(reduction, box.shape);
    target.strides.assign(box.shape.size(), 0);
    target.steps.assign(box.shape.size(), 0);
    Index stride = 1, step = 1;
    for (std::size_t d = box.shape.size(); d-- > 0;) {
      if (reduction.reduced[d]) {
        target.steps[d] = step;
        target.first += box.start[d] * step;
        step *= pass_->shape[d];
      } else {
        target.strides[d] = stride;
        stride *= box.shape[d];
      }
    }
    return target;
  }

  Region slot(std::size_t r, Index number) const {
    const States& states = states_[r];
    return {states.partials, {{number * states.slot_words}, {states.slot_words}}};
  }

  /// Joins the partial result in `number` to those before it of the same results; the last one finishes them.
  void gather(std::size_t r, const Box& box, Index number) {
    const Reduction& reduction = pass_->reductions[r];
    States& states = states_[r];
    Index kept = 0, needed = 1;
    for (std::size_t d = 0; d < box.shape.size(); ++d)
      if (reduction.reduced[d])
        needed *= states.tiles[d];
      else
        kept = kept * states.tiles[d] + box.start[d] / tile_[d];
    auto& [total, tiles] = states.gathered[static_cast<std::size_t>(kept)];
    const Index results = results_of(reduction, box.shape);
    const Dtype dtype = pass_->program.dtype(reduction.value);
    if (tiles++ == 0) {
      total = number;
    } else {
      TaskSpec join;
      join.name = "join";
      join.accesses = {last(read(slot(r, number))), update(slot(r, total))};
      join.calls = {call::join(reduction.fold, dtype, results, 0, 1)};
      join.cost.bytes_touched = 24.0 * static_cast<double>(states.slot_words);
      join.priority = 1;  // frees a tile
      graph_.add(std::move(join));
    }
    if (tiles == needed) finish(r, box, total);
  }

  void finish(std::size_t r, const Box& box, Index total) {
    const Reduction& reduction = pass_->reductions[r];
    Box part;
    double folded = 1;
    for (std::size_t d = 0; d < box.shape.size(); ++d) {
      if (reduction.reduced[d]) folded *= static_cast<double>(pass_->shape[d]);
      if (reduction.reduced[d] && !reduction.keepdims) continue;
      part.start.push_back(reduction.reduced[d] ? 0 : box.start[d]);
      part.shape.push_back(reduction.reduced[d] ? 1 : box.shape[d]);
    }
    const kernel::FinishOptions options{reduction.fold, reduction.finish, pass_->program.dtype(reduction.value), folded,
                                        reduction.ddof};
    TaskSpec task;
    task.name = "finish";
    task.accesses = {last(read(slot(r, total))), write({reduction.out, part})};
    task.calls = {call::finish(options, results_of(reduction, box.shape), 0, 1)};
    task.cost.bytes_touched = 16.0 * static_cast<double>(count(part.shape));
    task.priority = 1;
    graph_.add(std::move(task));
  }

  Graph& graph_;
  std::shared_ptr<const Pass> pass_;
  Shape tile_;
  std::vector<std::size_t> order_;  // dimensions, slowest first
  std::vector<States> states_;
};

}  // namespace

void run(Graph& graph, const Pass& pass) { Builder(graph, pass).run(); }

}  // namespace flagstone::elementwise
