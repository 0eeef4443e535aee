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

}  // namespace

Index height_of(const linalg::Operand& operand) {
  return operand.array.ndim() == 0 ? 0 : operand.array.shape()[row_dimension(operand)];
}
Index width_of(const linalg::Operand& operand) {
  if (operand.array.ndim() == 1) return 1;
  return operand.array.ndim() == 2 ? operand.array.shape()[1 - row_dimension(operand)] : -1;
}

PackedVectors::PackedVectors(Graph& graph, linalg::Operand x, Dtype real, bool pads)
    : graph_(graph), x_(std::move(x)), real_(real), pads_(pads) {
  const auto item = static_cast<Index>(size_of(real));
  if (!is_complex(real)) x_.conjugate = false;
  direct_ = x_.array.in_memory() && x_.array.ndim() == 2 && !x_.transpose && !x_.conjugate && x_.array.dtype() == real;
  if (!direct_) return;
  const Shape& strides = x_.array.store().memory_strides();
  direct_ = (width_of(x_) <= 1 || strides[1] == item) && strides[0] % item == 0 && strides[0] >= 0;
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
    task.body = [=, at = from - row, turn = x_.transpose,
                 conjugated = x_.conjugate](std::span<const flagstone::Tile> tiles) {
      if (at == 0) std::memset(tiles[0].data, 0, tiles[0].bytes);
      if (tiles.size() < 2) return;
      const flagstone::Tile source = seen(tiles[1], turn);
      const flagstone::Tile part = subtile(tiles[0], {{at, 0}, {source.shape[0], cols}});
      if (source.dtype != part.dtype) return kernel::convert(source, nullptr, part);
      copy(source, part);
      if (conjugated) conjugate(part);
    };
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
  const std::size_t old = task.accesses.size();
  if (how_.old) task.accesses.push_back(read({how_.old, stored(low, high - low, col, cols)}));
  const std::size_t mask = task.accesses.size();
  if (how_.mask.array) task.accesses.push_back(read({how_.mask.array, box_of(how_.mask, low, high - low, col, cols)}));
  task.body = [=, this_piece = piece, turn = y_.transpose, how = how_](std::span<const Tile> tiles) {
    const Tile t_rows = subtile(tiles[0], {{this_piece.from, 0}, {this_piece.rows, this_piece.cols}});
    const Index rows = this_piece.high - this_piece.low;
    const Tile part = subtile(seen(tiles[1], turn), {{this_piece.low - this_piece.stripe, 0}, {rows, this_piece.cols}});
    const Tile before = how.old ? seen(tiles[old], turn) : Tile{};
    if (how.semiring && !(how.plain() && t_rows.dtype == part.dtype)) {
      const Tile allowed = how.mask.array ? seen(tiles[mask], how.mask.transpose) : Tile{};
      kernel::semiring_merge(*how.semiring, {t_rows, before, allowed, how.complement, how.compact}, part);
    } else if (how.plain() && t_rows.dtype == part.dtype) {
      copy(t_rows, part);
    } else {
      combine(how.alpha, t_rows, how.beta, how.old ? &before : nullptr, part);
    }
  };
  task.cost.bytes_touched =
      2.0 * static_cast<double>((high - low) * cols) * static_cast<double>(size_of(y_.array.dtype()));
  task.priority = 1;  // frees a tile
  graph_.add(std::move(task));
}

void FinishedVectors::offer() {
  if (finished_ && !open_) finished_->offer();
}

}  // namespace flagstone::sparse
