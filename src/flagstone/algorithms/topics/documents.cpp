#include "flagstone/algorithms/topics/documents.hpp"

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::topics {
namespace {

constexpr double seconds_of_value = 1e-9;  // converted, and looked at

std::size_t line_bytes(Index cols) { return align_up(static_cast<std::size_t>(cols) * sizeof(float), 64); }

/// What is not zero moves to the front, its columns with it; NaN stays.
template <class Column>
Index pack(float* line, Index cols, std::byte* columns) {
  auto* const to = reinterpret_cast<Column*>(columns);
  Index n = 0;
  for (Index c = 0; c < cols; ++c)
    if (line[c] != 0) line[n] = line[c], to[n++] = static_cast<Column>(c);
  return n;
}

Index pack(Dtype dtype, float* line, Index cols, std::byte* columns) {
  if (dtype == Dtype::uint16) return pack<std::uint16_t>(line, cols, columns);
  if (dtype == Dtype::uint32) return pack<std::uint32_t>(line, cols, columns);
  return pack<std::uint64_t>(line, cols, columns);
}

}  // namespace

void DenseRows::access(std::vector<Access>& accesses) {
  tile_ = accesses.size();
  accesses.push_back(read(x_->region(panel_)));
}

std::size_t DenseRows::scratch_bytes() const {
  const Index cols = x_->cols();
  return line_bytes(cols) + static_cast<std::size_t>(cols) * size_of(kernel::column_dtype_for(cols));
}

void DenseRows::stream(std::span<const Tile> tiles, std::byte* scratch,
                       const std::function<void(Index, const kernel::CsrRows&)>& use) const {
  const Tile panel = x_->view(tiles[tile_]);
  const Index cols = x_->cols();
  const auto row_bytes = static_cast<Index>(line_bytes(cols));
  auto* const line = reinterpret_cast<float*>(scratch);
  const Tile to{scratch, Dtype::float32, {1, cols}, {row_bytes, sizeof(float)}, static_cast<std::size_t>(row_bytes)};
  std::byte* const columns = scratch + row_bytes;
  const Dtype dtype = kernel::column_dtype_for(cols);
  for (Index i = 0; i < rows(); ++i) {
    kernel::convert(subtile(panel, {{i, 0}, {1, cols}}), nullptr, to);
    const Index pointers[] = {0, pack(dtype, line, cols, columns)};
    use(i, {1, cols, pointers, scratch, columns, dtype});
  }
}

double DenseRows::convert_seconds() const { return seconds_of_value * static_cast<double>(nnz()); }

Index Documents::rows() const {
  const auto* const sparse = std::get_if<0>(&of_);
  return sparse ? sparse->matrix.rows : std::get<1>(of_)->rows();
}

Index Documents::panels() const {
  const auto* const sparse = std::get_if<0>(&of_);
  return sparse ? static_cast<Index>(sparse->panels.size()) : std::get<1>(of_)->count();
}

Index Documents::panel_rows() const {
  const auto* const sparse = std::get_if<0>(&of_);
  return sparse ? sparse->panel_rows() : std::get<1>(of_)->step;
}

DocumentReader Documents::panel(Index number) const {
  const auto* const sparse = std::get_if<0>(&of_);
  if (!sparse) return DocumentReader(DenseRows(std::get<1>(of_), number));
  return DocumentReader(
      sparse::PanelReader(*sparse, sparse->panels[static_cast<std::size_t>(number)], Dtype::float32, false));
}

bool Documents::chosen() const {
  const auto* const sparse = std::get_if<0>(&of_);
  return sparse && sparse->rows;
}

}  // namespace flagstone::topics
