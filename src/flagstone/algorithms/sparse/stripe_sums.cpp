#include "flagstone/algorithms/sparse/stripe_sums.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flagstone/algorithms/sparse/panel_task.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/sparse/split_rows.hpp"

namespace flagstone::sparse {
namespace {

constexpr std::size_t cached_sums = std::size_t{1} << 20;  // bytes
constexpr int widest_shift = 16, narrowest_shift = 6;      // columns of a stripe are uint16
constexpr Index stripes_a_worker = 4;                      // chains of sums that may run at a time

class SplitTask final : public PanelWork {
 public:
  explicit SplitTask(std::shared_ptr<const SplitPanel> panel) : panel_(std::move(panel)) {}
  void run(const Call&, std::span<const Tile> tiles) const override {
    const std::size_t n = tiles.size();
    panel_->fill(tiles, tiles[n - 1].data, tiles[n - 2].data);
  }

 private:
  std::shared_ptr<const SplitPanel> panel_;
};

/// Tiles: of each panel its values and its rows of X; Z's stripe; scratch.
class StripeSum final : public PanelWork {
 public:
  StripeSum(const std::vector<SplitRegion>& panels, Index stripe, Index length) : stripe_(stripe), length_(length) {
    for (const SplitRegion& one : panels) panels_.push_back(one.panel);
  }
  /// The sums of a panel, and which of them are no longer zero.
  static std::size_t scratch_bytes(Index length, Index width, Dtype real) {
    const std::size_t sums = static_cast<std::size_t>(length) * static_cast<std::size_t>(width) * size_of(real);
    return align_up(sums, sizeof(Index)) + static_cast<std::size_t>(length) * (sizeof(Index) + 1);
  }
  void run(const Call& call, std::span<const Tile> tiles) const override;

 private:
  void add_some(const SplitPanel& panel, const Tile& values, const Tile& x, const Tile& partial, const Tile& z) const;

  std::vector<std::shared_ptr<const SplitPanel>> panels_;
  Index stripe_, length_;
};

void StripeSum::run(const Call& call, std::span<const Tile> tiles) const {
  const Tile& z = tiles[tiles.size() - 2];
  const Index width = z.shape[1], item = static_cast<Index>(size_of(call.dtype));
  const Tile partial{tiles.back().data,
                     call.dtype,
                     {length_, width},
                     {width * item, item},
                     static_cast<std::size_t>(length_ * width * item)};
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    const Tile &values = tiles[2 * i], &x = tiles[2 * i + 1];
    Index count = 0;
    panels_[i]->each(values.data, stripe_, [&](const kernel::CsrRecords& records) { count += records.count; });
    if (count < length_ / 2) {
      add_some(*panels_[i], values, x, partial, z);
      continue;
    }
    std::memset(partial.data, 0, partial.bytes);
    panels_[i]->each(values.data, stripe_,
                     [&](const kernel::CsrRecords& records) { kernel::csr_scatter(records, x, partial); });
    kernel::shift_merge(partial, nullptr, nullptr, z);
  }
}

/// Where a panel has values in some of the columns alone, only their sums are begun and added. Same bits: z + 0 is z.
void StripeSum::add_some(const SplitPanel& panel, const Tile& values, const Tile& x, const Tile& partial,
                         const Tile& z) const {
  std::byte* behind = partial.data + align_up(partial.bytes, sizeof(Index));
  auto* found = reinterpret_cast<Index*>(behind);
  auto* seen = reinterpret_cast<std::uint8_t*>(found + length_);
  std::memset(seen, 0, static_cast<std::size_t>(length_));
  Index number = 0;
  const auto row_bytes = static_cast<std::size_t>(partial.strides[0]);
  panel.each(values.data, stripe_, [&](const kernel::CsrRecords& records) {
    const std::byte* record = records.data + sizeof(std::uint16_t);  // its column
    const std::size_t bytes = kernel::record_bytes(size_of(partial.dtype));
    for (Index p = 0; p < records.count; ++p, record += bytes) {
      std::uint16_t column = 0;
      std::memcpy(&column, record, sizeof column);
      if (std::exchange(seen[column], std::uint8_t{1}) != 0) continue;
      std::memset(partial.data + static_cast<std::size_t>(column) * row_bytes, 0, row_bytes);
      found[number++] = column;
    }
    kernel::csr_scatter(records, x, partial);
  });
  for (Index i = 0; i < number; ++i) {
    const Box row{{found[i], 0}, {1, z.shape[1]}};
    kernel::shift_merge(subtile(partial, row), nullptr, nullptr, subtile(z, row));
  }
}

}  // namespace

Stripes stripes_of(Index cols, std::size_t row_bytes, int workers) {
  Stripes stripes{cols, widest_shift};
  const auto fits = [&] {
    return static_cast<std::size_t>(stripes.width()) * row_bytes <= cached_sums &&
           stripes.number() >= stripes_a_worker * workers;
  };
  while (stripes.shift > narrowest_shift && !fits()) --stripes.shift;
  return stripes;
}

SplitPanel::SplitPanel(const CsrOperand& a, const CsrPanelRange& panel, Dtype real, const Stripes& stripes)
    : reader_(a, panel, real, false), stripes_(stripes) {
  const auto ends = static_cast<std::size_t>(reader_.most_stretches() * (stripes.number() + 1));
  records_ = align_up((1 + ends) * sizeof(Index), 64);
}

std::size_t SplitPanel::record_bytes() const { return kernel::record_bytes(size_of(reader_.real())); }

void SplitPanel::fill(std::span<const Tile> tiles, std::byte* scratch, std::byte* to) const {
  auto* stretches = reinterpret_cast<Index*>(to);
  Index *ends = stretches + 1, held = 0;
  *stretches = 0;
  const auto number = static_cast<std::size_t>(stripes_.number());
  reader_.stream(tiles, scratch, [&](Index row, const kernel::CsrRows& rows) {
    ends[0] = held;
    kernel::split_rows(rows, size_of(reader_.real()), row, stripes_.shift, {ends, number + 1}, to + records_);
    held = ends[number];
    ends += number + 1, ++*stretches;
  });
}

void SplitPanel::each(const std::byte* from, Index stripe,
                      const std::function<void(const kernel::CsrRecords&)>& use) const {
  const auto* stretches = reinterpret_cast<const Index*>(from);
  const Index* ends = stretches + 1 + stripe;
  for (Index i = 0; i < *stretches; ++i, ends += stripes_.number() + 1)
    if (ends[0] < ends[1])
      use({ends[1] - ends[0], from + records_ + static_cast<std::size_t>(ends[0]) * record_bytes()});
}

SplitRegion add_split(Graph& graph, const CsrOperand& a, const CsrPanelRange& panel, Dtype real,
                      const Stripes& stripes) {
  TaskSpec task;
  task.name = "csr_split";
  const auto split = std::make_shared<SplitPanel>(a, panel, real, stripes);
  split->access(task.accesses);
  const Shape shape{static_cast<Index>(split->bytes())};
  const Array tile = graph.temporary(shape, Dtype::uint8, shape);
  const Region values{tile, whole(shape)};
  const PanelReader& reader = split->reader();
  task.accesses.push_back(again(write(values)));
  task.accesses.push_back(scratch(reader.scratch_bytes()));
  constexpr double split_seconds_per_value = 3e-9;  // measured beside another worker
  const double seconds =
      reader.convert_seconds() + split_seconds_per_value * static_cast<double>(reader.stored_values());
  task.cost.bytes_touched = seconds * reference_bytes_per_second;
  task.cost.bytes_decoded = reader.decoded_bytes();
  task.calls.emplace_back(Kernel::csr_unpack, real, std::initializer_list<TilePart>{}).value =
      std::make_shared<SplitTask>(split);
  graph.add(std::move(task));
  return {split, values, {}};
}

void add_stripe_sum(Graph& graph, const std::vector<SplitRegion>& panels, const Stripes& stripes, Index stripe,
                    const Region& z, bool ends) {
  if (panels.empty()) return;
  TaskSpec task;
  task.name = "csr_stripe_sum";
  double values = 0;
  for (const SplitRegion& one : panels) {
    task.accesses.push_back(ends ? last(read(one.values)) : read(one.values));
    task.accesses.push_back(ends && one.temporary ? last(read(one.x)) : read(one.x));
    values += static_cast<double>(one.panel->reader().nnz());
  }
  const Dtype real = panels.front().panel->reader().real();
  const Index length = stripes.length(stripe), width = z.box.shape[1];
  task.accesses.push_back(again(update(z)));
  task.accesses.push_back(scratch(StripeSum::scratch_bytes(length, width, real)));
  values *= static_cast<double>(length) / static_cast<double>(std::max<Index>(1, stripes.cols));
  const double lanes = static_cast<double>(width) * static_cast<double>(size_of(real)) / 4;
  const double flops = (is_complex(real) ? 8 : 2) * values * static_cast<double>(width);
  task.cost = {flops, values * (1e-9 + 0.15e-9 * lanes) * reference_bytes_per_second,
               real_part_of(real) == Dtype::float64};
  Call& call = task.calls.emplace_back(Kernel::csr_multiply_transposed, real, std::initializer_list<TilePart>{});
  call.flops = flops;
  call.value = std::make_shared<StripeSum>(panels, stripe, length);
  graph.add(std::move(task));
}

}  // namespace flagstone::sparse
