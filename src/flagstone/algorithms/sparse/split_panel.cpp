#include "flagstone/algorithms/sparse/split_panel.hpp"

#include <cstring>
#include <utility>

#include "flagstone/algorithms/sparse/panel_task.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/sparse/split_rows.hpp"

namespace flagstone::sparse {
namespace {

constexpr std::size_t cached_sums = std::size_t{1} << 20;  // bytes
constexpr int widest_shift = 16, narrowest_shift = 6;      // columns of a stripe are uint16
constexpr Index stripes_a_worker = 4;                      // chains of sums that may run at a time

// Seconds a value, measured beside another worker; of the product, and for each float32 column of it.
constexpr double split_seconds = 3e-9, product_seconds = 0.4e-9, column_seconds = 0.019e-9;

/// sums += 1ᵀT, of the rows of one stretch: added up alone first, as the row loops do (csr_gram).
void add_rows_of(const Tile& t, double* sums) {
  visit_blas_type(t.dtype, [&](auto sample) {
    if constexpr (std::is_floating_point_v<decltype(sample)>) {
      std::vector<double> of_these(static_cast<std::size_t>(t.shape[1]));
      for (Index i = 0; i < t.shape[0]; ++i) {
        const auto* row = reinterpret_cast<const decltype(sample)*>(t.data + i * t.strides[0]);
        for (std::size_t k = 0; k < of_these.size(); ++k) of_these[k] += static_cast<double>(row[k]);
      }
      for (std::size_t k = 0; k < of_these.size(); ++k) sums[k] += of_these[k];
    }
  });
}

class SplitTask final : public PanelWork {
 public:
  SplitTask(std::shared_ptr<const SplitPanel> panel, const SplitWork& work, TaskSpec& task, SplitRegion& made);
  void run(const Call&, std::span<const Tile> tiles) const override;

 private:
  /// Tiles by their number among the task's; -1: there is none.
  struct Places {
    int values = -1, x = -1, t = -1, shift = -1, sums = -1, kept = -1, moments = -1;
  };

  std::shared_ptr<const SplitPanel> panel_;
  Places at_;
  bool ordered_;
};

SplitTask::SplitTask(std::shared_ptr<const SplitPanel> panel, const SplitWork& work, TaskSpec& task, SplitRegion& made)
    : panel_(std::move(panel)), ordered_(work.ordered) {
  const auto add = [&](int& place, const Access& access) {
    if (!access.region.array) return;
    place = static_cast<int>(task.accesses.size());
    task.accesses.push_back(access);
  };
  add(at_.values, again(write(made.values)));
  add(at_.x, work.x);
  if (work.x.region.array)
    add(at_.t, again(write(made.t)));
  else if (work.shift)
    add(at_.t, read(made.t));
  if (work.shift) add(at_.shift, read({*work.shift, whole(work.shift->shape())}));
  if (work.shift) add(at_.sums, again(write(made.sums)));
  add(at_.kept, work.kept);
  add(at_.moments, work.moments);
  const std::size_t row = work.shift ? static_cast<std::size_t>(made.t.box.shape[1]) * sizeof(double) : 0;
  task.accesses.push_back(scratch(align_up(row, 64) + panel_->reader().scratch_bytes()));
}

void SplitTask::run(const Call&, std::span<const Tile> tiles) const {
  const auto tile = [&](int place) { return place < 0 ? Tile{} : tiles[static_cast<std::size_t>(place)]; };
  const Tile x = tile(at_.x), t = tile(at_.t), sums = tile(at_.sums), moments = tile(at_.moments);
  std::byte* memory = tiles.back().data;
  double* shift_row = nullptr;
  if (sums.data) {
    const Index width = t.shape[1];
    std::memset(sums.data, 0, sums.bytes);
    shift_row = reinterpret_cast<double*>(memory);
    memory += align_up(static_cast<std::size_t>(width) * sizeof(double), 64);
    if (x.data) kernel::shift_row(tile(at_.shift).as<const double>(), x, shift_row);
  }
  panel_->fill(tiles, memory, tile(at_.values).data, [&](Index row, const kernel::CsrRows& rows) {
    if (moments.data) kernel::csr_moments(rows, panel_->reader().real(), moments.as<double>());
    if (!t.data) return;
    const Tile part = subtile(t, {{row, 0}, {rows.rows, t.shape[1]}});
    if (x.data && ordered_) kernel::csr_multiply_ordered(rows, x, false, part);
    if (x.data && !ordered_) kernel::csr_multiply(rows, x, shift_row, part);
    if (sums.data) add_rows_of(part, sums.as<double>());
  });
  if (at_.kept < 0) return;
  const Box those{{0, 0}, {panel_->reader().rows(), tile(at_.kept).shape[1]}};
  const Tile from = subtile(t, those), to = subtile(tile(at_.kept), those);
  if (is_complex(from.dtype))
    copy(from, to);
  else
    kernel::convert(from, nullptr, to);
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

void SplitPanel::fill(std::span<const Tile> tiles, std::byte* scratch, std::byte* to,
                      const std::function<void(Index, const kernel::CsrRows&)>& beside) const {
  auto* stretches = reinterpret_cast<Index*>(to);
  Index *ends = stretches + 1, held = 0;
  *stretches = 0;
  const auto number = static_cast<std::size_t>(stripes_.number());
  reader_.stream(tiles, scratch, [&](Index row, const kernel::CsrRows& rows) {
    ends[0] = held;
    kernel::split_rows(rows, size_of(reader_.real()), row, stripes_.shift, {ends, number + 1}, to + records_);
    held = ends[number];
    ends += number + 1, ++*stretches;
    beside(row, rows);
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

SplitRegion add_split(Graph& graph, const CsrOperand& a, const CsrPanelRange& panel, Dtype real, const Stripes& stripes,
                      const SplitWork& work) {
  TaskSpec task;
  task.name = work.x.region.array ? "csr_multiply_split" : "csr_split";
  const auto split = std::make_shared<SplitPanel>(a, panel, real, stripes);
  const PanelReader& reader = split->reader();
  split->access(task.accesses);
  const auto tile = [&](const Shape& shape, Dtype dtype) -> Region {
    return {graph.temporary(shape, dtype, shape), whole(shape)};
  };
  SplitRegion made{split, tile({static_cast<Index>(split->bytes())}, Dtype::uint8), work.given};
  if (work.x.region.array) {
    made.t = tile({std::max<Index>(1, reader.rows()), work.x.region.box.shape[1]}, real), made.temporary = true;
  }
  if (work.shift) made.sums = tile({1, made.t.box.shape[1]}, Dtype::float64);
  const auto value = std::make_shared<SplitTask>(split, work, task, made);
  const double values = static_cast<double>(reader.stored_values());
  double seconds = reader.convert_seconds() + split_seconds * values;
  if (made.temporary) {
    const auto width = static_cast<double>(made.t.box.shape[1]);
    seconds += values * (product_seconds + column_seconds * width * static_cast<double>(size_of(real)) / 4);
    task.cost.flops = (is_complex(real) ? 8 : 2) * static_cast<double>(reader.nnz()) * width;
    task.cost.float64 = real_part_of(real) == Dtype::float64;
  }
  if (work.moments.region.array) seconds += 1e-9 * values;
  task.cost.bytes_touched = seconds * reference_bytes_per_second;
  task.cost.bytes_decoded = reader.decoded_bytes();
  Call& call = task.calls.emplace_back(Kernel::csr_unpack, real, std::initializer_list<TilePart>{});
  call.flops = task.cost.flops;
  call.value = value;
  graph.add(std::move(task));
  return made;
}

}  // namespace flagstone::sparse
