#include "flagstone/algorithms/sparse/stripe_sums.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flagstone/algorithms/sparse/panel_task.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/sparse/split_rows.hpp"

namespace flagstone::sparse {
namespace {

// Bytes of all sums in T's precision. Where T is made in the same read, the alternative passes once over values that
// are in the nearest cache, and sums of up to about 8 MiB lie in a third-level one.
constexpr std::uint64_t few_sums = 2 * MiB, few_sums_made = 12 * MiB;

/// Tiles: of each panel its values, its rows of T, and 1ᵀT where columns are shifted; mu's stripe then; Z's; scratch.
class StripeSum final : public PanelWork {
 public:
  StripeSum(const std::vector<SplitRegion>& panels, const StripedSums& sums, Index stripe)
      : stripe_(stripe),
        length_(sums.stripes.length(stripe)),
        shifted_(sums.shift.has_value()),
        conjugated_(sums.conjugated) {
    for (const SplitRegion& one : panels) panels_.push_back(one.panel);
  }
  /// The sums of a panel, and which of them are no longer zero.
  static std::size_t scratch_bytes(Index length, Index width, Dtype real) {
    const std::size_t sums = static_cast<std::size_t>(length) * static_cast<std::size_t>(width) * size_of(real);
    return align_up(sums, sizeof(Index)) + static_cast<std::size_t>(length) * (sizeof(Index) + 1);
  }
  void run(const Call& call, std::span<const Tile> tiles) const override;

 private:
  void add_some(const SplitPanel& panel, const Tile& values, const Tile& t, const Tile& partial, const Tile& z) const;

  std::vector<std::shared_ptr<const SplitPanel>> panels_;
  Index stripe_, length_;
  bool shifted_, conjugated_;
};

/// Without the columns that only fill a register.
Tile columns_of(const Tile& partial, const Tile& z) { return subtile(partial, {{0, 0}, z.shape}); }

void StripeSum::run(const Call& call, std::span<const Tile> tiles) const {
  const Tile& z = tiles[tiles.size() - 2];
  const double* mu = shifted_ ? tiles[tiles.size() - 3].as<const double>() : nullptr;
  const std::size_t each = shifted_ ? 3 : 2;  // tiles of a panel
  const Index width = tiles[1].shape[1], item = static_cast<Index>(size_of(call.dtype));
  const Tile partial{tiles.back().data,
                     call.dtype,
                     {length_, width},
                     {width * item, item},
                     static_cast<std::size_t>(length_ * width * item)};
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    const Tile &values = tiles[each * i], &t = tiles[each * i + 1];
    const double* sums = shifted_ ? tiles[each * i + 2].as<const double>() : nullptr;
    Index count = 0;
    panels_[i]->each(values.data, stripe_, [&](const kernel::CsrRecords& records) { count += records.count; });
    if (!shifted_ && count < length_ / 2) {
      add_some(*panels_[i], values, t, partial, z);
      continue;
    }
    std::memset(partial.data, 0, partial.bytes);
    panels_[i]->each(values.data, stripe_,
                     [&](const kernel::CsrRecords& records) { kernel::csr_scatter(records, t, partial, conjugated_); });
    kernel::shift_merge(columns_of(partial, z), mu, sums, z);
  }
}

/// Where a panel has values in some of the columns alone, only their sums are begun and added. Same bits: z + 0 is z.
void StripeSum::add_some(const SplitPanel& panel, const Tile& values, const Tile& t, const Tile& partial,
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
    kernel::csr_scatter(records, t, partial, conjugated_);
  });
  for (Index i = 0; i < number; ++i) {
    const Box row{{found[i], 0}, {1, z.shape[1]}};
    kernel::shift_merge(subtile(partial, row), nullptr, nullptr, subtile(z, row));
  }
}

/// Z[stripe] += A_iᵀ T_i for each of the panels in turn. `ends`: no stripe follows, the panels are done with.
void add_stripe_sum(Graph& graph, const std::vector<SplitRegion>& panels, const StripedSums& sums, Index stripe,
                    bool ends) {
  TaskSpec task;
  task.name = "csr_stripe_sum";
  const auto reads = [&](const Region& region, bool temporary) {
    task.accesses.push_back(ends && temporary ? last(read(region)) : read(region));
  };
  double values = 0;
  for (const SplitRegion& one : panels) {
    reads(one.values, true);
    reads(one.t, one.temporary);
    if (sums.shift) reads(one.sums, true);
    values += static_cast<double>(one.panel->reader().nnz());
  }
  const Dtype real = panels.front().panel->reader().real();
  const Stripes& stripes = sums.stripes;
  const Index length = stripes.length(stripe), width = panels.front().t.box.shape[1];
  if (sums.shift) task.accesses.push_back(read({*sums.shift, {{0, stripes.first(stripe)}, {1, length}}}));
  task.accesses.push_back(again(update(sums.of(stripe))));
  task.accesses.push_back(scratch(StripeSum::scratch_bytes(length, width, real)));
  values *= static_cast<double>(length) / static_cast<double>(std::max<Index>(1, stripes.cols));
  const double lanes = static_cast<double>(width) * static_cast<double>(size_of(real)) / 4;
  const double flops = (is_complex(real) ? 8 : 2) * values * static_cast<double>(width);
  task.cost = {flops, values * (1e-9 + 0.15e-9 * lanes) * reference_bytes_per_second,
               real_part_of(real) == Dtype::float64};
  Call& call = task.calls.emplace_back(Kernel::csr_multiply_transposed, real, std::initializer_list<TilePart>{});
  call.flops = flops;
  call.value = std::make_shared<StripeSum>(panels, sums, stripe);
  graph.add(std::move(task));
}

}  // namespace

bool sums_in_order(Index cols, Index width, Dtype real, bool made) {
  const auto bytes = static_cast<std::uint64_t>(cols) * static_cast<std::uint64_t>(width) * size_of(real);
  return bytes > (made ? few_sums_made : few_sums);
}

bool sums_by_stripes(const Graph& graph, const CsrOperand& a) {
  const auto fits = [](const CsrPanelRange& panel) { return panel.row_end - panel.row <= kernel::most_split_rows; };
  return graph.device_budget() == 0 && std::ranges::all_of(a.panels, fits);
}

std::size_t panels_together(const Graph& graph, double each, double beside) {
  const double room = 0.6 * static_cast<double>(graph.budget()) - beside;
  return static_cast<std::size_t>(std::clamp(room / (2 * each), 1.0, 8.0));
}

void add_stripe_sums(Graph& graph, const CsrOperand& a, const StripedSums& sums, std::size_t group,
                     const std::function<SplitRegion(const CsrPanelRange&)>& split) {
  const Index stripes = sums.stripes.number();
  graph.look_ahead(2 * (static_cast<std::size_t>(stripes) + 4 * group) + 64);
  const auto group_from = [&](std::size_t first) {
    std::vector<SplitRegion> made;
    for (std::size_t i = first; i < std::min(first + group, a.panels.size()); ++i) made.push_back(split(a.panels[i]));
    return made;
  };
  std::vector<SplitRegion> now = group_from(0), next;
  for (std::size_t first = 0; first < a.panels.size(); first += group, now = std::move(next)) {
    next = group_from(first + group);  // workers without a stripe sort meanwhile
    for (Index s = 0; s < stripes; ++s) add_stripe_sum(graph, now, sums, s, s + 1 == stripes);
  }
}

}  // namespace flagstone::sparse
