#include "flagstone/algorithms/sparse/panel_reader.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/decode/blosc.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone::sparse {
namespace {

// Unpacked chunks longer than this are read by the range instead of whole: a chunk may be the whole array.
constexpr Index longest_chunk = Index{1} << 21;

// Measured on one core.
constexpr double copy_seconds_per_byte = 0.1e-9;
constexpr double convert_seconds_per_value = 0.4e-9;

Tile row_of(std::byte* data, Dtype dtype, Index n) {
  const auto item = static_cast<Index>(size_of(dtype));
  return {data, dtype, {n}, {item}, static_cast<std::size_t>(n * item)};
}

}  // namespace

RangeReader::RangeReader(const ElementStream& stream, Index first, Index last)
    : array_(stream.array),
      encoded_(stream.encoded),
      once_(stream.once),
      chunk_(std::max<Index>(1, stream.array.chunks()[0])) {
  if (first >= last) return;
  const Index length = array_.shape()[0];
  if (!packed() && (array_.in_memory() || chunk_ > longest_chunk)) {
    pieces_.push_back({first, last, -1});
    return;
  }
  for (Index chunk = first / chunk_; chunk * chunk_ < last; ++chunk)
    pieces_.push_back({chunk * chunk_, std::min(length, (chunk + 1) * chunk_), chunk});
}

void RangeReader::access(std::vector<Access>& accesses) {
  first_tile_ = accesses.size();
  for (const Piece& piece : pieces_) {
    const Access access =
        packed() ? read({encoded_, {{piece.chunk}, {1}}}) : read({array_, {{piece.first}, {piece.last - piece.first}}});
    accesses.push_back(once_ ? last(access) : access);
  }
}

void RangeReader::fetch_piece(const Piece& piece, const Tile& tile, Index from, Index to, std::byte* target,
                              std::span<std::byte> workspace) const {
  if (packed() && tile.bytes == 0) {  // absent: a chunk of zeros
    std::memset(target, 0, static_cast<std::size_t>(to - from) * item());
    return;
  }
  if (packed()) {
    const char* damage =
        kernel::decode_blosc({tile.data, tile.bytes}, item(), chunk_, from - piece.first, to - from, target, workspace);
    if (damage)
      throw FormatError("csr: " + array_.path() + ": chunk " + std::to_string(piece.chunk) + " " + damage +
                        "; the file is damaged, write or copy it again.");
    return;
  }
  const auto bytes = static_cast<Index>(item());
  Tile part = row_of(tile.data + (from - piece.first) * tile.strides[0], dtype(), to - from);
  part.strides = tile.strides;
  copy(part, {target, dtype(), {to - from}, {bytes}, 0});
}

void RangeReader::fetch(std::span<const Tile> tiles, Index from, Index to, std::byte* target,
                        std::span<std::byte> workspace) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Index low = std::max(from, pieces_[i].first), high = std::min(to, pieces_[i].last);
    if (low < high)
      fetch_piece(pieces_[i], tiles[first_tile_ + i], low, high, target + static_cast<std::size_t>(low - from) * item(),
                  workspace);
  }
}

Index RangeReader::step_end(Index from, Index last) const {
  // Steps count from the start of the chunk, as the codec's blocks do.
  const Index chunk_start = from / chunk_ * chunk_;
  const Index end = chunk_start + ((from - chunk_start) / kernel::decode_step + 1) * kernel::decode_step;
  return std::min({last, end, packed() ? chunk_start + chunk_ : end});
}

PanelReader::PanelReader(const CsrOperand& a, const CsrPanelRange& panel, Dtype real, bool whole)
    : path_(a.matrix.path),
      panel_(panel),
      cols_(a.matrix.cols),
      stored_cols_(a.transform ? a.transform->stored_cols : cols_),
      transform_(a.transform),
      real_(real),
      column_(kernel::column_dtype_for(stored_cols_)),
      whole_(whole),
      values_(a.values, panel.first, panel.last),
      columns_(a.columns, panel.first, panel.last),
      pointers_(a.pointers, panel.row, panel.row_end + 1) {
  // A row that is still incomplete has fewer values than the matrix has columns: they are unique within a row.
  step_ = std::min(nnz(), kernel::decode_step);
  capacity_ = whole ? nnz() : std::min(nnz(), kernel::decode_step + stored_cols_);
}

void PanelReader::access(std::vector<Access>& accesses) {
  values_.access(accesses);
  columns_.access(accesses);
  pointers_.access(accesses);
}

std::size_t PanelReader::scratch_bytes() const {
  const auto elements = static_cast<std::size_t>(capacity_);
  const auto rows = static_cast<std::size_t>(panel_.row_end - panel_.row + 1);
  return align_up(elements * size_of(real_), 64) + align_up(elements * size_of(column_), 64) +
         (selects() ? 2 : 1) * align_up(rows * sizeof(Index), 64) + align_up(staging_bytes(), 64) + workspace_bytes();
}

std::size_t PanelReader::staging_bytes() const {
  const auto step = static_cast<std::size_t>(step_), rows = static_cast<std::size_t>(panel_.row_end - panel_.row + 1);
  return std::max(step * std::max({values_.item(), columns_.item(), size_of(real_)}), rows * pointers_.item());
}

std::size_t PanelReader::workspace_bytes() const {
  return values_.packed() || columns_.packed() || pointers_.packed() ? kernel::decode_workspace : 0;
}

double PanelReader::decoded_bytes() const {
  const auto of = [](const RangeReader& reader, Index count) {
    return reader.packed() ? static_cast<double>(count) * static_cast<double>(reader.item()) : 0;
  };
  return of(values_, nnz()) + of(columns_, nnz()) + of(pointers_, rows());
}

double PanelReader::convert_seconds() const {
  const auto of = [&](const RangeReader& reader, bool converts) {
    return (reader.packed() ? 0 : static_cast<double>(reader.item()) * copy_seconds_per_byte) +
           (converts ? convert_seconds_per_value : 0);
  };
  const double per_value = of(values_, values_.dtype() != real_) + of(columns_, columns_.item() != size_of(column_));
  return static_cast<double>(nnz()) * per_value + static_cast<double>(rows()) * of(pointers_, false);
}

void PanelReader::load_pointers(std::span<const Tile> tiles, const Places& at) const {
  const Index n = rows() + 1;
  const auto wrong = [&](Index row) {
    return FormatError("csr: " + path_ + ": the row pointers around row " + std::to_string(panel_.row + row) +
                       " decrease or do not fit the stored values; the file is damaged, write or copy it again.");
  };
  if (pointers_.dtype() == Dtype::int64) {
    pointers_.fetch(tiles, panel_.row, panel_.row_end + 1, reinterpret_cast<std::byte*>(at.pointers), at.workspace);
  } else {
    pointers_.fetch(tiles, panel_.row, panel_.row_end + 1, at.staging, at.workspace);
    for (Index i = 0; i < n; ++i) {
      const std::byte* from = at.staging + static_cast<std::size_t>(i) * pointers_.item();
      std::int32_t narrow = 0;
      std::memcpy(&narrow, from, sizeof narrow);
      if (pointers_.dtype() == Dtype::uint64)
        std::memcpy(&at.pointers[i], from, sizeof(Index));
      else
        at.pointers[i] = pointers_.dtype() == Dtype::uint32 ? static_cast<std::uint32_t>(narrow) : narrow;
    }
  }
  if (at.pointers[0] != panel_.first || at.pointers[n - 1] != panel_.last) throw wrong(0);
  for (Index i = 1; i < n; ++i)
    if (at.pointers[i] < at.pointers[i - 1]) throw wrong(i);
}

/// Decodes, converts and checks elements [from, to) into place `offset` of the buffers.
void PanelReader::load_elements(std::span<const Tile> tiles, const Places& at, Index from, Index to,
                                Index offset) const {
  std::byte* values = at.values + static_cast<std::size_t>(offset) * size_of(real_);
  if (values_.dtype() == real_) {
    values_.fetch(tiles, from, to, values, at.workspace);
  } else {
    values_.fetch(tiles, from, to, at.staging, at.workspace);
    kernel::convert(row_of(at.staging, values_.dtype(), to - from), nullptr, row_of(values, real_, to - from));
  }
  std::byte* columns = at.columns + static_cast<std::size_t>(offset) * size_of(column_);
  std::byte* stored = columns_.item() == size_of(column_) ? columns : at.staging;
  columns_.fetch(tiles, from, to, stored, at.workspace);
  const Index bad = kernel::unpack_columns(stored, columns_.dtype(), to - from, stored_cols_, columns);
  if (bad >= 0)
    throw FormatError("csr: " + path_ + ": the column index of stored value " + std::to_string(from + bad) +
                      " is outside the matrix's " + std::to_string(stored_cols_) +
                      " columns; the file is damaged, write or copy it again.");
}

void PanelReader::stream(std::span<const Tile> tiles, std::byte* scratch,
                         const std::function<void(Index, const kernel::CsrRows&)>& use) const {
  const auto take = [&](std::size_t bytes) { return std::exchange(scratch, scratch + align_up(bytes, 64)); };
  const auto elements = static_cast<std::size_t>(capacity_);
  Places at{};
  at.values = take(elements * size_of(real_));
  at.columns = take(elements * size_of(column_));
  at.pointers = reinterpret_cast<Index*>(take(static_cast<std::size_t>(rows() + 1) * sizeof(Index)));
  at.kept = at.pointers;
  if (selects()) at.kept = reinterpret_cast<Index*>(take(static_cast<std::size_t>(rows() + 1) * sizeof(Index)));
  at.staging = take(staging_bytes());
  at.workspace = {scratch, workspace_bytes()};
  load_pointers(tiles, at);
  if (selects()) std::fill(at.kept, at.kept + rows() + 1, Index{0});  // rows before the first value are empty

  Index row = 0, decoded = panel_.first;  // rows before `row` were used, values before `decoded` are decoded
  Index held = 0, stayed = 0;             // values in the buffers; all that stayed so far
  Index open = 0;                         // the row that holds value `decoded`
  for (;;) {
    Index ready = row;  // rows [row, ready) are complete
    if (!whole_ || decoded == panel_.last)
      ready = std::upper_bound(at.pointers + row, at.pointers + rows() + 1, decoded) - at.pointers - 1;
    if (ready > row) {
      use(row, {ready - row, cols_, at.kept + row, at.values, at.columns, column_});
      const Index done = at.kept[ready] - at.kept[row];
      const auto left = static_cast<std::size_t>(held - done);
      std::memmove(at.values, at.values + static_cast<std::size_t>(done) * size_of(real_), left * size_of(real_));
      std::memmove(at.columns, at.columns + static_cast<std::size_t>(done) * size_of(column_), left * size_of(column_));
      held -= done, row = ready;
    }
    if (decoded == panel_.last) return;
    const Index end = std::min(values_.step_end(decoded, panel_.last), decoded + step_);
    if (held + end - decoded > capacity_)
      throw FormatError("csr: " + path_ + ": row " + std::to_string(panel_.row + row) + " has more values than the " +
                        std::to_string(stored_cols_) +
                        " columns allow; sum its duplicates first (fl.from_blocks does).");
    load_elements(tiles, at, decoded, end, held);
    Index count = end - decoded;
    if (transform_) {
      while (at.pointers[open + 1] <= decoded) ++open;
      const Stretch stretch{count,
                            at.values + static_cast<std::size_t>(held) * size_of(real_),
                            at.columns + static_cast<std::size_t>(held) * size_of(column_),
                            real_,
                            column_,
                            decoded,
                            at.pointers,
                            open,
                            panel_.row};
      count = apply(*transform_, stretch, stayed, at.kept, at.staging);
      stayed += count;
    }
    held += count;
    decoded = end;
    if (selects())  // rows without values that follow
      for (Index next = open; next < rows() && at.pointers[next + 1] <= decoded; ++next)
        if (at.pointers[next + 1] == decoded) at.kept[next + 1] = stayed;
  }
}

}  // namespace flagstone::sparse
