#include "flagstone/algorithms/sparse/csrmm_vectors.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/sparse/semiring.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::sparse {
namespace {

/// A tile by rows and columns: one of a vector is a column, one of a transposed array is turned.
Tile seen(Tile tile, bool turn) {
  if (tile.shape.size() == 1) {
    tile.shape.push_back(1);
    tile.strides.push_back(static_cast<Index>(size_of(tile.dtype)));
  } else if (turn) {
    std::swap(tile.shape[0], tile.shape[1]);
    std::swap(tile.strides[0], tile.strides[1]);
  }
  return tile;
}

Box box_of(const linalg::Operand& operand, Index row, Index rows, Index col, Index cols) {
  if (operand.array.ndim() == 1) return {{row}, {rows}};
  return operand.transpose ? Box{{col, row}, {cols, rows}} : Box{{row, col}, {rows, cols}};
}

/// The dimension that rows lie along.
std::size_t row_dimension(const linalg::Operand& operand) {
  return operand.transpose && operand.array.ndim() == 2 ? 1 : 0;
}

template <class From, class To, class Wide>
void combine(Wide alpha, const Tile& t, Wide beta, const Tile* old, const Tile& y) {
  for (Index i = 0; i < y.shape[0]; ++i)
    for (Index j = 0; j < y.shape[1]; ++j) {
      From from;
      std::memcpy(&from, t.data + i * t.strides[0] + j * t.strides[1], sizeof from);
      Wide value = alpha * static_cast<Wide>(from);
      if (old) {
        To before;
        std::memcpy(&before, old->data + i * old->strides[0] + j * old->strides[1], sizeof before);
        value += beta * static_cast<Wide>(before);
      }
      const To to = static_cast<To>(value);
      std::memcpy(y.data + i * y.strides[0] + j * y.strides[1], &to, sizeof to);
    }
}

/// Y := alpha T + beta Y_in, each element formed in float64 (complex128) and rounded once.
void combine(std::complex<double> alpha, const Tile& t, std::complex<double> beta, const Tile* old, const Tile& y) {
  visit_blas_type(t.dtype, [&](auto from) {
    visit_blas_type(y.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      if constexpr (std::is_floating_point_v<From> && std::is_floating_point_v<To>)
        combine<From, To>(alpha.real(), t, beta.real(), old, y);
      else if constexpr (!std::is_floating_point_v<From> && !std::is_floating_point_v<To>)
        combine<From, To>(alpha, t, beta, old, y);
    });
  });
}

void conjugate(const Tile& tile) {
  visit_blas_type(tile.dtype, [&](auto sample) {
    if constexpr (!std::is_floating_point_v<decltype(sample)>)
      for (Index i = 0; i < tile.shape[0]; ++i) {
        auto* row = reinterpret_cast<decltype(sample)*>(tile.data + i * tile.strides[0]);
        for (Index j = 0; j < tile.shape[1]; ++j) row[j] = std::conj(row[j]);
      }
  });
}

/// Rows of X in rows of the packed ones, from `first` on, beside which there is zero.
struct Packing final : CallValue {
  Index first = 0, cols = 0;
  bool turn = false, conjugated = false;
};

void run_packing(const Call& call, std::span<const Tile> tiles) {
  const auto& packing = call.value_as<Packing>();
  if (packing.first == 0) std::memset(tiles[0].data, 0, tiles[0].bytes);
  if (tiles.size() < 2) return;
  const Tile source = seen(tiles[1], packing.turn);
  const Tile part = subtile(tiles[0], {{packing.first, 0}, {source.shape[0], packing.cols}});
  if (source.dtype != part.dtype) return kernel::convert(source, nullptr, part);
  copy(source, part);
  if (packing.conjugated) conjugate(part);
}

/// Rows of T, from `first` on, to rows of a stripe of Y, from `place` on.
struct Finishing final : CallValue {
  Index first = 0, place = 0, rows = 0, cols = 0;
  Index of_t = 0;                 // rows of T: fewer where it is compact
  std::size_t old = 0, mask = 0;  // which accesses; 0: none
  bool turn = false, turn_mask = false, complement = false, compact = false;
  std::optional<Semiring> semiring;
};

void run_finishing(const Call& call, std::span<const Tile> tiles) {
  const auto& piece = call.value_as<Finishing>();
  const Tile from = subtile(tiles[0], {{piece.first, 0}, {piece.of_t, piece.cols}});
  const Tile part = subtile(seen(tiles[1], piece.turn), {{piece.place, 0}, {piece.rows, piece.cols}});
  const Tile old = piece.old > 0 ? seen(tiles[piece.old], piece.turn) : Tile{};
  const Tile mask = piece.mask > 0 ? seen(tiles[piece.mask], piece.turn_mask) : Tile{};
  const bool plain = call.alpha == 1.0 && !old.data && !mask.data;
  if (plain && from.dtype == part.dtype)
    copy(from, part);
  else if (plain && !is_complex(from.dtype) && !is_complex(part.dtype) && !piece.semiring)
    kernel::convert(from, nullptr, part);
  else if (piece.semiring)
    kernel::semiring_merge(*piece.semiring, {from, old, mask, piece.complement, piece.compact}, part);
  else
    combine(call.alpha, from, call.beta, old.data ? &old : nullptr, part);
}

const bool entered =
    host_kernels().enter(Kernel::csr_pack, run_packing) && host_kernels().enter(Kernel::csr_finish, run_finishing);

}  // namespace

Index height_of(const linalg::Operand& operand) {
  return operand.array.ndim() == 0 ? 0 : operand.array.shape()[row_dimension(operand)];
}
Index width_of(const linalg::Operand& operand) {
  if (operand.array.ndim() == 1) return 1;
  return operand.array.ndim() == 2 ? operand.array.shape()[1 - row_dimension(operand)] : -1;
}

PackedVectors::PackedVectors(Graph& graph, linalg::Operand x, Dtype real, Packed how)
    : graph_(graph), x_(std::move(x)), real_(real), pads_(how.pads) {
  const auto item = static_cast<Index>(size_of(real));
  if (!is_complex(real)) x_.conjugate = false;
  direct_ = x_.array.in_memory() && x_.array.ndim() == 2 && !x_.transpose && !x_.conjugate && x_.array.dtype() == real;
  if (!direct_) return;
  const Shape& strides = x_.array.store().memory_strides();
  direct_ = (width_of(x_) <= 1 || strides[1] == item) && strides[0] % item == 0 && strides[0] >= 0;
  if (!direct_ || !how.ragged) return;
  direct_ = false;
  direct_ = padded(width_of(x_)) == width_of(x_);
}

Index PackedVectors::padded(Index cols) const {
  const Index lanes = 64 / static_cast<Index>(size_of(real_));
  return direct_ || !pads_ || cols <= lanes / 4 ? cols : ceil_div(cols, lanes) * lanes;
}

double PackedVectors::staging_bytes() const {
  const double all = static_cast<double>(count(x_.array.shape())) * static_cast<double>(size_of(x_.array.dtype()));
  return direct_ ? 0 : std::min(all, static_cast<double>(24 * MiB));
}

/// Rows of X that are packed at a time: some MiB, by whole chunks.
Index PackedVectors::step(Index cols) const {
  const Index chunk = std::max<Index>(1, x_.array.in_memory() ? 1 : x_.array.chunks()[row_dimension(x_)]);
  const auto row = static_cast<Index>(size_of(x_.array.dtype())) * std::max<Index>(1, cols);
  const Index most = std::max<Index>(1, static_cast<Index>(8 * MiB) / row);
  return chunk >= most ? (chunk * row <= static_cast<Index>(32 * MiB) ? chunk : most) : most / chunk * chunk;
}

PackedVectors::Tile PackedVectors::packed(Index row, Index rows, Index col, Index cols) {
  if (direct_) return {{x_.array, {{row, col}, {rows, cols}}}, false};
  const Index width = padded(cols);
  const Array made = graph_.temporary({std::max<Index>(1, rows), width}, real_, {std::max<Index>(1, rows), width});
  const Region region{made, whole(made.shape())};
  const Index height = step(cols), first_end = (row / height + 1) * height;  // steps begin where chunks do
  for (Index from = row; from < row + rows || from == row;) {
    const Index to = std::min(row + rows, from == row ? first_end : from + height);
    Box box = box_of(x_, from, to - from, col, cols);
    TaskSpec task;
    task.name = "pack";
    task.accesses = {again(from == row ? write(region) : update(region))};
    if (rows > 0) task.accesses.push_back(read({x_.array, std::move(box)}));
    auto packing = std::make_shared<Packing>();
    packing->first = from - row, packing->cols = cols;
    packing->turn = x_.transpose, packing->conjugated = x_.conjugate;
    task.calls.emplace_back(Kernel::csr_pack, real_, std::initializer_list<TilePart>{}).value = std::move(packing);
    task.cost.bytes_touched = 2.0 * static_cast<double>((to - from) * width) * static_cast<double>(size_of(real_));
    graph_.add(std::move(task));
    if (rows == 0) break;
    from = to;
  }
  return {region, true};
}

FinishedVectors::FinishedVectors(Graph& graph, Stages& stages, linalg::Operand y, Finish finish, Index rows)
    : graph_(graph), y_(std::move(y)), how_(std::move(finish)), rows_(height_of(y_)), cols_(width_of(y_)) {
  if (y_.array.in_memory()) {
    stripe_ = std::max<Index>(1, rows);
    return;
  }
  const Shape& chunks = y_.array.chunks();
  const std::size_t row = row_dimension(y_);
  const bool flat = takes_any_box(y_.array), vector = y_.array.ndim() == 1;
  const Index height = flat ? 1 : std::max<Index>(1, chunks[row]);
  stripe_ = height * std::max<Index>(1, rows / height);
  // A part of a row is a run of its own.
  const Index together = vector ? 1 : !flat ? chunks[1 - row] : y_.transpose ? 1 : cols_;
  columns_ = std::max<Index>(1, std::min(together, cols_));
  const Box tile = box_of(y_, 0, stripe_, 0, columns_);
  finished_.emplace(stages, y_.array, tile.shape);
}

Box FinishedVectors::stored(Index row, Index rows, Index col, Index cols) const {
  return box_of(y_, row, rows, col, cols);
}

bool FinishedVectors::holds(Index row, Index rows, Index col, Index cols) const {
  if (!finished_ || rows == 0) return false;
  const Index first = row / stripe_ * stripe_, last = std::min(rows_, ceil_div(row + rows, stripe_) * stripe_);
  return finished_->holds(stored(first, last - first, col, cols));
}

Access FinishedVectors::direct(Index row, Index rows, Index col, Index width, Index cols) const {
  const bool ends = (row + rows) % stripe_ == 0 || row + rows == rows_;
  const bool aligned = y_.array.in_memory() || (row % stripe_ == 0 && ends);
  if (!how_.plain() || y_.transpose || y_.array.ndim() == 1 || width != cols || !aligned) return {};
  return write({y_.array, {{row, col}, {rows, cols}}});
}

Index FinishedVectors::wanted(Index low, Index high) const {
  const Array& mask = how_.mask.array;
  const std::byte* first = mask.store().memory() + low * mask.store().memory_strides()[0];
  Index count = 0;
  for (Index i = low; i < high; ++i, first += mask.store().memory_strides()[0])
    count += (*first != std::byte{0}) != how_.complement;
  return count;
}

void FinishedVectors::finish(const Region& t, Index origin, Index row, Index rows, Index col, Index cols) {
  const Index end = row + rows;
  Index from = row - origin;
  for (Index low = row; low < end;) {
    // In memory each piece is a region of its own; on disk pieces of a stripe follow each other.
    const Index stripe = y_.array.in_memory() ? low : low / stripe_ * stripe_;
    const Index stripe_end = std::min(stripe + stripe_, rows_), high = std::min(end, stripe_end);
    const Index number = how_.compact ? wanted(low, high) : high - low;
    const Box box = stored(stripe, stripe_end - stripe, col, cols);
    if (t.array && !(finished_ && finished_->holds(box)))
      add_piece(t, {stripe, low, high, col, cols, from, number, high == end});
    from += number;
    open_ = finished_ && high < stripe_end;
    if (finished_ && !open_) finished_->finish(box);
    low = high;
  }
}

void FinishedVectors::add_piece(const Region& t, const Piece& piece) {
  const auto& [stripe, low, high, col, cols, from, number, last_one] = piece;
  const Index stripe_end = y_.array.in_memory() ? high : std::min(stripe + stripe_, rows_);
  const Region to{y_.array, stored(stripe, stripe_end - stripe, col, cols)};
  const Access into = low == stripe ? write(to) : update(to);
  TaskSpec task;
  task.name = "finish_rows";
  task.accesses = {last_one ? last(read(t)) : read(t), high < stripe_end ? again(into) : into};
  auto finishing = std::make_shared<Finishing>();
  finishing->first = from, finishing->place = low - stripe, finishing->rows = high - low, finishing->of_t = number;
  finishing->cols = cols;
  finishing->turn = y_.transpose, finishing->turn_mask = how_.mask.transpose;
  finishing->semiring = how_.semiring, finishing->complement = how_.complement, finishing->compact = how_.compact;
  if (how_.old) {
    finishing->old = task.accesses.size();
    task.accesses.push_back(read({how_.old, stored(low, high - low, col, cols)}));
  }
  if (how_.mask.array) {
    finishing->mask = task.accesses.size();
    task.accesses.push_back(read({how_.mask.array, box_of(how_.mask, low, high - low, col, cols)}));
  }
  Call& call = task.calls.emplace_back(Kernel::csr_finish, y_.array.dtype(), std::initializer_list<TilePart>{});
  call.alpha = how_.alpha, call.beta = how_.beta;
  call.value = std::move(finishing);
  task.cost.bytes_touched =
      2.0 * static_cast<double>((high - low) * cols) * static_cast<double>(size_of(y_.array.dtype()));
  task.priority = 1;  // frees a tile
  graph_.add(std::move(task));
}

void FinishedVectors::offer() {
  if (finished_ && !open_) finished_->offer();
}

}  // namespace flagstone::sparse
