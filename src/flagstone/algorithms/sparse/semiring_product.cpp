#include "flagstone/algorithms/sparse/semiring_product.hpp"

#include <algorithm>

#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/algorithms/sparse/vector_cut.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/sparse/semiring.hpp"

namespace flagstone::sparse {
namespace {

// Measured on one of two busy cores: a value and the first column, and every further one.
constexpr double seconds_per_value = 2e-9, seconds_per_column = 0.3e-9;

/// A block of a semiring and which of its elements are there, as two regions; the second may be empty.
struct Pair {
  Region elements, there;
};

/// Where they are among a task's tiles.
struct PairTiles {
  int elements = -1, there = -1;

  kernel::SemiringBlock of(std::span<const Tile> tiles) const {
    return {tiles[static_cast<std::size_t>(elements)], there < 0 ? Tile{} : tiles[static_cast<std::size_t>(there)]};
  }
};

PairTiles add(std::vector<Access>& accesses, const Pair& pair, const auto& as) {
  PairTiles tiles{static_cast<int>(accesses.size()), -1};
  accesses.push_back(as(pair.elements));
  if (!pair.there.array) return tiles;
  tiles.there = static_cast<int>(accesses.size());
  accesses.push_back(as(pair.there));
  return tiles;
}

kernel::SemiringBlock rows_of(const kernel::SemiringBlock& block, Index row, Index rows) {
  const auto part = [&](const Tile& tile) {
    return tile.data ? subtile(tile, {{row, 0}, {rows, tile.shape[1]}}) : Tile{};
  };
  return {part(block.elements), part(block.there)};
}

/// One panel of one product, as the value of a call.
struct SemiringPanel final : CallValue {
  SemiringPanel(const CsrOperand& a, const CsrPanelRange& panel, Semiring over, Dtype values)
      : semiring(over), reader(a, panel, values, false) {}

  Semiring semiring;
  PanelReader reader;
  bool on = false;  // T goes on from what is there
  PairTiles x, y;
  std::size_t scratch = 0;
};

void run_panel(const Call& call, std::span<const Tile> tiles) {
  const auto& panel = call.value_as<SemiringPanel>();
  const kernel::SemiringBlock x = panel.x.of(tiles), y = panel.y.of(tiles);
  panel.reader.stream(tiles, tiles[panel.scratch].data, [&](Index row, const kernel::CsrRows& rows) {
    if (call.kernel == Kernel::csr_semiring)
      kernel::csr_semiring(panel.semiring, rows, x, rows_of(y, row, rows.rows), panel.on);
    else
      kernel::csr_semiring_transposed(panel.semiring, rows, rows_of(x, row, rows.rows), y);
  });
}

kernel::SemiringBlock block_of(const Call& call, std::size_t first, std::size_t each, std::span<const Tile> tiles) {
  return {operand(call, first, tiles), each == 2 ? operand(call, first + 1, tiles) : Tile{}};
}

void run_start(const Call& call, std::span<const Tile> tiles) {
  kernel::semiring_start(call.semiring, block_of(call, 0, call.operands().size(), tiles));
}

void run_join(const Call& call, std::span<const Tile> tiles) {
  const std::size_t each = call.operands().size() / 2;
  kernel::semiring_join(call.semiring, block_of(call, 0, each, tiles), block_of(call, each, each, tiles));
}

bool enter_all() {
  for (std::size_t i = 0; i < semiring_count; ++i) {
    const auto semiring = static_cast<Semiring>(i);
    const auto with = [&](Kernel kernel, KernelTable::Function function) {
      if (kernel::semiring_block(semiring, Dtype::float32) == Dtype::float32)
        host_kernels().enter(kernel, semiring, {Dtype::float32, Dtype::float64, Dtype::int64}, function);
      else
        host_kernels().enter(kernel, semiring, {kernel::semiring_block(semiring, Dtype::float32)}, function);
    };
    with(Kernel::csr_semiring, run_panel), with(Kernel::csr_semiring_transposed, run_panel);
    with(Kernel::csr_semiring_start, run_start), with(Kernel::csr_semiring_join, run_join);
  }
  return true;
}

const bool entered = enter_all();

Region whole_of(const Array& array) { return array ? Region{array, whole(array.shape())} : Region{}; }
Region rows_in(const Array& array, Index row, Index rows) {
  return array ? Region{array, {{row, 0}, {rows, array.shape()[1]}}} : Region{};
}

/// What T holds: Y's elements, or int64 where sums of those are converted to other integers.
Dtype block_of(const SemiringProduct& product) {
  const Dtype y = product.y.array.dtype();
  const bool summed = product.semiring == Semiring::plus_times && y < Dtype::float16 && y != Dtype::boolean;
  return summed ? Dtype::int64 : y;
}

Finish finish_of(const SemiringProduct& product) {
  Finish finish = product.finish;
  finish.semiring = product.semiring;
  return finish;
}

class SemiringTasks {
 public:
  SemiringTasks(Graph& graph, const CsrOperand& a, const SemiringProduct& product)
      : graph_(graph),
        a_(a),
        p_(product),
        block_(block_of(product)),
        rows_(height_of(product.y)),
        cols_(width_of(product.y)),
        inner_(a.matrix.cols),
        panel_(panel_bytes(a, values(), false)),
        stages_(graph, product.checkpoint),
        x_(graph, product.x, kernel::semiring_vector(product.semiring, block_), {.pads = false}),
        y_(graph, stages_, product.y, finish_of(product), product.transposed ? 4096 : panel_.rows),
        cut_(cut()) {
    if (cut_.blocks == 1 && cut_.stretches == 1) a_ = read_once(a_);
    if (product.notes)
      *product.notes = {cut_.width, cut_.blocks, cut_.depth, cut_.stretches,
                        cut_.blocks * (product.transposed ? cut_.stretches : 1)};
  }

  void add_all() {
    graph_.trust_order(true);
    for (Index block = 0; block < cut_.blocks; ++block) {
      const Index col = block * cut_.width, cols = std::min(cut_.width, cols_ - col);
      if (a_.panels.empty() || (inner_ == 0 && !p_.transposed))
        nothing(col, cols);
      else if (p_.transposed)
        sums(col, cols);
      else
        products(col, cols);
    }
    graph_.trust_order(false);
  }

 private:
  Dtype values() const { return kernel::semiring_values(p_.semiring, block_); }

  Cut cut() const {
    if (p_.found) return {cols_, 1, inner_, 1};  // vectors of a frontier are there
    const Cuts cuts(graph_, a_, kernel::semiring_vector(p_.semiring, block_), block_, cols_, panel_, x_, y_);
    const auto block = static_cast<double>(size_of(block_));
    return p_.transposed ? cuts.sums(static_cast<double>(accumulators()) * block) : cuts.products(false);
  }

  /// A panel and the rows of Y that its task and those before the next panel's make.
  struct Part {
    const CsrPanelRange* panel;
    Index row, rows;
  };
  std::vector<Part> parts() const {
    std::vector<Part> parts;
    const Array& mask = p_.finish.mask.array;
    Index at = 0, before = 0;  // of the mask's rows, and of those that it wants
    for (const CsrPanelRange& panel : a_.panels) {
      const PanelReader reader(a_, panel, values(), false);
      if (!p_.finish.compact) {
        parts.push_back({&panel, reader.row(), reader.rows()});
        continue;
      }
      const std::byte* wanted = mask.store().memory();
      for (; before < reader.row() || (at < rows_ && before == reader.row() && !wants(wanted, at)); ++at)
        before += wants(wanted, at);
      parts.push_back({&panel, parts.empty() ? 0 : at, 0});
    }
    for (std::size_t i = 0; p_.finish.compact && i < parts.size(); ++i)
      parts[i].rows = (i + 1 < parts.size() ? parts[i + 1].row : rows_) - parts[i].row;
    return parts;
  }
  bool wants(const std::byte* mask, Index row) const {
    const Index step = p_.finish.mask.array.store().memory_strides()[0];
    return (mask[row * step] != std::byte{0}) != p_.finish.complement;
  }

  Call call_of(Kernel kernel, std::initializer_list<TilePart> parts) const {
    Call call(kernel, block_, parts);
    call.semiring = p_.semiring;
    return call;
  }

  /// One block of columns of A X: Y_i := A_i X, X whole or in stretches of its rows.
  void products(Index col, Index cols) {
    std::vector<Part> open = parts();
    std::erase_if(open, [&](const Part& part) { return y_.holds(part.row, part.rows, col, cols); });
    if (open.empty()) return;
    const bool whole_x = cut_.stretches == 1;
    const PackedVectors::Tile all = whole_x ? x_.packed(0, inner_, col, cols) : PackedVectors::Tile{};
    for (const Part& part : open) {
      const Access direct = written_straight(part.row, part.rows, col, cols);
      const Region aside = direct.region.array ? Region{} : tile(panel_.rows, cols);
      for (Index from = 0; from < inner_; from += cut_.depth) {
        const Index to = std::min(inner_, from + cut_.depth);
        const PackedVectors::Tile x = whole_x ? all : x_.packed(from, to - from, col, cols);
        const bool drop = x.temporary && (!whole_x || &part == &open.back());
        const CsrOperand a = whole_x ? a_ : columns_between(a_, from, to);
        auto value = std::make_shared<SemiringPanel>(a, *part.panel, p_.semiring, values());
        value->on = from > 0;
        const Region into = aside.array ? aside : direct.region;
        const Pair to_rows{into, rows_in(p_.found, part.row, part.rows)};
        add_panel(std::move(value), {x.region, whole_of(p_.there)}, drop, to_rows, [&](Region region) {
          const Access access = from > 0 ? update(std::move(region)) : write(std::move(region));
          return aside.array ? again(access) : access;
        });
      }
      y_.finish(aside, part.row, part.row, part.rows, col, cols);
      y_.offer();
    }
  }

  /// One block of columns of Aᵀ X, by accumulators that join; Y whole or in stretches of its rows.
  void sums(Index col, Index cols) {
    for (Index from = 0; from < rows_; from += cut_.depth) {
      const Index to = std::min(rows_, from + cut_.depth);
      if (y_.holds(from, to - from, col, cols)) continue;
      const CsrOperand a = cut_.stretches == 1 ? a_ : columns_between(a_, from, to);
      const Access direct = written_straight(from, to - from, col, cols);
      std::vector<Pair> sums;
      for (Index i = 0; i < accumulators(); ++i) {
        const Region found = i == 0 || !p_.found ? whole_of(p_.found) : like(p_.found);
        sums.push_back({i == 0 && direct.region.array ? direct.region : tile(to - from, cols), found});
        start(sums.back());
      }
      for (std::size_t i = 0; i < a.panels.size(); ++i) {
        auto value = std::make_shared<SemiringPanel>(a, a.panels[i], p_.semiring, values());
        const PanelReader& reader = value->reader;
        const PackedVectors::Tile x = x_.packed(reader.row(), reader.rows(), col, cols);
        const Pair given{x.region, rows_in(p_.there, reader.row(), reader.rows())};
        add_panel(std::move(value), given, x.temporary, sums[i % sums.size()],
                  [](Region region) { return again(update(std::move(region))); });
      }
      for (std::size_t i = 1; i < sums.size(); ++i) join(sums[i], sums[0]);
      y_.finish(direct.region.array ? Region{} : sums[0].elements, from, from, to - from, col, cols);
      y_.offer();
    }
  }

  /// A stores nothing that counts.
  void nothing(Index col, Index cols) {
    if (p_.found) return start({whole_of(p_.y.array), whole_of(p_.found)});
    const Index step = std::max<Index>(y_.stripe(), 4096);
    for (Index row = 0; row < rows_; row += step) {
      const Index rows = std::min(step, rows_ - row);
      const Region none = tile(rows, cols);
      start({none, {}});
      y_.finish(none, row, row, rows, col, cols);
    }
  }

  /// How many there are: a function of Y's size alone.
  Index accumulators() const {
    const std::size_t each = size_of(block_) + (p_.found ? 1 : 0);
    const auto bytes = rows_ * cols_ * static_cast<Index>(each);
    const Index most = std::clamp<Index>(static_cast<Index>(64 * MiB) / std::max<Index>(1, bytes), 2, 8);
    return std::max<Index>(1, std::min(most, static_cast<Index>(a_.panels.size())));
  }

  Region tile(Index rows, Index cols) { return whole_of(graph_.temporary({rows, cols}, block_, {rows, cols})); }
  Region like(const Array& array) { return whole_of(graph_.temporary(array.shape(), array.dtype(), array.shape())); }
  Access written_straight(Index row, Index rows, Index col, Index cols) const {
    return p_.y.array.dtype() == block_ ? y_.direct(row, rows, col, cols, cols) : Access{};
  }

  void start(const Pair& to) {
    TaskSpec task;
    task.name = "csr_semiring_start";
    add(task.accesses, to, [](const Region& region) { return again(write(region)); });
    task.calls = {to.there.array ? call_of(Kernel::csr_semiring_start, {TilePart{0}, TilePart{1}})
                                 : call_of(Kernel::csr_semiring_start, {TilePart{0}})};
    task.cost.bytes_touched = bytes_of(to);
    graph_.add(std::move(task));
  }

  void join(const Pair& from, const Pair& to) {
    TaskSpec task;
    task.name = "csr_semiring_join";
    add(task.accesses, from, [](const Region& region) { return last(read(region)); });
    add(task.accesses, to, [](const Region& region) { return update(region); });
    task.calls = {to.there.array
                      ? call_of(Kernel::csr_semiring_join, {TilePart{0}, TilePart{1}, TilePart{2}, TilePart{3}})
                      : call_of(Kernel::csr_semiring_join, {TilePart{0}, TilePart{1}})};
    task.cost.bytes_touched = 3.0 * bytes_of(to);
    graph_.add(std::move(task));
  }

  static double bytes_of(const Pair& pair) {
    const Region& region = pair.elements;
    return static_cast<double>(count(region.box.shape)) * static_cast<double>(size_of(region.array.dtype()));
  }

  void add_panel(std::shared_ptr<SemiringPanel> value, const Pair& x, bool drop, const Pair& y, const auto& changed) {
    TaskSpec task;
    task.name = p_.transposed ? "csr_semiring_transposed" : "csr_semiring";
    const PanelReader& reader = value->reader;
    value->reader.access(task.accesses);
    value->x = add(task.accesses, x, [&](const Region& region) { return drop ? last(read(region)) : read(region); });
    value->y = add(task.accesses, y, changed);
    value->scratch = task.accesses.size();
    task.accesses.push_back(scratch(reader.scratch_bytes()));
    const double nnz = static_cast<double>(reader.nnz()) * reader.share_of_columns();
    const auto b = static_cast<double>(x.elements.box.shape[1]), item = static_cast<double>(size_of(block_));
    const double seconds = reader.convert_seconds() + nnz * (seconds_per_value + seconds_per_column * b * item / 4);
    task.cost = {0, seconds * reference_bytes_per_second, false, reader.decoded_bytes()};
    Call call = call_of(p_.transposed ? Kernel::csr_semiring_transposed : Kernel::csr_semiring, {});
    call.value = std::move(value);
    task.calls = {std::move(call)};
    graph_.add(std::move(task));
  }

  Graph& graph_;
  CsrOperand a_;
  const SemiringProduct& p_;
  Dtype block_;
  Index rows_, cols_, inner_;
  PanelBytes panel_;
  Stages stages_;
  PackedVectors x_;
  FinishedVectors y_;
  Cut cut_;
};

void check(const CsrOperand& a, const SemiringProduct& p) {
  const Index m = a.matrix.rows, n = a.matrix.cols, b = width_of(p.y);
  const Shape in{p.transposed ? m : n, b}, out{p.transposed ? n : m, b};
  const Dtype block = block_of(p), vector = kernel::semiring_vector(p.semiring, block);
  const auto is = [](const linalg::Operand& operand, const Shape& shape) {
    return height_of(operand) == shape[0] && width_of(operand) == shape[1];
  };
  const bool chosen = p.finish.compact && !p.transposed;
  const bool fits = is(p.x, in) && (chosen || is(p.y, out)) && p.x.array.dtype() == vector &&
                    kernel::semiring_block(p.semiring, block) == block;
  const bool there = p.x.array.in_memory() && p.y.array.in_memory() && p.finish.plain();
  const bool parts = (!p.there || p.there.shape() == in) && (!p.found || (there && p.found.shape() == out));
  const linalg::Operand& mask = p.finish.mask;
  const bool masked = !mask.array || (mask.array.dtype() == Dtype::boolean && height_of(mask) == height_of(p.y) &&
                                      (mask.array.ndim() == 1 || width_of(mask) == b));
  const bool listed = !p.finish.compact || (mask.array && mask.array.ndim() == 1 && mask.array.in_memory());
  if (!fits || !parts || !masked || !listed || (p.there && !p.found))
    throw ShapeError("semiring: A is " + to_string({m, n}) + ", X " + to_string(p.x.array.shape()) + " " +
                     std::string(name_of(p.x.array.dtype())) + " and Y " + to_string(p.y.array.shape()) + " " +
                     std::string(name_of(p.y.array.dtype())) + "; they do not conform for " +
                     std::string(name_of(p.semiring)) + ".");
}

}  // namespace

void semiring_product(Graph& graph, const CsrOperand& a, const SemiringProduct& product) {
  check(a, product);
  if (height_of(product.y) == 0 || width_of(product.y) == 0) return;
  SemiringTasks(graph, a, product).add_all();
}

}  // namespace flagstone::sparse
