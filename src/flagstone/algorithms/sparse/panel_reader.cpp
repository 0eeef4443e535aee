#include "flagstone/algorithms/sparse/panel_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "flagstone/algorithms/sparse/value_conversion.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/decode/blosc.hpp"
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

/// Stored values of so many rows of a panel, as if all were equally long: no pointer is read before a task runs.
Index share_of_values(const CsrPanelRange& panel, Index rows) {
  const double share = static_cast<double>(rows) / static_cast<double>(std::max<Index>(1, panel.row_end - panel.row));
  return static_cast<Index>(std::llround(share * static_cast<double>(panel.last - panel.first)));
}

}  // namespace

DecodeSteps ElementStream::steps() const {
  return as.value_or(DecodeSteps{std::max<Index>(1, array.chunks()[0]), static_cast<bool>(encoded)});
}

RangeReader::RangeReader(const ElementStream& stream, Index first, Index last)
    : array_(stream.array),
      encoded_(stream.encoded),
      fill_(stream.fill),
      once_(stream.once),
      chunk_(std::max<Index>(1, stream.array.chunks()[0])),
      steps_(stream.steps()) {
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
  if (packed() && tile.bytes == 0) {  // absent: a chunk of one value
    for (Index i = from; i < to; ++i, target += item()) std::memcpy(target, fill_.data(), item());
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
  const Index chunk_start = from / steps_.chunk * steps_.chunk;
  const Index end = chunk_start + ((from - chunk_start) / kernel::decode_step + 1) * kernel::decode_step;
  return std::min({last, end, steps_.ends ? chunk_start + steps_.chunk : end});
}

PanelReader::PanelReader(const CsrOperand& a, const CsrPanelRange& panel, Dtype real, bool whole)
    : path_(a.matrix.path),
      panel_(panel),
      row_(a.rows ? a.rows->before(panel.row) : panel.row),
      rows_(a.rows ? a.rows->count_in(panel.row, panel.row_end) : panel.row_end - panel.row),
      nnz_(a.rows ? share_of_values(panel, rows_) : panel.last - panel.first),
      cols_(a.matrix.cols),
      stored_cols_(a.stored.cols),
      chosen_(a.rows),
      transform_(a.transform),
      between_(a.between),
      real_(real),
      column_(kernel::column_dtype_for(stored_cols_)),
      loaded_(real),
      widest_(size_of(real)),
      whole_(whole),
      values_(a.values, panel.first, panel.last),
      columns_(a.columns, panel.first, panel.last),
      pointers_(a.pointers, panel.row, panel.row_end + 1) {
  if (const bool begins = is_complex(values_.dtype()); transform_ && ever_complex(transform_.get(), begins)) {
    const Dtype part = real_part_of(real);
    loaded_ = begins ? complex_of(part) : part;
    widest_ = size_of(complex_of(part));
  } else if (transform_ && !transform_->steps.empty()) {
    loaded_ = real == Dtype::int64 ? real : real_part_of(real);
  }
  // A row that is still incomplete has fewer values than the matrix has columns: they are unique within a row.
  step_ = std::min(stored_values(), kernel::decode_step);
  capacity_ = whole ? stored_values() : std::min(stored_values(), kernel::decode_step + stored_cols_);
}

void PanelReader::access(std::vector<Access>& accesses) {
  if (!is_complex(real_) && ends_complex(transform_.get(), is_complex(values_.dtype())))
    throw ShapeError("csr: " + path_ + ": values are complex and " + std::string(name_of(real_)) +
                     " ones are asked for; take A.real, A.imag or abs(A).");
  values_.access(accesses);
  columns_.access(accesses);
  pointers_.access(accesses);
}

std::size_t PanelReader::scratch_bytes() const {
  const auto elements = static_cast<std::size_t>(capacity_);
  const auto words = [](Index count) { return align_up(static_cast<std::size_t>(count) * sizeof(Index), 64); };
  return align_up(elements * widest_, 64) + align_up(elements * size_of(column_), 64) + words(stored_rows() + 1) +
         (chosen_ ? words(rows()) + words(rows() + 1) : 0) + (selects() ? words(rows() + 1) : 0) +
         align_up(staging_bytes(), 64) + workspace_bytes();
}

std::size_t PanelReader::staging_bytes() const {
  const auto step = static_cast<std::size_t>(step_), rows = static_cast<std::size_t>(stored_rows() + 1);
  return std::max(step * std::max({values_.item(), columns_.item(), widest_}), rows * pointers_.item());
}

std::size_t PanelReader::workspace_bytes() const {
  return values_.packed() || columns_.packed() || pointers_.packed() ? kernel::decode_workspace : 0;
}

Index PanelReader::most_stretches() const {
  Index steps = 1;  // rows may be left when the last one has ended
  for (Index from = panel_.first; from < panel_.last; from = values_.step_end(from, panel_.last)) ++steps;
  return steps;
}

double PanelReader::share_of_columns() const {
  return between_ ? static_cast<double>(cols_) / static_cast<double>(std::max<Index>(1, stored_cols_)) : 1.0;
}

double PanelReader::decoded_bytes() const {
  const auto of = [](const RangeReader& reader, Index count) {
    return reader.packed() ? static_cast<double>(count) * static_cast<double>(reader.item()) : 0;
  };
  return of(values_, stored_values()) + of(columns_, stored_values()) + of(pointers_, stored_rows());
}

double PanelReader::convert_seconds() const {
  const auto of = [&](const RangeReader& reader, bool converts) {
    return (reader.packed() ? 0 : static_cast<double>(reader.item()) * copy_seconds_per_byte) +
           (converts ? convert_seconds_per_value : 0);
  };
  const double per_value = of(values_, values_.dtype() != real_) + of(columns_, columns_.item() != size_of(column_));
  return static_cast<double>(stored_values()) * per_value + static_cast<double>(stored_rows()) * of(pointers_, false);
}

void PanelReader::load_pointers(std::span<const Tile> tiles, const Places& at) const {
  const Index n = stored_rows() + 1;
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

/// Calls f(from, to) for the elements of [from, to) that belong to rows that are seen, stretch by stretch, from row
/// `next` on; returns the first such row that is not complete then.
template <class F>
Index PanelReader::each_kept(const Places& at, Index from, Index to, Index next, F f) const {
  for (; next < rows(); ++next) {
    const Index first = at.pointers[at.chosen[next]], last = at.pointers[at.chosen[next] + 1];
    if (const Index low = std::max(from, first), high = std::min(to, last); low < high) f(low, high);
    if (last > to) break;
  }
  return next;
}

/// Closes up elements [from, to), which lie at `data`, where rows are chosen. Returns how many stay.
Index PanelReader::keep_rows(const Places& at, Index from, Index to, Index next, std::byte* data,
                             std::size_t item) const {
  if (!chosen_) return to - from;
  Index stay = 0;
  each_kept(at, from, to, next, [&](Index low, Index high) {
    std::memmove(data + static_cast<std::size_t>(stay) * item, data + static_cast<std::size_t>(low - from) * item,
                 static_cast<std::size_t>(high - low) * item);
    stay += high - low;
  });
  return stay;
}

/// Decodes elements [from, to), keeps those of rows that are seen (from row `next` on), converts and checks them, into
/// place `offset` of the buffers. Returns how many stay.
Index PanelReader::load_elements(std::span<const Tile> tiles, const Places& at, Index from, Index to, Index offset,
                                 Index next) const {
  std::byte* values = at.values + static_cast<std::size_t>(offset) * size_of(real_);
  const bool as_stored = values_.dtype() == loaded_;
  std::byte* raw = as_stored ? values : at.staging;
  values_.fetch(tiles, from, to, raw, at.workspace);
  const Index stay = keep_rows(at, from, to, next, raw, values_.item());
  if (!as_stored) convert_values(raw, values_.dtype(), stay, values, loaded_);
  std::byte* columns = at.columns + static_cast<std::size_t>(offset) * size_of(column_);
  std::byte* stored = columns_.item() == size_of(column_) ? columns : at.staging;
  columns_.fetch(tiles, from, to, stored, at.workspace);
  keep_rows(at, from, to, next, stored, columns_.item());
  Index bad = kernel::unpack_columns(stored, columns_.dtype(), stay, stored_cols_, columns);
  if (bad < 0) return stay;
  Index place = from + bad;
  if (chosen_)
    each_kept(at, from, to, next, [&](Index low, Index high) {
      if (bad >= 0 && bad < high - low) place = low + bad;
      bad -= high - low;
    });
  throw FormatError("csr: " + path_ + ": the column index of stored value " + std::to_string(place) +
                    " is outside the matrix's " + std::to_string(stored_cols_) +
                    " columns; the file is damaged, write or copy it again.");
}

/// Lists the rows that are seen, and their ends as if the others held nothing.
void PanelReader::choose_rows(const Places& at) const {
  chosen_->list(panel_.row, panel_.row_end, at.chosen);
  at.ends[0] = 0;
  for (Index i = 0; i < rows(); ++i)
    at.ends[i + 1] = at.ends[i] + at.pointers[at.chosen[i] + 1] - at.pointers[at.chosen[i]];
}

void PanelReader::stream(std::span<const Tile> tiles, std::byte* scratch,
                         const std::function<void(Index, const kernel::CsrRows&)>& use) const {
  const auto take = [&](std::size_t bytes) { return std::exchange(scratch, scratch + align_up(bytes, 64)); };
  const auto words = [&](Index n) {
    return reinterpret_cast<Index*>(take(static_cast<std::size_t>(n) * sizeof(Index)));
  };
  const auto elements = static_cast<std::size_t>(capacity_);
  Places at{};
  at.values = take(elements * widest_);
  at.columns = take(elements * size_of(column_));
  at.pointers = at.ends = words(stored_rows() + 1);
  if (chosen_) at.chosen = words(rows()), at.ends = words(rows() + 1);
  at.kept = selects() ? words(rows() + 1) : at.ends;
  at.staging = take(staging_bytes());
  at.workspace = {scratch, workspace_bytes()};
  load_pointers(tiles, at);
  if (chosen_) choose_rows(at);
  if (selects()) std::fill(at.kept, at.kept + rows() + 1, Index{0});  // rows before the first value are empty

  Index row = 0, decoded = panel_.first;  // rows before `row` were used, values before `decoded` are decoded
  Index passed = at.ends[0], next = 0;    // values of rows that are seen; the first of these rows to come
  Index held = 0, stayed = 0;             // values in the buffers; all that stayed so far
  Index open = 0;                         // the row that holds value `passed`
  const Index all = at.ends[rows()];
  for (;;) {
    Index ready = row;  // rows [row, ready) are complete
    if (!whole_ || passed == all) ready = std::upper_bound(at.ends + row, at.ends + rows() + 1, passed) - at.ends - 1;
    if (ready > row) {
      use(row, {ready - row, cols_, at.kept + row, at.values, at.columns, column_});
      const Index done = at.kept[ready] - at.kept[row];
      const auto left = static_cast<std::size_t>(held - done);
      std::memmove(at.values, at.values + static_cast<std::size_t>(done) * size_of(real_), left * size_of(real_));
      std::memmove(at.columns, at.columns + static_cast<std::size_t>(done) * size_of(column_), left * size_of(column_));
      held -= done, row = ready;
    }
    if (passed == all) return;
    if (chosen_) decoded = std::max(decoded, at.pointers[at.chosen[next]]);  // what lies between is not unpacked
    const Index end = std::min(values_.step_end(decoded, panel_.last), decoded + step_);
    if (held + end - decoded > capacity_)
      throw FormatError("csr: " + path_ + ": row " + std::to_string(panel_.row + (chosen_ ? at.chosen[row] : row)) +
                        " has more values than the " + std::to_string(stored_cols_) +
                        " columns allow; sum its duplicates first (fl.from_blocks does).");
    const Index came = load_elements(tiles, at, decoded, end, held, next);
    if (chosen_) next = each_kept(at, decoded, end, next, [](Index, Index) {});
    Index count = came;
    if (transform_ || between_) {
      while (at.ends[open + 1] <= passed) ++open;
      const Stretch stretch{count,
                            at.values + static_cast<std::size_t>(held) * size_of(real_),
                            at.columns + static_cast<std::size_t>(held) * size_of(column_),
                            loaded_,
                            column_,
                            passed,
                            at.ends,
                            open,
                            row_};
      count = apply(transform_.get(), between_, stretch, real_, stayed, at.kept, at.staging);
      stayed += count;
    }
    held += count;
    decoded = end, passed += came;
    if (selects())  // rows without values that follow
      for (Index after = open; after < rows() && at.ends[after + 1] <= passed; ++after)
        if (at.ends[after + 1] == passed) at.kept[after + 1] = stayed;
  }
}

}  // namespace flagstone::sparse
