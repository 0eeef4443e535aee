#pragma once
// Documents as a pass reads them: rows of a sparse matrix, or of a dense array what is not zero of each row.
#include <memory>
#include <variant>

#include "flagstone/algorithms/operator/dense_panels.hpp"
#include "flagstone/algorithms/sparse/panel_reader.hpp"

namespace flagstone::topics {

/// A panel of rows of a dense array.
class DenseRows {
 public:
  DenseRows(std::shared_ptr<const spectral::DensePanels> x, Index panel) : x_(std::move(x)), panel_(panel) {}
  void access(std::vector<Access>& accesses);
  /// A row in float32, and the columns of what is not zero of it.
  std::size_t scratch_bytes() const;
  /// Calls `use(row in the panel, the row)`.
  void stream(std::span<const Tile> tiles, std::byte* scratch,
              const std::function<void(Index, const kernel::CsrRows&)>& use) const;
  Index row() const { return x_->first(panel_); }
  Index rows() const { return x_->length(panel_); }
  Index nnz() const { return rows() * x_->cols(); }
  double decoded_bytes() const { return 0; }
  double convert_seconds() const;

 private:
  std::shared_ptr<const spectral::DensePanels> x_;
  Index panel_;
  std::size_t tile_ = 0;
};

/// A panel of either kind: as sparse::PanelReader.
class DocumentReader {
 public:
  explicit DocumentReader(std::variant<sparse::PanelReader, DenseRows> of) : of_(std::move(of)) {}
  void access(std::vector<Access>& accesses) {
    std::visit([&](auto& one) { one.access(accesses); }, of_);
  }
  void stream(std::span<const Tile> tiles, std::byte* scratch,
              const std::function<void(Index, const kernel::CsrRows&)>& use) const {
    std::visit([&](const auto& one) { one.stream(tiles, scratch, use); }, of_);
  }
  std::size_t scratch_bytes() const {
    return std::visit([](const auto& one) { return one.scratch_bytes(); }, of_);
  }
  Index row() const {
    return std::visit([](const auto& one) { return one.row(); }, of_);
  }
  Index rows() const {
    return std::visit([](const auto& one) { return one.rows(); }, of_);
  }
  Index nnz() const {
    return std::visit([](const auto& one) { return one.nnz(); }, of_);
  }
  double decoded_bytes() const {
    return std::visit([](const auto& one) { return one.decoded_bytes(); }, of_);
  }
  double convert_seconds() const {
    return std::visit([](const auto& one) { return one.convert_seconds(); }, of_);
  }

 private:
  std::variant<sparse::PanelReader, DenseRows> of_;
};

/// Counts of real numbers, a document a row.
class Documents {
 public:
  explicit Documents(sparse::CsrOperand x) : of_(std::move(x)) {}
  Documents(const Array& x, bool transpose)
      : of_(std::make_shared<const spectral::DensePanels>(x, transpose, spectral::Along::rows)) {}
  Index rows() const;
  Index panels() const;
  /// Of all panels but the last.
  Index panel_rows() const;
  DocumentReader panel(Index number) const;
  /// Rows that somebody chose among those of a sparse matrix: its panels are no chunks of a result.
  bool chosen() const;

 private:
  std::variant<sparse::CsrOperand, std::shared_ptr<const spectral::DensePanels>> of_;
};

}  // namespace flagstone::topics
