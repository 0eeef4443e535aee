#include "flagstone/algorithms/kernels/sparse.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::call {
namespace {

Tile block(std::byte* data, Dtype dtype, Index rows, Index width) {
  const auto item = static_cast<Index>(size_of(dtype));
  return {data, dtype, {rows, width}, {width * item, item}, static_cast<std::size_t>(rows * width * item)};
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

/// A product on its tiles, with what it keeps in scratch.
class Panel {
 public:
  Panel(const CsrProduct& product, std::span<const Tile> tiles) : p_(product), tiles_(tiles), at_(parts(product)) {}

  void run(const std::function<void(const UseRows&)>& stream) const;

  /// Where the parts of its scratch memory begin.
  struct Parts {
    std::size_t x, rows, partial, shift, sums, bytes;
  };
  static Parts parts(const CsrProduct& product);

 private:
  bool padded() const { return p_.padded != p_.width; }
  std::byte* memory() const { return tiles_[p_.scratch].data; }
  const Tile& tile(int number) const { return tiles_[static_cast<std::size_t>(number)]; }
  Tile load_x() const;
  Tile load_rows() const;
  Tile kept_rows() const;
  Tile start_sum() const;
  void run_symmetric(const std::function<void(const UseRows&)>& stream) const;

  const CsrProduct& p_;
  std::span<const Tile> tiles_;
  Parts at_;
};

Panel::Parts Panel::parts(const CsrProduct& p) {
  const auto row_bytes = static_cast<std::size_t>(p.padded) * size_of(p.dtype);
  Parts parts{};
  std::size_t end = 0;
  const auto place = [&](std::size_t bytes) { return std::exchange(end, align_up(end + bytes, 64)); };
  parts.x = place(p.x >= 0 && p.padded != p.width ? static_cast<std::size_t>(p.cols) * row_bytes : 0);
  parts.rows = place(p.rows_aside || p.symmetric ? static_cast<std::size_t>(p.rows) * row_bytes : 0);
  parts.partial = place(p.sums_aside ? static_cast<std::size_t>(p.cols) * row_bytes : 0);
  parts.shift = place(static_cast<std::size_t>(p.padded) * sizeof(double));
  parts.sums = place(static_cast<std::size_t>(p.padded) * sizeof(double));
  parts.bytes = end;
  return parts;
}

/// X as the kernels read it: columns beyond the width are zero.
Tile Panel::load_x() const {
  if (p_.x < 0) return {};
  if (!padded()) return tile(p_.x);
  const Tile x = block(memory() + at_.x, p_.dtype, p_.cols, p_.padded);
  std::memset(x.data, 0, x.bytes);
  copy(tile(p_.x), columns_of(x, p_.width));
  return x;
}

Tile Panel::load_rows() const {
  if (p_.kept < 0 && p_.given < 0) return {};
  if (!p_.rows_aside) return p_.given >= 0 ? tile(p_.given) : kept_rows();
  const Tile t = block(memory() + at_.rows, p_.dtype, p_.rows, p_.padded);
  if (p_.given >= 0 || p_.accumulates) {
    std::memset(t.data, 0, t.bytes);
    copy(subtile(tile(p_.given >= 0 ? p_.given : p_.kept), {{0, 0}, {p_.rows, p_.width}}), columns_of(t, p_.width));
  }
  return t;
}

/// Of the tile that T goes to, the rows that are this panel's.
Tile Panel::kept_rows() const { return subtile(tile(p_.kept), {{0, 0}, {p_.rows, p_.width}}); }

Tile Panel::start_sum() const {
  if (p_.sum < 0) return {};
  if (!p_.sums_aside) return tile(p_.sum);
  const Tile partial = block(memory() + at_.partial, p_.dtype, p_.cols, p_.padded);
  std::memset(partial.data, 0, partial.bytes);
  return partial;
}

/// Z += L X and Lᴴ X of a panel's rows of L, which holds half of A's diagonal.
void Panel::run_symmetric(const std::function<void(const UseRows&)>& stream) const {
  const Tile x = load_x(), partial = start_sum();
  const Tile t = block(memory() + at_.rows, p_.dtype, p_.rows, p_.padded);
  stream([&](Index row, const kernel::CsrRows& rows) {
    const Tile part = subtile(t, {{row, 0}, {rows.rows, p_.padded}});
    const Box there{{p_.row + row, 0}, {rows.rows, p_.padded}};
    kernel::csr_multiply_ordered(rows, x, false, part);
    add_rows(part, subtile(partial, there));
    kernel::csr_multiply_transposed(rows, subtile(x, there), partial, nullptr, true);
  });
  kernel::shift_merge(p_.sums_aside ? columns_of(partial, p_.width) : Tile{}, nullptr, nullptr, tile(p_.sum));
}

void Panel::run(const std::function<void(const UseRows&)>& stream) const {
  if (p_.symmetric) return run_symmetric(stream);
  const Tile x = load_x(), t = load_rows(), partial = start_sum();
  const double* mu = p_.shift >= 0 ? tile(p_.shift).as<const double>() : nullptr;
  auto* shift_row = mu && p_.x >= 0 ? reinterpret_cast<double*>(memory() + at_.shift) : nullptr;
  auto* sums = reinterpret_cast<double*>(memory() + at_.sums);
  if (shift_row) kernel::shift_row(mu, x, shift_row);
  std::fill(sums, sums + p_.padded, 0.0);
  double* wanted_sums = mu ? sums : nullptr;

  stream([&](Index row, const kernel::CsrRows& rows) {
    const Tile part = t.data ? subtile(t, {{row, 0}, {rows.rows, p_.padded}}) : Tile{};
    if (p_.moments >= 0) kernel::csr_moments(rows, p_.dtype, tile(p_.moments).as<double>());
    if (p_.given >= 0)
      kernel::csr_multiply_transposed(rows, part, partial, wanted_sums);
    else if (p_.sum >= 0)
      kernel::csr_gram(rows, x, shift_row, part, partial, wanted_sums, p_.ordered);
    else if (p_.ordered)
      kernel::csr_multiply_ordered(rows, x, p_.accumulates, part);
    else
      kernel::csr_multiply(rows, x, shift_row, part);
  });

  if (p_.kept >= 0 && p_.rows_aside) {
    if (is_complex(p_.dtype))
      copy(columns_of(t, p_.width), kept_rows());
    else
      kernel::convert(columns_of(t, p_.width), nullptr, kept_rows());
  }
  if (p_.sum >= 0) kernel::shift_merge(p_.sums_aside ? columns_of(partial, p_.width) : Tile{}, mu, sums, tile(p_.sum));
}

/// Of rows that lie in tiles.
void run_rows(const Call& call, std::span<const Tile> tiles) {
  const auto& p = call.value_as<CsrProduct>();
  const Tile &values = tiles[p.values], &columns = tiles[p.columns];
  const auto* pointers = tiles[p.pointers].as<const Index>();
  const Index *stretches = pointers + p.rows + 1, *ends = stretches + 1;
  run_csr_product(p, tiles, [&](const UseRows& use) {
    Index row = 0;
    for (const Index* end = ends; end < ends + *stretches; row = *end++)
      use(row, {*end - row, p.cols, pointers + row,
                values.data + static_cast<std::size_t>(pointers[row]) * size_of(values.dtype),
                columns.data + static_cast<std::size_t>(pointers[row]) * size_of(columns.dtype), columns.dtype});
  });
}

constexpr auto numbers = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};

const bool entered = host_kernels().enter(Kernel::csr_rows_multiply, numbers, run_rows) &&
                     host_kernels().enter(Kernel::csr_rows_multiply_transposed, numbers, run_rows) &&
                     host_kernels().enter(Kernel::csr_rows_gram, numbers, run_rows);

}  // namespace

std::size_t csr_product_scratch(const CsrProduct& product) { return Panel::parts(product).bytes; }

void run_csr_product(const CsrProduct& product, std::span<const Tile> tiles,
                     const std::function<void(const UseRows&)>& stream) {
  Panel(product, tiles).run(stream);
}

}  // namespace flagstone::call
