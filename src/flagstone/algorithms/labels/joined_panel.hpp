#pragma once
// Rows of X with their labels: a panel of X, and the rows of Y beside it.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "flagstone/algorithms/sparse/panel_reader.hpp"

namespace flagstone::labels {

/// What is learned from: points, and the labels of each.
struct Examples {
  sparse::CsrOperand x;
  std::optional<sparse::CsrOperand> y;  // panels are those of x; empty: each row is its own label
  bool unit = true;                     // rows are divided by their lengths
  std::string who = "train_labels";
  Index rows() const { return x.matrix.rows; }
  Index features() const { return x.matrix.cols; }
};
/// Y in the panels of X. ShapeError where they have not the same rows.
Examples joined(const sparse::CsrOperand& x, const sparse::CsrOperand& y, bool unit, const std::string& who);

/// One row: its columns and values, divided, and its keys: labels, or its own number.
struct JoinedRow {
  Index row = 0, values = 0, keys = 0;
  const std::byte* columns = nullptr;
  Dtype column_dtype = Dtype::uint32;
  const float* numbers = nullptr;
  float scale = 1;
  const std::int32_t* labels = nullptr;

  template <class Use>
  void each(Use&& use) const {
    const auto walk = [&](const auto* at) {
      for (Index p = 0; p < values; ++p) use(static_cast<std::uint32_t>(at[p]), scale * numbers[p]);
    };
    if (column_dtype == Dtype::uint16)
      walk(reinterpret_cast<const std::uint16_t*>(columns));
    else if (column_dtype == Dtype::uint32)
      walk(reinterpret_cast<const std::uint32_t*>(columns));
    else
      walk(reinterpret_cast<const std::uint64_t*>(columns));
  }
};

/// 1 / ‖x‖, of a row of zeros 0; 1 where rows stay. NumericalError where a value is NaN or Inf.
float row_scale(const kernel::CsrRows& rows, Index i, bool unit, Index row, const std::string& who);
/// Row i of what a reader decoded.
JoinedRow row_of(const kernel::CsrRows& rows, Index i);

/// What a task reads rows from.
class RowReader {
 public:
  virtual ~RowReader() = default;
  /// To be called once: appends what the task reads.
  virtual void access(std::vector<Access>& accesses) = 0;
  virtual std::size_t scratch_bytes() const = 0;
  virtual Cost cost() const = 0;
  using Use = std::function<void(const JoinedRow&)>;
  virtual void each(std::span<const Tile> tiles, std::byte* scratch, const Use& use) const = 0;
};

/// Rows in pieces, which are functions of how they are stored.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual std::size_t pieces() const = 0;
  virtual std::unique_ptr<RowReader> piece(std::size_t number) const = 0;
};

class JoinedPanel final : public RowReader {
 public:
  JoinedPanel(const Examples& examples, std::size_t panel);
  void access(std::vector<Access>& accesses) override;
  std::size_t scratch_bytes() const override;
  Cost cost() const override;
  void each(std::span<const Tile> tiles, std::byte* scratch, const Use& use) const override;
  Index row() const { return x_.row(); }
  Index rows() const { return x_.rows(); }
  Index values() const { return x_.nnz(); }

 private:
  sparse::PanelReader x_;
  std::optional<sparse::PanelReader> y_;
  bool unit_;
  std::string who_;
};

class JoinedPanels final : public RowSource {
 public:
  explicit JoinedPanels(const Examples& examples) : examples_(examples) {}
  std::size_t pieces() const override { return examples_.x.panels.size(); }
  std::unique_ptr<RowReader> piece(std::size_t number) const override {
    return std::make_unique<JoinedPanel>(examples_, number);
  }

 private:
  const Examples& examples_;
};

/// Seconds of one stored value that is looked at and copied.
inline constexpr double value_seconds = 3e-9;
/// A task's cost of so many seconds on a core.
Cost seconds_of(double seconds, double flops = 0, double decoded = 0);

}  // namespace flagstone::labels
