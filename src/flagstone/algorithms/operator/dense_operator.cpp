#include "flagstone/algorithms/operator/dense_operator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::spectral {
namespace {

constexpr kernel::Op plain{}, transposed{true, false};

Tile block(std::byte* data, Dtype dtype, Index rows, Index cols) {
  const auto item = static_cast<Index>(size_of(dtype));
  return {data, dtype, {rows, cols}, {cols * item, item}, static_cast<std::size_t>(rows * cols * item)};
}

/// Where a pass's numbers go; null where they are not collected.
struct Sums {
  double *sums = nullptr, *squares = nullptr;
};

template <class T>
void add_moments(const Tile& centred, bool tall, Sums to) {
  const Index rows = centred.shape[0], cols = centred.shape[1];
  double total = 0;
  for (Index i = 0; i < rows; ++i) {
    const auto* row = reinterpret_cast<const T*>(centred.data + i * centred.strides[0]);
    if (tall) {
      for (Index j = 0; j < cols; ++j) {
        const double value = row[j];
        to.sums[j] += value;
        to.squares[j] += value * value;
      }
    } else {
      for (Index j = 0; j < cols; ++j) total += static_cast<double>(row[j]) * static_cast<double>(row[j]);
    }
  }
  if (!tall) *to.squares += total;
}

/// One panel's pieces, converted and centred one after the other.
class Pieces {
 public:
  Pieces(std::shared_ptr<const DensePanels> x, bool center, Dtype compute, Index panel)
      : x_(std::move(x)), center_(center), compute_(compute), length_(x_->length(panel)), piece_(x_->piece(compute)) {}

  std::size_t scratch_bytes() const {
    const auto values = static_cast<std::size_t>(x_->side * piece_) * size_of(compute_);
    return align_up(values, 64) + align_up(static_cast<std::size_t>(piece_) * 8, 64);
  }
  const DensePanels& x() const { return *x_; }
  Index piece() const { return piece_; }
  /// use(first, length, converted): `converted` is length x side (tall) or side x length (wide), C order.
  /// `shift`: tall, n numbers or null. `means` (wide, may be null): where the panel's column means go.
  template <class Use>
  void each(const Tile& stored, const double* shift, double* means, std::byte* scratch, Use&& use) const {
    const Tile panel = x_->view(stored);
    auto* local = reinterpret_cast<double*>(scratch);
    std::byte* values = scratch + align_up(static_cast<std::size_t>(piece_) * 8, 64);
    for (Index at = 0; at < length_; at += piece_) {
      const Index n = std::min(piece_, length_ - at);
      const Box box = x_->tall ? Box{{at, 0}, {n, x_->side}} : Box{{0, at}, {x_->side, n}};
      const Tile from = subtile(panel, box);
      const Tile to = block(values, compute_, box.shape[0], box.shape[1]);
      if (x_->tall) {
        kernel::convert(from, shift, to);
      } else if (center_) {
        column_means(from, to, local);
        kernel::convert(from, local, to);
        if (means) std::copy_n(local, n, means + at);
      } else {
        kernel::convert(from, nullptr, to);
        if (means) std::fill_n(means + at, n, 0.0);
      }
      use(at, n, to);
    }
  }

 private:
  /// Of a whole-column piece, to eps in two steps: the mean of the values less their first row, added to that row.
  void column_means(const Tile& from, const Tile& buffer, double* means) const {
    const Index rows = from.shape[0], cols = from.shape[1];
    kernel::convert(subtile(from, {{0, 0}, {1, cols}}), nullptr, matrix(means, 1, cols));
    kernel::convert(from, means, buffer);
    std::vector<double> sums(cols, 0.0);
    visit_blas_type(compute_, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>)
        for (Index i = 0; i < rows; ++i) {
          const auto* row = reinterpret_cast<const T*>(buffer.data + i * buffer.strides[0]);
          for (Index j = 0; j < cols; ++j) sums[j] += row[j];
        }
    });
    for (Index j = 0; j < cols; ++j) means[j] += sums[j] / static_cast<double>(rows);
  }

  std::shared_ptr<const DensePanels> x_;
  bool center_;
  Dtype compute_;
  Index length_, piece_;
};

void moments_of(const Tile& piece, bool tall, Sums to) {
  if (!to.squares) return;
  if (piece.dtype == Dtype::float32)
    add_moments<float>(piece, tall, to);
  else
    add_moments<double>(piece, tall, to);
}

/// Accesses of the moments, and where their tiles are.
struct MomentPlaces {
  int shift = -1, sums = -1, squares = -1;

  MomentPlaces(std::vector<Access>& accesses, const DensePanels& x, const Centring& centring, const Moments* moments,
               Index panel) {
    const auto add = [&](Access access) {
      return accesses.push_back(std::move(access)), static_cast<int>(accesses.size()) - 1;
    };
    if (centring.shift) shift = add(read({*centring.shift, whole(centring.shift->shape())}));
    if (!moments) return;
    squares = add(reduce({moments->squares, whole(moments->squares.shape())}));
    if (x.tall)
      sums = add(reduce({moments->sums, whole(moments->sums.shape())}));
    else
      sums = add(write({moments->sums, {{0, x.first(panel)}, {1, x.length(panel)}}}));
  }
  static double* at(std::span<const Tile> tiles, int place) { return place < 0 ? nullptr : tiles[place].as<double>(); }
};

/// One panel of X, as the value of a call: how it is converted and centred, and where the task keeps its numbers.
struct Panel final : CallValue {
  Panel(std::shared_ptr<const DensePanels> x, const Centring& centring, Dtype compute, Index panel,
        std::vector<Access>& accesses, const Moments* moments)
      : pieces(x, centring.center, compute, panel), places(accesses, *x, centring, moments, panel) {}

  /// use(first, length, piece) as Pieces::each, whose moments are added up on the way.
  template <class Use>
  void each(std::span<const Tile> tiles, Use&& use) const {
    const bool tall = pieces.x().tall;
    const Sums to{MomentPlaces::at(tiles, places.sums), MomentPlaces::at(tiles, places.squares)};
    pieces.each(tiles[0], MomentPlaces::at(tiles, places.shift), tall ? nullptr : to.sums, tiles.back().data,
                [&](Index at, Index n, const Tile& piece) {
                  moments_of(piece, tall, to);
                  use(at, n, piece);
                });
  }

  Pieces pieces;
  MomentPlaces places;
  int kept = -1;  // the access that what stands between goes to
};

/// Bytes of X V (XᵀV) of one piece.
std::size_t bytes_between(const Pieces& pieces, Dtype compute, Index b) {
  return align_up(static_cast<std::size_t>(pieces.piece() * b) * size_of(compute), 64);
}

void run_center_gram(const Call& call, std::span<const Tile> tiles) {
  const auto& panel = call.value_as<Panel>();
  const DensePanels& x = panel.pieces.x();
  const Tile v = operand(call, 1, tiles), y = operand(call, 2, tiles);
  const Index b = v.shape[1];
  std::byte* const between = tiles.back().data + panel.pieces.scratch_bytes();
  const bool narrow = call.dtype == Dtype::float32;
  Tile sum = y;
  if (narrow) {
    sum = block(between + bytes_between(panel.pieces, call.dtype, b), call.dtype, x.side, b);
    std::memset(sum.data, 0, sum.bytes);
  }
  panel.each(tiles, [&](Index at, Index n, const Tile& piece) {
    const Tile t = block(between, call.dtype, n, b);
    kernel::gemm(1.0, piece, x.tall ? plain : transposed, v, plain, 0.0, t, nullptr);
    kernel::gemm(1.0, piece, x.tall ? transposed : plain, t, plain, 1.0, sum, nullptr);
    if (panel.kept >= 0) kernel::convert(t, nullptr, subtile(tiles[panel.kept], {{at, 0}, {n, b}}));
  });
  if (!narrow) return;
  const auto* from = sum.as<const float>();
  auto* target = y.as<double>();
  for (Index i = 0; i < x.side * b; ++i) target[i] += from[i];
}

void run_center(const Call& call, std::span<const Tile> tiles) {
  const auto& panel = call.value_as<Panel>();
  const DensePanels& x = panel.pieces.x();
  const Tile to = operand(call, 1, tiles);
  panel.each(tiles, [&](Index at, Index n, const Tile& piece) {
    copy(piece, subtile(to, x.tall ? Box{{at, 0}, {n, x.side}} : Box{{0, at}, {x.side, n}}));
  });
}

const bool entered = host_kernels().enter(Kernel::center_gram, {Dtype::float32, Dtype::float64}, run_center_gram) &&
                     host_kernels().enter(Kernel::center, {Dtype::float64}, run_center);

}  // namespace

void dense_gram_multiply(Graph& graph, const DensePanels& x, const Centring& centring, const Array& v, const Array& y,
                         const Array* keep, const Moments* moments) {
  const Dtype compute = v.dtype();
  const Index b = v.shape()[1];
  const bool narrow = compute == Dtype::float32;
  const auto shared = std::make_shared<const DensePanels>(x);
  for (Index p = 0; p < x.count(); ++p) {
    TaskSpec task;
    task.name = "dense_gram";
    task.accesses = {read(x.region(p)), read({v, whole(v.shape())}), reduce({y, whole(y.shape())})};
    auto panel = std::make_shared<Panel>(shared, centring, compute, p, task.accesses, moments);
    if (keep) {
      panel->kept = static_cast<int>(task.accesses.size());
      task.accesses.push_back(write({*keep, {{x.first(p), 0}, {x.length(p), b}}}));
    }
    task.accesses.push_back(scratch(panel->pieces.scratch_bytes() + bytes_between(panel->pieces, compute, b) +
                                    (narrow ? static_cast<std::size_t>(x.side * b) * 4 : 0)));
    task.cost.flops = 4.0 * static_cast<double>(x.side * x.length(p)) * static_cast<double>(b);
    task.cost.float64 = !narrow;
    // The conversion, and what products with few columns take beyond the rate of square ones (measured: 13 columns'
    // worth in float32, 24 in float64), as traffic.
    task.cost.bytes_touched = (narrow ? 60.0 : 84.0) * static_cast<double>(x.side * x.length(p));
    task.calls = {Call(Kernel::center_gram, compute, {TilePart{0}, TilePart{1}, TilePart{2}})};
    task.calls[0].flops = task.cost.flops;
    task.calls[0].value = std::move(panel);
    graph.add(std::move(task));
  }
}

namespace {

constexpr Index gram_block = 512;  // of G: one task each, so that all workers have one
constexpr int panels_in_flight = 3;

}  // namespace

std::uint64_t dense_gram_matrix_bytes(const DensePanels& x) {
  return panels_in_flight * align_up(static_cast<std::uint64_t>(x.side * x.step) * 8);
}

void dense_gram_matrix(Graph& graph, const DensePanels& x, const Centring& centring, const Array& g,
                       const Moments* moments) {
  std::vector<Array> ring;
  for (Index i = 0; i < std::min<Index>(panels_in_flight, x.count()); ++i)
    ring.push_back(graph.allocate(x.tall ? Shape{x.step, x.side} : Shape{x.side, x.step}, Dtype::float64));
  const auto shared = std::make_shared<const DensePanels>(x);
  for (Index p = 0; p < x.count(); ++p) {
    const Array& panel = ring[p % ring.size()];
    TaskSpec task;
    task.name = "dense_center";
    task.accesses = {read(x.region(p)), write({panel, whole(panel.shape())})};
    auto centred = std::make_shared<Panel>(shared, centring, Dtype::float64, p, task.accesses, moments);
    task.accesses.push_back(scratch(centred->pieces.scratch_bytes()));
    task.cost.bytes_touched = (x.tall ? 80.0 : 140.0) * static_cast<double>(x.side * x.length(p));
    task.calls = {Call(Kernel::center, Dtype::float64, {TilePart{0}, TilePart{1}})};
    task.calls[0].value = std::move(centred);
    graph.add(std::move(task));
    const Index n = x.length(p);
    for (Index i = 0; i < x.side; i += gram_block)
      for (Index j = 0; j <= i; j += gram_block) {
        const Index ni = std::min(gram_block, x.side - i), nj = std::min(gram_block, x.side - j);
        TaskSpec product;
        product.name = "dense_gram_matrix";
        product.accesses = {read({panel, whole(panel.shape())}), update({g, {{i, j}, {ni, nj}}})};
        product.cost.flops = 2.0 * static_cast<double>(ni * nj) * static_cast<double>(n);
        product.cost.float64 = true;
        product.cost.bytes_touched =
            0.18 * product.cost.flops;  // long and narrow: 30 % beyond the rate of square tiles
        const auto part = [&](Index first, Index width, bool transpose) {
          return TilePart{0, transpose, false, x.tall ? Box{{0, first}, {n, width}} : Box{{first, 0}, {width, n}}};
        };
        product.calls = {call::gemm(Dtype::float64, 1.0, part(i, ni, x.tall), part(j, nj, !x.tall), 1.0, TilePart{1})};
        product.calls[0].flops = product.cost.flops;
        graph.add(std::move(product));
      }
  }
  graph.barrier();  // the ring of panels goes away
}

void first_panel_means(Graph& graph, const DensePanels& x, const Array& shift) {
  const Pieces pieces(std::make_shared<const DensePanels>(x), false, Dtype::float64, 0);
  graph.await({read(x.region(0)), scratch(pieces.scratch_bytes()), update({shift, whole(shift.shape())})},
              [&](std::span<const Tile> tiles) {
                auto* means = tiles[2].as<double>();
                std::fill_n(means, x.side, 0.0);
                pieces.each(tiles[0], nullptr, nullptr, tiles[1].data, [&](Index, Index n, const Tile& piece) {
                  for (Index i = 0; i < n; ++i)
                    for (Index j = 0; j < x.side; ++j) means[j] += piece.as<double>()[i * x.side + j];
                });
                for (Index j = 0; j < x.side; ++j) {
                  means[j] /= static_cast<double>(x.length(0));
                  // A bad value is found by the pass; as a shift it would spoil the whole column's moments.
                  if (!std::isfinite(means[j])) means[j] = 0;
                }
              });
}

void find_bad_value(Graph& graph, const DensePanels& x) {
  const Index none = std::numeric_limits<Index>::max();
  Index row = none, col = none;
  const auto shared = std::make_shared<const DensePanels>(x);
  for (Index p = 0; p < x.count() && (row == none || !x.tall); ++p) {
    const Pieces pieces(shared, false, Dtype::float64, p);
    graph.await({read(x.region(p)), scratch(pieces.scratch_bytes())}, [&](std::span<const Tile> tiles) {
      pieces.each(tiles[0], nullptr, nullptr, tiles[1].data, [&](Index at, Index, const Tile& piece) {
        const Index first_row = x.tall ? x.first(p) + at : 0, first_col = x.tall ? 0 : x.first(p) + at;
        for (Index i = 0; i < piece.shape[0] && first_row + i <= row; ++i)
          for (Index j = 0; j < piece.shape[1]; ++j) {
            if (std::isfinite(piece.as<double>()[i * piece.shape[1] + j])) continue;
            if (first_row + i < row || first_col + j < col) row = first_row + i, col = first_col + j;
            break;
          }
      });
    });
  }
  if (row != none)
    throw NumericalError("pca: X has NaN or Inf at row " + std::to_string(row) + ", column " + std::to_string(col) +
                         "; finite values are needed, replace or drop them first.");
}

double largest_magnitude(Graph& graph, const DensePanels& x) {
  double largest = 0;
  const auto shared = std::make_shared<const DensePanels>(x);
  for (Index p = 0; p < x.count(); ++p) {
    const Pieces pieces(shared, false, Dtype::float64, p);
    graph.await({read(x.region(p)), scratch(pieces.scratch_bytes())}, [&](std::span<const Tile> tiles) {
      pieces.each(tiles[0], nullptr, nullptr, tiles[1].data, [&](Index, Index, const Tile& piece) {
        const auto* values = piece.as<const double>();
        for (Index i = 0; i < count(piece.shape); ++i) largest = std::max(largest, std::abs(values[i]));
      });
    });
  }
  return largest;
}

}  // namespace flagstone::spectral
