#include "flagstone/algorithms/sparse/csrmm_vectors.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/box/box_pieces.hpp"

namespace flagstone::sparse {
namespace {

/// The same elements with rows and columns exchanged.
Tile turned(Tile tile) {
  std::swap(tile.shape[0], tile.shape[1]);
  std::swap(tile.strides[0], tile.strides[1]);
  return tile;
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
  const Tile source = packing.turn ? turned(tiles[1]) : tiles[1];
  const Tile part = subtile(tiles[0], {{packing.first, 0}, {source.shape[0], packing.cols}});
  if (!is_complex(part.dtype)) return kernel::convert(source, nullptr, part);
  copy(source, part);
  if (packing.conjugated) conjugate(part);
}

/// Rows of T, from `first` on, to rows of a stripe of Y, from `place` on.
struct Finishing final : CallValue {
  Index first = 0, place = 0, rows = 0, cols = 0;
  bool turn = false;
};

void run_finishing(const Call& call, std::span<const Tile> tiles) {
  const auto& piece = call.value_as<Finishing>();
  const auto seen = [&](const Tile& tile) { return piece.turn ? turned(tile) : tile; };
  const Tile from = subtile(tiles[0], {{piece.first, 0}, {piece.rows, piece.cols}});
  const Tile part = subtile(seen(tiles[1]), {{piece.place, 0}, {piece.rows, piece.cols}});
  const Tile old = tiles.size() > 2 ? seen(tiles[2]) : Tile{};
  if (call.alpha == 1.0 && !old.data && from.dtype == part.dtype)
    copy(from, part);
  else
    combine(call.alpha, from, call.beta, old.data ? &old : nullptr, part);
}

constexpr auto numbers = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};
const bool entered = host_kernels().enter(Kernel::csr_pack, numbers, run_packing) &&
                     host_kernels().enter(Kernel::csr_finish, numbers, run_finishing);

}  // namespace

PackedVectors::PackedVectors(Graph& graph, linalg::Operand x, Dtype real)
    : graph_(graph), x_(std::move(x)), real_(real) {
  const auto item = static_cast<Index>(size_of(real));
  if (!is_complex(real)) x_.conjugate = false;
  direct_ = x_.array.in_memory() && !x_.transpose && !x_.conjugate && x_.array.dtype() == real;
  if (!direct_) return;
  const Shape& strides = x_.array.store().memory_strides();
  direct_ = (x_.cols() <= 1 || strides[1] == item) && strides[0] % item == 0 && strides[0] >= 0;
}

Index PackedVectors::padded(Index cols) const {
  const Index lanes = 64 / static_cast<Index>(size_of(real_));
  return direct_ || cols <= lanes / 4 ? cols : ceil_div(cols, lanes) * lanes;
}

double PackedVectors::staging_bytes() const {
  const double all = static_cast<double>(count(x_.array.shape())) * static_cast<double>(size_of(x_.array.dtype()));
  return direct_ ? 0 : std::min(all, static_cast<double>(24 * MiB));
}

/// Rows of X that are packed at a time: some MiB, by whole chunks.
Index PackedVectors::step(Index cols) const {
  const Index chunk = std::max<Index>(1, x_.array.in_memory() ? 1 : x_.array.chunks()[x_.transpose ? 1 : 0]);
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
    Box box = x_.transpose ? Box{{col, from}, {cols, to - from}} : Box{{from, col}, {to - from, cols}};
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

FinishedVectors::FinishedVectors(Graph& graph, Stages& stages, linalg::Operand y, const Array* y_in,
                                 std::complex<double> alpha, std::complex<double> beta, Index rows)
    : graph_(graph), y_(std::move(y)), alpha_(alpha), beta_(beta) {
  if (y_in) y_in_ = *y_in;
  const std::size_t row = y_.transpose ? 1 : 0, column = 1 - row;
  if (y_.array.in_memory()) {
    stripe_ = std::max<Index>(1, rows);
    return;
  }
  const Shape& chunks = y_.array.chunks();
  const bool flat = takes_any_box(y_.array);
  const Index height = flat ? 1 : std::max<Index>(1, chunks[row]);
  stripe_ = height * std::max<Index>(1, rows / height);
  const Index together = !flat ? chunks[column] : y_.transpose ? 1 : y_.cols();  // a part of a row is a run of its own
  columns_ = std::max<Index>(1, std::min(together, y_.cols()));
  finished_.emplace(stages, y_.array, y_.transpose ? Shape{columns_, stripe_} : Shape{stripe_, columns_});
}

Box FinishedVectors::stored(Index row, Index rows, Index col, Index cols) const {
  return y_.transpose ? Box{{col, row}, {cols, rows}} : Box{{row, col}, {rows, cols}};
}

bool FinishedVectors::holds(Index row, Index rows, Index col, Index cols) const {
  if (!finished_ || rows == 0) return false;
  const Index first = row / stripe_ * stripe_, last = std::min(y_.rows(), ceil_div(row + rows, stripe_) * stripe_);
  return finished_->holds(stored(first, last - first, col, cols));
}

Access FinishedVectors::direct(Index row, Index rows, Index col, Index width, Index cols) const {
  const bool ends = (row + rows) % stripe_ == 0 || row + rows == y_.rows();
  const bool aligned = y_.array.in_memory() || (row % stripe_ == 0 && ends);
  if (!plain() || y_.transpose || width != cols || !aligned) return {};
  return write({y_.array, {{row, col}, {rows, cols}}});
}

void FinishedVectors::finish(const Region& t, Index origin, Index row, Index rows, Index col, Index cols) {
  const Index end = row + rows;
  for (Index low = row; low < end;) {
    // In memory each piece is a region of its own; on disk pieces of a stripe follow each other.
    const Index stripe = y_.array.in_memory() ? low : low / stripe_ * stripe_;
    const Index stripe_end = std::min(stripe + stripe_, y_.rows()), high = std::min(end, stripe_end);
    const Box box = stored(stripe, stripe_end - stripe, col, cols);
    if (t.array && !(finished_ && finished_->holds(box)))
      add_piece(t, origin, stripe, low, high, col, cols, high == end);
    open_ = finished_ && high < stripe_end;
    if (finished_ && !open_) finished_->finish(box);
    low = high;
  }
}

void FinishedVectors::add_piece(const Region& t, Index origin, Index stripe, Index low, Index high, Index col,
                                Index cols, bool last_one) {
  const Index stripe_end = y_.array.in_memory() ? high : std::min(stripe + stripe_, y_.rows());
  const Region to{y_.array, stored(stripe, stripe_end - stripe, col, cols)};
  const Access into = low == stripe ? write(to) : update(to);
  TaskSpec task;
  task.name = "finish_rows";
  task.accesses = {last_one ? last(read(t)) : read(t), high < stripe_end ? again(into) : into};
  if (y_in_) task.accesses.push_back(read({*y_in_, stored(low, high - low, col, cols)}));
  auto piece = std::make_shared<Finishing>();
  piece->first = low - origin, piece->place = low - stripe, piece->rows = high - low, piece->cols = cols;
  piece->turn = y_.transpose;
  Call& call = task.calls.emplace_back(Kernel::csr_finish, y_.array.dtype(), std::initializer_list<TilePart>{});
  call.alpha = alpha_, call.beta = beta_;
  call.value = std::move(piece);
  task.cost.bytes_touched =
      2.0 * static_cast<double>((high - low) * cols) * static_cast<double>(size_of(y_.array.dtype()));
  task.priority = 1;  // frees a tile
  graph_.add(std::move(task));
}

void FinishedVectors::offer() {
  if (finished_ && !open_) finished_->offer();
}

}  // namespace flagstone::sparse
