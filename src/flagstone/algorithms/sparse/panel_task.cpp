#include "flagstone/algorithms/sparse/panel_task.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::sparse {
namespace {

Tile block(std::byte* data, Dtype dtype, Index rows, Index width) {
  const auto item = static_cast<Index>(size_of(dtype));
  return {data, dtype, {rows, width}, {width * item, item}, static_cast<std::size_t>(rows * width * item)};
}

Tile columns_of(const Tile& tile, Index width) { return subtile(tile, {{0, 0}, {tile.shape[0], width}}); }

}  // namespace

PanelTask::PanelTask(const CsrOperand& a, const CsrPanelRange& panel, PanelProduct product)
    : product_(std::move(product)),
      reader_(a, panel, product_.real(), false),
      real_(product_.real()),
      n_(a.matrix.cols),
      width_(product_.width()),
      padded_(width_) {
  // Whole vectors of 64 bytes are worth a copy of X where the panel has more values than X has rows: 50 columns take
  // 13 ns a value as they are, 7 ns as 64.
  const Index lanes = 64 / static_cast<Index>(size_of(real_));
  if (width_ > lanes / 4 && reader_.nnz() > n_) padded_ = ceil_div(width_, lanes) * lanes;
}

bool PanelTask::rows_aside() const {
  return keeps_rows() && (padded() || (keeps() && product_.kept.region.array.dtype() != real_));
}

Kernel PanelTask::kernel() const {
  if (is_given()) return Kernel::csr_multiply_transposed;
  return has_sum() ? Kernel::csr_gram : Kernel::csr_multiply;
}

TaskSpec PanelTask::spec(std::shared_ptr<PanelTask> self) {
  TaskSpec task;
  task.name = product_.name;
  auto& accesses = task.accesses;
  reader_.access(accesses);
  const auto add = [&](int& place, Access access) {
    place = static_cast<int>(accesses.size());
    accesses.push_back(std::move(access));
  };
  if (has_x()) add(x_, product_.x);
  if (is_given()) add(given_, product_.given);
  if (product_.shift) add(shift_, read({*product_.shift, whole(product_.shift->shape())}));
  if (keeps()) add(kept_, product_.kept);
  if (has_sum()) add(sum_, product_.sum);
  add(scratch_, scratch(parts().bytes));
  task.cost = cost();
  Call& call = task.calls.emplace_back(kernel(), real_, std::initializer_list<TilePart>{});
  call.flops = task.cost.flops;
  call.value = std::move(self);
  return task;
}

PanelTask::Parts PanelTask::parts() const {
  const auto row_bytes = static_cast<std::size_t>(padded_) * size_of(real_);
  Parts parts{};
  std::size_t end = 0;
  const auto place = [&](std::size_t bytes) { return std::exchange(end, align_up(end + bytes, 64)); };
  parts.x = place(has_x() && padded() ? static_cast<std::size_t>(n_) * row_bytes : 0);
  parts.rows = place(rows_aside() ? static_cast<std::size_t>(reader_.rows()) * row_bytes : 0);
  parts.partial = place(sums_aside() ? static_cast<std::size_t>(n_) * row_bytes : 0);
  parts.shift = place(static_cast<std::size_t>(padded_) * sizeof(double));
  parts.sums = place(static_cast<std::size_t>(padded_) * sizeof(double));
  parts.reader = place(reader_.scratch_bytes());
  parts.bytes = end;
  return parts;
}

/// X as the kernels read it: columns beyond the width are zero.
Tile PanelTask::load_x(std::span<const Tile> tiles, std::byte* memory) const {
  if (!has_x()) return {};
  if (!padded()) return tiles[x_];
  const Tile x = block(memory, real_, n_, padded_);
  std::memset(x.data, 0, x.bytes);
  copy(tiles[x_], columns_of(x, width_));
  return x;
}

Tile PanelTask::load_rows(std::span<const Tile> tiles, std::byte* memory) const {
  if (!keeps_rows()) return {};
  if (!rows_aside()) return is_given() ? tiles[given_] : kept_rows(tiles);
  const Tile t = block(memory, real_, reader_.rows(), padded_);
  if (is_given() || accumulates()) {
    std::memset(t.data, 0, t.bytes);
    copy(subtile(tiles[is_given() ? given_ : kept_], {{0, 0}, {reader_.rows(), width_}}), columns_of(t, width_));
  }
  return t;
}

/// Of the tile that T goes to, the rows that are this panel's.
Tile PanelTask::kept_rows(std::span<const Tile> tiles) const {
  return subtile(tiles[kept_], {{0, 0}, {reader_.rows(), width_}});
}

Tile PanelTask::start_sum(std::span<const Tile> tiles, std::byte* memory) const {
  if (!has_sum()) return {};
  if (!sums_aside()) return tiles[sum_];
  const Tile partial = block(memory, real_, n_, padded_);
  std::memset(partial.data, 0, partial.bytes);
  return partial;
}

void PanelTask::run(std::span<const Tile> tiles) const {
  const Parts at = parts();
  std::byte* memory = tiles[scratch_].data;
  const Tile x = load_x(tiles, memory + at.x), t = load_rows(tiles, memory + at.rows);
  const Tile partial = start_sum(tiles, memory + at.partial);
  const double* mu = product_.shift ? tiles[shift_].as<const double>() : nullptr;
  auto* shift_row = mu && has_x() ? reinterpret_cast<double*>(memory + at.shift) : nullptr;
  auto* sums = reinterpret_cast<double*>(memory + at.sums);
  if (shift_row) kernel::shift_row(mu, x, shift_row);
  std::fill(sums, sums + padded_, 0.0);
  double* wanted_sums = mu ? sums : nullptr;

  reader_.stream(tiles, memory + at.reader, [&](Index row, const kernel::CsrRows& rows) {
    const Tile part = t.data ? subtile(t, {{row, 0}, {rows.rows, padded_}}) : Tile{};
    if (is_given())
      kernel::csr_multiply_transposed(rows, part, partial, wanted_sums);
    else if (has_sum())
      kernel::csr_gram(rows, x, shift_row, part, partial, wanted_sums);
    else if (product_.ordered)
      kernel::csr_multiply_ordered(rows, x, accumulates(), part);
    else
      kernel::csr_multiply(rows, x, shift_row, part);
  });

  if (keeps() && rows_aside()) kernel::convert(columns_of(t, width_), nullptr, kept_rows(tiles));
  if (has_sum()) kernel::shift_merge(sums_aside() ? columns_of(partial, width_) : Tile{}, mu, sums, tiles[sum_]);
}

namespace {

void run_panel(const Call& call, std::span<const Tile> tiles) { call.value_as<PanelTask>().run(tiles); }

const bool entered =
    host_kernels().enter(Kernel::csr_multiply, {Dtype::float32, Dtype::float64}, run_panel) &&
    host_kernels().enter(Kernel::csr_multiply_transposed, {Dtype::float32, Dtype::float64}, run_panel) &&
    host_kernels().enter(Kernel::csr_gram, {Dtype::float32, Dtype::float64}, run_panel);

}  // namespace

Cost PanelTask::cost() const {
  const double nnz = static_cast<double>(reader_.nnz()) * reader_.share_of_columns(), b = static_cast<double>(width_);
  const double item = static_cast<double>(size_of(real_));
  const double lanes = static_cast<double>(padded_) * item / 4;  // float32 columns' worth
  // Beside the flops at BLAS's rate, which the rows do not reach.
  double seconds = reader_.convert_seconds();
  if (has_x()) seconds += nnz * (0.4e-9 + 0.019e-9 * lanes);
  if (has_sum()) {
    seconds += nnz * (0.6e-9 + 0.023e-9 * lanes);
    seconds += static_cast<double>(n_) * b * (2 * item + 16) / reference_bytes_per_second;
  }
  const int products = (has_x() ? 1 : 0) + (has_sum() ? 1 : 0);
  return {2 * products * nnz * b, seconds * reference_bytes_per_second, real_ == Dtype::float64,
          reader_.decoded_bytes()};
}

}  // namespace flagstone::sparse
