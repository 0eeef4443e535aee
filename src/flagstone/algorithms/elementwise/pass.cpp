#include "flagstone/algorithms/elementwise/pass.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "flagstone/algorithms/elementwise/operand.hpp"
#include "flagstone/algorithms/elementwise/reading.hpp"
#include "flagstone/algorithms/elementwise/tile.hpp"
#include "flagstone/algorithms/kernels/elementwise.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::elementwise {
namespace {

/// Adds the tasks of one pass.
class Builder {
 public:
  Builder(Graph& graph, const Pass& pass) : graph_(graph), pass_(std::make_shared<const Pass>(pass)) { check(); }

  Scheme run() {
    if (count(pass_->shape) == 0) {
      for (const Reduction& reduction : pass_->reductions) finish_nothing(reduction);
      return {};
    }
    graph_.trust_order(true);
    tile_ = pass_->tile.empty() ? choose_tile(*pass_) : pass_->tile;
    std::uint64_t known = 0;  // of chunks that are written
    for (const Store& store : pass_->stores) known += place_bytes(store.array);
    const Charge places = known != 0 ? graph_.charge(known) : Charge();
    scheme_ = choose(*pass_, tile_, order_, graph_.budget(), graph_.workers());
    order_ = scheme_.order;
    for (std::size_t i = 0; i < pass_->operands.size(); ++i) sources_.push_back(source_of(i));
    for (const Store& store : pass_->stores) asides_.push_back(aside_of(store));
    if (scheme_.look_ahead > 0) graph_.look_ahead(scheme_.look_ahead);
    const Charge held = pass_->visit.held != 0 ? graph_.charge(pass_->visit.held) : Charge();
    for (std::size_t r = 0; r < pass_->reductions.size(); ++r) states_.push_back(make_states(pass_->reductions[r]));
    for_each_box(whole(pass_->shape), tile_, order_, [this](const Box& box) {
      if (!pass_->visit.skips || !pass_->visit.skips(box)) add_tile(box);
    });
    if (pass_->visit.held + known != 0) graph_.barrier();  // as long as it is charged
    return scheme_;
  }

 private:
  /// What tasks read of an operand: its boxes, or pieces of it or of its copy.
  struct Source {
    Array array;
    std::shared_ptr<const restructure::Pieces> pieces;  // null: boxes
  };

  /// Makes the copy where there is one to be made.
  Source source_of(std::size_t i) {
    const Array& array = pass_->operands[i].array;
    if (scheme_.readings.empty() || scheme_.readings[i].piece.empty()) return {array, nullptr};
    const Reading& reading = scheme_.readings[i];
    restructure::Source from{array, std::vector<std::size_t>(array.ndim())};
    std::iota(from.axes.begin(), from.axes.end(), 0);
    restructure::Lie lie = restructure::lie_of(from);
    Array read = array;
    if (reading.copy) {
      Array& copy = copies_[array.id()];
      if (!copy) {
        copy = graph_.temporary(array.shape(), array.dtype(), reading.piece);
        if (!graph_.planning()) copy.store().reserve();
        restructure::run(graph_, from, copy, *reading.copy);
      }
      read = copy;
      lie.chunks = reading.piece, lie.free = false;
    }
    return {read, std::make_shared<const restructure::Pieces>(lie, reading.piece, false, whole(array.shape()))};
  }

  /// Where the tiles of a store are made whose array the pass reads too (a task names what it changes once); none: at
  /// their place.
  Array aside_of(const Store& store) {
    const auto same = [&](const Operand& operand) { return operand.array.id() == store.array.id(); };
    if (std::none_of(pass_->operands.begin(), pass_->operands.end(), same)) return {};
    return graph_.temporary(store.array.shape(), store.array.dtype(), tile_);
  }

  /// Puts a tile that was made aside in its place.
  void put(std::size_t s, const Box& box) {
    const Array& array = pass_->stores[s].array;
    TaskSpec task;
    task.name = "put";
    task.accesses = {last(read({asides_[s], box})), once(write({array, box}))};
    task.calls = {call::copy(array.dtype(), {0}, {1})};
    task.cost.bytes_touched = 2.0 * static_cast<double>(bytes_of(box.shape, size_of(array.dtype())));
    task.priority = 1;  // frees a tile
    graph_.add(std::move(task));
  }

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

  States make_states(const Reduction& reduction) {
    States states;
    Index results = 1, tiles = 1, kept_tiles = 1;
    for (std::size_t d = 0; d < tile_.size(); ++d) {
      states.tiles.push_back(ceil_div(pass_->shape[d], tile_[d]));
      tiles *= states.tiles[d];
      if (!reduction.reduced[d]) results *= tile_[d], kept_tiles *= states.tiles[d];
    }
    states.slot_words = results * kernel::accumulator_words(reduction.fold, pass_->program.dtype(reduction.value));
    states.partials = graph_.temporary({tiles * states.slot_words}, Dtype::float64, {states.slot_words});
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
    auto evaluation = std::make_shared<call::Evaluation>();
    for (std::size_t i = 0; i < pass.operands.size(); ++i)
      evaluation->inputs.push_back(add_input(i, box_of(pass.operands[i], shifted), task));
    const auto first = static_cast<std::uint32_t>(task.accesses.size());
    for (std::size_t s = 0; s < pass.stores.size(); ++s)
      task.accesses.push_back(asides_[s] ? again(write({asides_[s], box})) : once(write({pass.stores[s].array, box})));
    std::vector<Index> slots;
    for (std::size_t r = 0; r < pass.reductions.size(); ++r) {
      slots.push_back(states_[r].slots++);
      task.accesses.push_back(again(write(slot(r, slots[r]))));
    }
    const std::vector<VisitedValue> as_read =
        pass.visit.extend ? values_as_read(*evaluation) : std::vector<VisitedValue>();
    if (as_read.empty()) {
      task.accesses.push_back(scratch(kernel::evaluate_scratch(pass.program)));
      for (const int value : pass.visit.values)
        task.accesses.push_back(scratch(bytes_of(box.shape, size_of(pass.program.dtype(value)))));
    }
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
    if (as_read.empty()) {
      complete(*evaluation, box, first);
      task.calls = {call::evaluate(evaluation)};
    }
    if (pass.visit.extend) {
      std::vector<VisitedValue> values = as_read;
      for (std::size_t i = pass.stores.size(); as_read.empty() && i < evaluation->outputs.size(); ++i) {
        const auto& output = evaluation->outputs[i];
        values.push_back({output.access, true, pass.program.dtype(output.value)});
      }
      pass.visit.extend(box, values, task);
    }
    if (pass.visit.body)  // the user's: there is no kernel for it
      task.body = [pass = pass_, box, evaluation = std::move(evaluation)](std::span<const Tile> tiles) {
        std::vector<Tile> visited;
        for (std::size_t i = pass->stores.size(); i < evaluation->outputs.size(); ++i)
          visited.push_back(call::output_tile(*evaluation, evaluation->outputs[i], tiles));
        pass->visit.body(box, visited);
      };
    graph_.add(std::move(task));
    for (std::size_t s = 0; s < pass.stores.size(); ++s)
      if (asides_[s]) put(s, box);
    for (std::size_t r = 0; r < pass.reductions.size(); ++r) gather(r, box, slots[r]);
  }

  /// Where the values that are visited lie, if they are operands as read and nothing else is made of them: nothing has
  /// to be evaluated then.
  std::vector<VisitedValue> values_as_read(const call::Evaluation& made) const {
    const Pass& pass = *pass_;
    if (!pass.stores.empty() || !pass.reductions.empty()) return {};
    std::vector<VisitedValue> values;
    for (const int value : pass.visit.values) {
      if (value >= pass.program.inputs()) return {};
      const auto i = static_cast<std::size_t>(value);
      const Operand& operand = pass.operands[i];
      if (operand.transpose || !made.inputs[i].pieces.empty() || operand.array.ndim() != pass.shape.size()) return {};
      if (broadcast(operand, pass)) return {};
      values.push_back({made.inputs[i].access, false, pass.program.dtype(value)});
    }
    return values;
  }

  /// The reads of one operand, and how the program takes them.
  call::Evaluation::Input add_input(std::size_t i, const Box& part, TaskSpec& task) const {
    const Operand& operand = pass_->operands[i];
    call::Evaluation::Input input;
    input.access = static_cast<std::uint32_t>(task.accesses.size());
    for (std::size_t d = operand.array.ndim(); operand.transpose && d-- > 0;) input.axes.push_back(d);
    const Source& source = sources_[i];
    const std::vector<Box> pieces = source.pieces ? source.pieces->over(part) : std::vector<Box>{part};
    if (pieces.size() == 1 && pieces[0].start == part.start && pieces[0].shape == part.shape && as_read(i)) {
      task.accesses.push_back(read({source.array, part}));
      return input;
    }
    input.together = together(operand, part);
    task.accesses.push_back(scratch(input.together.bytes));
    for (const Box& piece : pieces) {
      const Box common = intersect(part, piece);
      Box from = common;
      Shape to = common.start;
      for (std::size_t d = 0; d < to.size(); ++d) from.start[d] -= piece.start[d], to[d] -= part.start[d];
      input.pieces.push_back({static_cast<std::uint32_t>(task.accesses.size()), std::move(from), std::move(to)});
      task.accesses.push_back(read({source.array, piece}));
    }
    task.cost.bytes_touched += 2.0 * static_cast<double>(count(part.shape)) * size_of(operand.array.dtype());
    return input;
  }

  /// Whether a tile of the operand lies in memory as the file's boxes do: what folds go by.
  bool as_read(std::size_t i) const {
    return !sources_[i].pieces || pass_->reductions.empty() || !scheme_.readings[i].copy;
  }

  /// How a box lies that is put together: where values are folded as if it had been read at once, because the order of
  /// additions follows memory; else as the pass goes over it.
  Tile together(const Operand& operand, const Box& part) const {
    const std::size_t item = size_of(operand.array.dtype());
    Tile tile{nullptr, operand.array.dtype(), part.shape, c_strides(part.shape, item),
              static_cast<std::size_t>(count(part.shape)) * item};
    if (!pass_->reductions.empty()) {
      tile.strides = operand.array.store().read(part).strides;
      tile.bytes = item;
      for (std::size_t d = 0; d < part.shape.size(); ++d)
        tile.bytes += static_cast<std::size_t>((part.shape[d] - 1) * tile.strides[d]);
    } else if (operand.transpose) {
      tile.strides = reversed(c_strides(reversed(part.shape), item));
    }
    return tile;
  }

  /// The program over the tiles of one task, in the order in which add_tile names them; `next` is the first store's.
  void complete(call::Evaluation& made, const Box& box, std::uint32_t next) const {
    const Pass& pass = *pass_;
    made.program = {pass_, &pass.program};
    made.shape = box.shape;
    for (const Store& store : pass.stores) made.outputs.push_back({next++, store.value, {}, false});
    for (const Reduction& reduction : pass.reductions) made.folds.push_back({next++, target_of(reduction, box)});
    made.scratch = next++;
    for (const int value : pass.visit.values) made.outputs.push_back({next++, value, {}, true});
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
      join.accesses = {last(read(slot(r, number))), again(update(slot(r, total)))};
      join.calls = {call::join(reduction.fold, dtype, results, 0, 1)};
      join.cost.bytes_touched = 24.0 * static_cast<double>(states.slot_words);
      join.priority = 1;  // frees a tile
      graph_.add(std::move(join));
    }
    if (tiles == needed) finish(r, box, total);
  }

  /// What a fold of no values is: there are no tiles whose states would be joined.
  void finish_nothing(const Reduction& reduction) {
    const Index results = count(reduction.out.shape());
    if (results == 0) return;
    const Dtype dtype = pass_->program.dtype(reduction.value);
    const kernel::FinishOptions options{reduction.fold, reduction.finish, dtype, 0, reduction.ddof};
    const auto words = static_cast<std::uint64_t>(results) *
                       static_cast<std::uint64_t>(kernel::accumulator_words(reduction.fold, dtype));
    graph_.add({.name = "finish",
                .accesses = {write({reduction.out, whole(reduction.out.shape())}), scratch(8 * words)},
                .body = [options, results](std::span<const Tile> tiles) {  // too little for kernels of its own
                  kernel::fold_nothing(options.fold, options.dtype, results, tiles[1].data);
                  kernel::finish_accumulators(options, results, tiles[1].data, tiles[0]);
                }});
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
  Scheme scheme_;
  std::vector<Source> sources_;          // of each operand
  std::vector<Array> asides_;            // of each store
  std::map<const void*, Array> copies_;  // by the array's id
  std::vector<States> states_;
};

}  // namespace

void run(Graph& graph, const Pass& pass) { Builder(graph, pass).run(); }

void run(Graph& graph, const Pass& pass, Scheme& scheme) { scheme = Builder(graph, pass).run(); }

}  // namespace flagstone::elementwise
