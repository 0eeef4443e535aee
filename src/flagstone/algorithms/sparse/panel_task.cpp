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

/// A triangle with half of its diagonal, after all other steps: A = L + Lᴴ.
CsrOperand halved(CsrOperand a) {
  Transform transform = a.transform ? *a.transform : Transform{};
  transform.steps.push_back({Transform::Step::Kind::half_diagonal, {}});
  a.transform = std::make_shared<const Transform>(std::move(transform));
  return a;
}

/// to += from, of one dtype.
void add_rows(const Tile& from, const Tile& to) {
  visit_blas_type(from.dtype, [&](auto sample) {
    for (Index i = 0; i < from.shape[0]; ++i) {
      const auto* source = reinterpret_cast<const decltype(sample)*>(from.data + i * from.strides[0]);
      auto* target = reinterpret_cast<decltype(sample)*>(to.data + i * to.strides[0]);
      for (Index j = 0; j < from.shape[1]; ++j) target[j] += source[j];
    }
  });
}

Tile columns_of(const Tile& tile, Index width) { return subtile(tile, {{0, 0}, {tile.shape[0], width}}); }

}  // namespace

PanelTask::PanelTask(const CsrOperand& a, const CsrPanelRange& panel, PanelProduct product)
    : product_(std::move(product)),
      reader_(product_.symmetric ? halved(a) : a, panel, product_.real(), false),
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
  if (product_.moments.region.array) add(moments_, product_.moments);
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
  parts.rows = place(rows_aside() || product_.symmetric ? static_cast<std::size_t>(reader_.rows()) * row_bytes : 0);
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

/// Z += L X and Lᴴ X of a panel's rows of L, which holds half of A's diagonal.
void PanelTask::run_symmetric(std::span<const Tile> tiles, const Parts& at) const {
  std::byte* memory = tiles[scratch_].data;
  const Tile x = load_x(tiles, memory + at.x), partial = start_sum(tiles, memory + at.partial);
  const Tile t = block(memory + at.rows, real_, reader_.rows(), padded_);
  reader_.stream(tiles, memory + at.reader, [&](Index row, const kernel::CsrRows& rows) {
    const Tile part = subtile(t, {{row, 0}, {rows.rows, padded_}});
    const Box there{{reader_.row() + row, 0}, {rows.rows, padded_}};
    kernel::csr_multiply_ordered(rows, x, false, part);
    add_rows(part, subtile(partial, there));
    kernel::csr_multiply_transposed(rows, subtile(x, there), partial, nullptr, true);
  });
  kernel::shift_merge(sums_aside() ? columns_of(partial, width_) : Tile{}, nullptr, nullptr, tiles[sum_]);
}

void PanelTask::run(std::span<const Tile> tiles) const {
  const Parts at = parts();
  if (product_.symmetric) return run_symmetric(tiles, at);
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
    if (moments_ >= 0) kernel::csr_moments(rows, real_, tiles[moments_].as<double>());
    if (is_given())
      kernel::csr_multiply_transposed(rows, part, partial, wanted_sums);
    else if (has_sum())
      kernel::csr_gram(rows, x, shift_row, part, partial, wanted_sums);
    else if (product_.ordered)
      kernel::csr_multiply_ordered(rows, x, accumulates(), part);
    else
      kernel::csr_multiply(rows, x, shift_row, part);
  });

  if (keeps() && rows_aside()) {
    if (is_complex(real_))
      copy(columns_of(t, width_), kept_rows(tiles));
    else
      kernel::convert(columns_of(t, width_), nullptr, kept_rows(tiles));
  }
  if (has_sum()) kernel::shift_merge(sums_aside() ? columns_of(partial, width_) : Tile{}, mu, sums, tiles[sum_]);
}

namespace {

void run_panel(const Call& call, std::span<const Tile> tiles) { call.value_as<PanelTask>().run(tiles); }

constexpr auto numbers = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};

const bool entered = host_kernels().enter(Kernel::csr_multiply, numbers, run_panel) &&
                     host_kernels().enter(Kernel::csr_multiply_transposed, numbers, run_panel) &&
                     host_kernels().enter(Kernel::csr_gram, numbers, run_panel);

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
  if (product_.moments.region.array) seconds += 1e-9 * nnz;
  const int products = (has_x() ? 1 : 0) + (has_sum() ? 1 : 0);
  const double flops = is_complex(real_) ? 8 : 2;  // of a value and a column
  return {flops * products * nnz * b, seconds * reference_bytes_per_second, real_part_of(real_) == Dtype::float64,
          reader_.decoded_bytes()};
}

}  // namespace flagstone::sparse
