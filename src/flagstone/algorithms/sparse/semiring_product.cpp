#include "flagstone/algorithms/sparse/semiring_product.hpp"

#include <algorithm>

#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/sparse/semiring.hpp"
#include "flagstone/storage/sparse/panels.hpp"

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
  PairTiles x, y;
  std::size_t scratch = 0;
};

void run_panel(const Call& call, std::span<const Tile> tiles) {
  const auto& panel = call.value_as<SemiringPanel>();
  const kernel::SemiringBlock x = panel.x.of(tiles), y = panel.y.of(tiles);
  panel.reader.stream(tiles, tiles[panel.scratch].data, [&](Index row, const kernel::CsrRows& rows) {
    if (call.kernel == Kernel::csr_semiring)
      kernel::csr_semiring(panel.semiring, rows, x, rows_of(y, row, rows.rows));
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

Pair whole_of(const Array& elements, const Array& there) {
  return {{elements, whole(elements.shape())}, there ? Region{there, whole(there.shape())} : Region{}};
}

class SemiringTasks {
 public:
  SemiringTasks(Graph& graph, const CsrOperand& a, Semiring semiring, bool transposed, const SemiringVectors& vectors)
      : graph_(graph), a_(a), semiring_(semiring), transposed_(transposed), v_(vectors) {
    check();
  }

  void add_all() {
    graph_.trust_order(true);
    if (transposed_)
      sums();
    else
      for (const CsrPanelRange& panel : a_.panels) add_rows(panel);
    graph_.trust_order(false);
  }

 private:
  Dtype values() const { return kernel::semiring_values(semiring_, v_.y.dtype()); }

  void check() const {
    const Index m = a_.matrix.rows, n = a_.matrix.cols, b = v_.y.ndim() == 2 ? v_.y.shape()[1] : 0;
    const Shape in{transposed_ ? m : n, b}, out{transposed_ ? n : m, b};
    const Dtype block = v_.y.dtype(), vector = kernel::semiring_vector(semiring_, block);
    const bool fits = v_.x.shape() == in && v_.y.shape() == out && v_.x.dtype() == vector &&
                      kernel::semiring_block(semiring_, block) == block && v_.x.in_memory() && v_.y.in_memory();
    const bool parts = (!v_.there || v_.there.shape() == in) && (!v_.found || v_.found.shape() == out);
    if (!fits || !parts || (v_.there && !v_.found))
      throw ShapeError("semiring: A is " + to_string({m, n}) + ", X " + to_string(v_.x.shape()) + " " +
                       std::string(name_of(v_.x.dtype())) + " and Y " + to_string(v_.y.shape()) + " " +
                       std::string(name_of(block)) + "; they do not conform for " + std::string(name_of(semiring_)) +
                       ".");
  }

  Call call_of(Kernel kernel, std::initializer_list<TilePart> parts) const {
    Call call(kernel, v_.y.dtype(), parts);
    call.semiring = semiring_;
    return call;
  }

  /// Y_i := A_i X.
  void add_rows(const CsrPanelRange& panel) {
    auto value = std::make_shared<SemiringPanel>(a_, panel, semiring_, values());
    const Box rows{{value->reader.row(), 0}, {value->reader.rows(), v_.y.shape()[1]}};
    const Pair to{{v_.y, rows}, v_.found ? Region{v_.found, rows} : Region{}};
    add_panel(std::move(value), whole_of(v_.x, v_.there), to, [](Region region) { return write(std::move(region)); });
  }

  /// Y := sum of A_iᵀ X_i, by accumulators that join.
  void sums() {
    const auto accumulators = accumulators_of_y();
    for (const Pair& one : accumulators) start(one);
    for (std::size_t i = 0; i < a_.panels.size(); ++i) {
      auto value = std::make_shared<SemiringPanel>(a_, a_.panels[i], semiring_, values());
      const Box rows{{value->reader.row(), 0}, {value->reader.rows(), v_.x.shape()[1]}};
      const Pair from{{v_.x, rows}, v_.there ? Region{v_.there, rows} : Region{}};
      add_panel(std::move(value), from, accumulators[i % accumulators.size()],
                [](Region region) { return again(update(std::move(region))); });
    }
    for (std::size_t i = 1; i < accumulators.size(); ++i) join(accumulators[i], accumulators[0]);
  }

  std::vector<Pair> accumulators_of_y() {
    const auto bytes = static_cast<Index>(v_.y.nbytes() + (v_.found ? v_.found.nbytes() : 0));
    const Index most = std::clamp<Index>(static_cast<Index>(64 * MiB) / std::max<Index>(1, bytes), 2, 8);
    std::vector<Pair> made{whole_of(v_.y, v_.found)};
    for (Index i = 1; i < std::min(most, static_cast<Index>(a_.panels.size())); ++i) {
      const Shape& shape = v_.y.shape();
      made.push_back(whole_of(graph_.temporary(shape, v_.y.dtype(), shape),
                              v_.found ? graph_.temporary(shape, v_.found.dtype(), shape) : Array{}));
    }
    return made;
  }

  void start(const Pair& to) {
    TaskSpec task;
    task.name = "csr_semiring_start";
    add(task.accesses, to, [](const Region& region) { return again(write(region)); });
    task.calls = {v_.found ? call_of(Kernel::csr_semiring_start, {TilePart{0}, TilePart{1}})
                           : call_of(Kernel::csr_semiring_start, {TilePart{0}})};
    task.cost.bytes_touched = static_cast<double>(v_.y.nbytes());
    graph_.add(std::move(task));
  }

  void join(const Pair& from, const Pair& to) {
    TaskSpec task;
    task.name = "csr_semiring_join";
    add(task.accesses, from, [](const Region& region) { return last(read(region)); });
    add(task.accesses, to, [](const Region& region) { return update(region); });
    task.calls = {v_.found ? call_of(Kernel::csr_semiring_join, {TilePart{0}, TilePart{1}, TilePart{2}, TilePart{3}})
                           : call_of(Kernel::csr_semiring_join, {TilePart{0}, TilePart{1}})};
    task.cost.bytes_touched = 3.0 * static_cast<double>(v_.y.nbytes());
    graph_.add(std::move(task));
  }

  void add_panel(std::shared_ptr<SemiringPanel> value, const Pair& x, const Pair& y, const auto& changed) {
    TaskSpec task;
    task.name = transposed_ ? "csr_semiring_transposed" : "csr_semiring";
    const PanelReader& reader = value->reader;
    value->reader.access(task.accesses);
    value->x = add(task.accesses, x, [](const Region& region) { return read(region); });
    value->y = add(task.accesses, y, changed);
    value->scratch = task.accesses.size();
    task.accesses.push_back(scratch(reader.scratch_bytes()));
    const double nnz = static_cast<double>(reader.nnz()) * reader.share_of_columns();
    const auto b = static_cast<double>(v_.y.shape()[1]), item = static_cast<double>(size_of(v_.y.dtype()));
    const double seconds = reader.convert_seconds() + nnz * (seconds_per_value + seconds_per_column * b * item / 4);
    task.cost = {0, seconds * reference_bytes_per_second, false, reader.decoded_bytes()};
    Call call = call_of(transposed_ ? Kernel::csr_semiring_transposed : Kernel::csr_semiring, {});
    call.value = std::move(value);
    task.calls = {std::move(call)};
    graph_.add(std::move(task));
  }

  Graph& graph_;
  const CsrOperand& a_;
  Semiring semiring_;
  bool transposed_;
  const SemiringVectors& v_;
};

/// Stored elements that are read together: a packed chunk, else some KiB of a plain range.
Index read_together(const CsrOperand& a) {
  constexpr Index plain = Index{1} << 15, longest = Index{1} << 21;  // longer ones are read by the range
  const auto of = [&](const ElementStream& stream) {
    const Index chunk = stream.array.chunks().empty() ? plain : std::max<Index>(1, stream.array.chunks()[0]);
    return stream.encoded || (!stream.array.in_memory() && chunk <= longest) ? chunk : plain;
  };
  return std::max(of(a.values), of(a.columns));
}

/// A panel cut into those parts whose chunks hold values of chosen rows.
void cut(const CsrOperand& a, const CsrPanelRange& panel, Index together, std::vector<CsrPanelRange>& parts) {
  std::vector<Index> rows(static_cast<std::size_t>(a.rows->count_in(panel.row, panel.row_end)));
  if (rows.empty()) return;
  a.rows->list(panel.row, panel.row_end, rows.data());
  const Index low = rows.front(), high = rows.back() + 1;
  const std::vector<Index> pointers = read_integers(a.stored.indptr, panel.row + low, high - low + 1);
  const std::size_t before = parts.size();
  for (const Index row : rows) {
    const Index first = pointers[static_cast<std::size_t>(row - low)];
    const Index last = pointers[static_cast<std::size_t>(row - low + 1)];
    if (first < panel.first || last < first || last > panel.last)
      throw FormatError("csr: " + a.matrix.path + ": the row pointers around row " + std::to_string(panel.row + row) +
                        " decrease or do not fit the stored values; the file is damaged, write or copy it again.");
    const bool open = parts.size() > before;
    if (!open || first / together > std::max(parts.back().first, parts.back().last - 1) / together + 1)
      parts.push_back({panel.row + row, panel.row + row + 1, first, last});
    else
      parts.back().row_end = panel.row + row + 1, parts.back().last = last;
  }
}

}  // namespace

void semiring_product(Graph& graph, const CsrOperand& a, Semiring semiring, bool transposed,
                      const SemiringVectors& vectors) {
  SemiringTasks(graph, a, semiring, transposed, vectors).add_all();
}

CsrOperand touched(CsrOperand a) {
  if (!a.rows) return a;
  const Index together = read_together(a);
  std::vector<CsrPanelRange> parts;
  for (const CsrPanelRange& panel : a.panels) cut(a, panel, together, parts);
  a.panels = std::move(parts);
  return a;
}

}  // namespace flagstone::sparse
