#include "flagstone/algorithms/sparse/panel_task.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "flagstone/base/bytes.hpp"

namespace flagstone::sparse {
namespace {

/// A triangle with half of its diagonal, after all other steps: A = L + Lᴴ.
CsrOperand halved(CsrOperand a) {
  Transform transform = a.transform ? *a.transform : Transform{};
  transform.steps.push_back({Transform::Step::Kind::half_diagonal, {}});
  a.transform = std::make_shared<const Transform>(std::move(transform));
  return a;
}

/// Int64 numbers of the pointers' tile: call::CsrProduct says which.
Index pointers_length(const PanelReader& reader) { return reader.rows() + 2 + reader.most_stretches(); }

/// The product and its rows as they are decoded: what a task is made of.
class PanelTask final : public PanelWork {
 public:
  PanelTask(const CsrOperand& a, const CsrPanelRange& panel, PanelProduct given)
      : what_(std::move(given)), reader_(what_.symmetric ? halved(a) : a, panel, what_.real(), false) {
    call::CsrProduct& p = product_;
    p.dtype = what_.real();
    p.rows = reader_.rows(), p.cols = a.matrix.cols, p.row = reader_.row();
    p.width = p.padded = what_.width();
    // Whole vectors of 64 bytes are worth a copy of X where the panel has more values than X has rows: 50 columns take
    // 13 ns a value as they are, 7 ns as 64. Where stripes of Z would be added to (stripe_sums), X is as wide there.
    const Index lanes = 64 / static_cast<Index>(size_of(p.dtype));
    const bool as_stripes = has(what_.sum) && what_.sum.mode == Mode::update;
    if (p.width > lanes / 4 && (reader_.nnz() > p.cols || as_stripes)) p.padded = ceil_div(p.width, lanes) * lanes;
    p.symmetric = what_.symmetric, p.ordered = what_.ordered;
    p.accumulates = p.ordered && what_.kept.mode == Mode::update;
    const bool keeps = has(what_.kept), padded = p.padded != p.width;
    p.rows_aside = (keeps || has(what_.given)) && (padded || (keeps && what_.kept.region.array.dtype() != p.dtype));
    // Sums in single precision stay inside one panel; others may go straight into the reduction's private tile.
    p.sums_aside =
        has(what_.sum) && (padded || real_part_of(p.dtype) == Dtype::float32 || what_.sum.mode == Mode::update);
  }

  /// One task, which decodes as it computes.
  TaskSpec whole(const std::shared_ptr<PanelTask>& self);
  /// Two of them, in the order in which they are added; `tiles`: values, columns and pointers.
  TaskSpec unpacking(const std::shared_ptr<PanelTask>& self, const std::array<Region, 3>& tiles);
  TaskSpec product_of(const std::array<Region, 3>& tiles);

  std::array<Region, 3> unpacked(Graph& graph) const;
  void run(const Call& call, std::span<const Tile> tiles) const override {
    call.kernel == Kernel::csr_unpack ? unpack(tiles) : multiply(tiles);
  }

 private:
  void multiply(std::span<const Tile> tiles) const;
  void unpack(std::span<const Tile> tiles) const;

  static bool has(const Access& access) { return static_cast<bool>(access.region.array); }
  void add_vectors(std::vector<Access>& accesses);
  Kernel kernel() const;
  Cost cost() const;

  PanelProduct what_;
  PanelReader reader_;
  call::CsrProduct product_;
};

/// What is not the rows themselves.
void PanelTask::add_vectors(std::vector<Access>& accesses) {
  const auto add = [&](int& place, const Access& access) {
    place = static_cast<int>(accesses.size());
    accesses.push_back(access);
  };
  call::CsrProduct& p = product_;
  if (has(what_.x)) add(p.x, what_.x);
  if (has(what_.given)) add(p.given, what_.given);
  if (what_.shift) add(p.shift, read({*what_.shift, flagstone::whole(what_.shift->shape())}));
  if (has(what_.kept)) add(p.kept, what_.kept);
  if (has(what_.sum)) add(p.sum, what_.sum);
  if (has(what_.moments)) add(p.moments, what_.moments);
  p.scratch = static_cast<int>(accesses.size());
}

Kernel PanelTask::kernel() const {
  if (product_.given >= 0) return Kernel::csr_multiply_transposed;
  return product_.sum >= 0 ? Kernel::csr_gram : Kernel::csr_multiply;
}

TaskSpec PanelTask::whole(const std::shared_ptr<PanelTask>& self) {
  TaskSpec task;
  task.name = what_.name;
  reader_.access(task.accesses);
  add_vectors(task.accesses);
  task.accesses.push_back(scratch(call::csr_product_scratch(product_) + reader_.scratch_bytes()));
  task.cost = cost();
  task.cost.bytes_touched += reader_.convert_seconds() * reference_bytes_per_second;
  task.cost.bytes_decoded = reader_.decoded_bytes();
  Call& call = task.calls.emplace_back(kernel(), product_.dtype, std::initializer_list<TilePart>{});
  call.flops = task.cost.flops;
  call.value = self;
  return task;
}

void PanelTask::multiply(std::span<const Tile> tiles) const {
  std::byte* memory = tiles[product_.scratch].data + call::csr_product_scratch(product_);
  call::run_csr_product(product_, tiles, [&](const call::UseRows& use) { reader_.stream(tiles, memory, use); });
}

/// Tiles for the rows, in the host's memory until a product takes them elsewhere.
std::array<Region, 3> PanelTask::unpacked(Graph& graph) const {
  const auto tile = [&](Index extent, Dtype dtype) -> Region {
    const Shape shape{std::max<Index>(1, extent)};
    const Array made = graph.temporary(shape, dtype, shape);
    return {made, flagstone::whole(shape)};
  };
  const std::array<Region, 3> tiles{tile(reader_.stored_values(), product_.dtype),
                                    tile(reader_.stored_values(), reader_.column_dtype()),
                                    tile(pointers_length(reader_), Dtype::int64)};
  Distribution on_host = Distribution::one(tiles[0].box.shape, 0);
  on_host.place = [](const Shape&) { return 0; };
  graph.distribute(tiles[0].array, on_host);
  return tiles;
}

TaskSpec PanelTask::unpacking(const std::shared_ptr<PanelTask>& self, const std::array<Region, 3>& tiles) {
  TaskSpec task;
  task.name = "csr_unpack";
  reader_.access(task.accesses);
  for (const Region& region : tiles) task.accesses.push_back(again(write(region)));
  task.accesses.push_back(scratch(reader_.scratch_bytes()));
  task.cost.bytes_touched = reader_.convert_seconds() * reference_bytes_per_second + 2.0 * unpacked_bytes(reader_);
  task.cost.bytes_decoded = reader_.decoded_bytes();
  task.calls.emplace_back(Kernel::csr_unpack, product_.dtype, std::initializer_list<TilePart>{}).value = self;
  return task;
}

void PanelTask::unpack(std::span<const Tile> tiles) const {
  const std::size_t n = tiles.size();
  const Tile &values = tiles[n - 4], &columns = tiles[n - 3];
  auto* pointers = tiles[n - 2].as<Index>();
  Index *stretches = pointers + reader_.rows() + 1, held = 0;
  pointers[0] = *stretches = 0;
  reader_.stream(tiles, tiles[n - 1].data, [&](Index row, const kernel::CsrRows& rows) {
    const Index before = held, first = rows.pointers[0], count = rows.pointers[rows.rows] - first;
    const auto put = [&](const std::byte* from, const Tile& to) {
      const std::size_t item = size_of(to.dtype);
      std::memcpy(to.data + static_cast<std::size_t>(before) * item, from, static_cast<std::size_t>(count) * item);
    };
    put(rows.values, values), put(rows.columns, columns);
    for (Index i = 1; i <= rows.rows; ++i) pointers[row + i] = before + rows.pointers[i] - first;
    stretches[++*stretches] = row + rows.rows;
    held += count;
  });
}

TaskSpec PanelTask::product_of(const std::array<Region, 3>& tiles) {
  TaskSpec task;
  task.name = what_.name;
  for (const Region& region : tiles) task.accesses.push_back(last(read(region)));
  add_vectors(task.accesses);
  task.accesses.push_back(scratch(call::csr_product_scratch(product_)));
  task.cost = cost();
  auto value = std::make_shared<call::CsrProduct>(product_);
  value->values = 0, value->columns = 1, value->pointers = 2;
  Call& call = task.calls.emplace_back(value->kernel(), product_.dtype, std::initializer_list<TilePart>{});
  call.flops = task.cost.flops;
  call.value = std::move(value);
  return task;
}

/// Of the arithmetic alone.
Cost PanelTask::cost() const {
  const double nnz = static_cast<double>(reader_.nnz()) * reader_.share_of_columns();
  const double b = static_cast<double>(product_.width), item = static_cast<double>(size_of(product_.dtype));
  const double lanes = static_cast<double>(product_.padded) * item / 4;  // float32 columns' worth
  // Beside the flops at BLAS's rate, which the rows do not reach.
  double seconds = 0;
  if (has(what_.x)) seconds += nnz * (0.4e-9 + 0.019e-9 * lanes);
  if (has(what_.sum)) {
    seconds += nnz * (0.6e-9 + 0.023e-9 * lanes);
    seconds += static_cast<double>(product_.cols) * b * (2 * item + 16) / reference_bytes_per_second;
  }
  if (has(what_.moments)) seconds += 1e-9 * nnz;
  const int products = (has(what_.x) ? 1 : 0) + (has(what_.sum) ? 1 : 0);
  const double flops = is_complex(product_.dtype) ? 8 : 2;  // of a value and a column
  return {flops * products * nnz * b, seconds * reference_bytes_per_second,
          real_part_of(product_.dtype) == Dtype::float64};
}

void run_panel(const Call& call, std::span<const Tile> tiles) { call.value_as<PanelWork>().run(call, tiles); }

constexpr auto numbers = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};

const bool entered = host_kernels().enter(Kernel::csr_multiply, numbers, run_panel) &&
                     host_kernels().enter(Kernel::csr_multiply_transposed, numbers, run_panel) &&
                     host_kernels().enter(Kernel::csr_gram, numbers, run_panel) &&
                     host_kernels().enter(Kernel::csr_unpack, numbers, run_panel);

}  // namespace

std::size_t unpacked_bytes(const PanelReader& reader) {
  return static_cast<std::size_t>(reader.stored_values()) * (size_of(reader.real()) + size_of(reader.column_dtype())) +
         static_cast<std::size_t>(pointers_length(reader)) * sizeof(Index);
}

void add_panel(Graph& graph, const CsrOperand& a, const CsrPanelRange& panel, PanelProduct product) {
  const auto task = std::make_shared<PanelTask>(a, panel, std::move(product));
  if (graph.device_budget() == 0) {
    graph.add(task->whole(task));
    return;
  }
  const std::array<Region, 3> tiles = task->unpacked(graph);
  graph.add(task->unpacking(task, tiles));
  graph.add(task->product_of(tiles));
}

}  // namespace flagstone::sparse
