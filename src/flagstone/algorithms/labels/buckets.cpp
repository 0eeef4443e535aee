#include "flagstone/algorithms/labels/buckets.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::labels {
namespace {

/// Where the parts of a bucket begin.
struct Parts {
  explicit Parts(const BucketSize& size) {
    const auto take = [this](Index n, std::size_t item) {
      const std::size_t at = bytes;
      bytes += align_up(static_cast<std::size_t>(n) * item, 64);
      return at;
    };
    filled = take(3, 8), pointers = take(size.rows + 1, 8), columns = take(size.values, 4);
    numbers = take(size.values, 4), key_pointers = take(size.rows + 1, 8), keys = take(size.keys, 4);
  }
  std::size_t bytes = 0, filled, pointers, columns, numbers, key_pointers, keys;
};

template <class T>
T* part(const Tile& tile, std::size_t at) {
  return reinterpret_cast<T*>(tile.data + at);
}

struct Filling final : CallValue {
  std::unique_ptr<RowReader> from;
  std::string who;
  std::shared_ptr<const BucketMaps> maps;
  std::vector<BucketSize> sizes;
  std::size_t first_tile = 0;
  bool begins = false;
};

void run_filling(const Call& call, std::span<const Tile> tiles) {
  const auto& value = call.value_as<Filling>();
  const auto bucket = [&](std::size_t b) { return BucketWriter(tiles[value.first_tile + b], value.sizes[b]); };
  if (value.begins)
    for (std::size_t b = 0; b < value.sizes.size(); ++b) bucket(b).begin();
  std::vector<std::int32_t> found;
  value.from->each(tiles, tiles.back().data, [&](const JoinedRow& row) {
    found.clear();
    for (const auto& map : *value.maps)
      for (Index k = 0; k < row.keys; ++k)
        if (const std::int32_t b = map[static_cast<std::size_t>(row.labels[k])]; b >= 0) found.push_back(b);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    for (const std::int32_t b : found)
      if (!bucket(static_cast<std::size_t>(b)).append(row))
        throw Error(value.who + ": X or Y changed while it was read; make the call again.");
  });
}

const bool entered = host_kernels().enter(Kernel::fill_buckets, run_filling);

class BucketReader final : public RowReader {
 public:
  BucketReader(const Array& bucket, const BucketSize& size) : bucket_(bucket), size_(size) {}
  void access(std::vector<Access>& accesses) override {
    tile_ = accesses.size();
    accesses.push_back(again(read({bucket_, whole(bucket_.shape())})));
  }
  std::size_t scratch_bytes() const override { return 64; }
  Cost cost() const override { return seconds_of(value_seconds * static_cast<double>(size_.values + size_.keys)); }
  void each(std::span<const Tile> tiles, std::byte*, const Use& use) const override {
    const BucketView view = bucket_view(tiles[tile_], size_);
    for (Index i = 0; i < view.rows; ++i) {
      JoinedRow row;
      row.row = i;
      row.values = view.points.pointers[i + 1] - view.points.pointers[i];
      row.columns = reinterpret_cast<const std::byte*>(view.points.columns + view.points.pointers[i]);
      row.numbers = view.points.values + view.points.pointers[i];
      row.keys = view.key_pointers[i + 1] - view.key_pointers[i];
      row.labels = view.keys + view.key_pointers[i];
      use(row);
    }
  }

 private:
  Array bucket_;
  BucketSize size_;
  std::size_t tile_ = 0;
};

}  // namespace

std::size_t BucketSize::bytes() const { return Parts(*this).bytes; }

void BucketWriter::begin() const {
  const Parts at(size_);
  std::fill_n(part<Index>(tile_, at.filled), 3, Index{0});
  *part<Index>(tile_, at.pointers) = *part<Index>(tile_, at.key_pointers) = 0;
}

bool BucketWriter::append(const JoinedRow& row) const {
  const Parts at(size_);
  auto* filled = part<Index>(tile_, at.filled);
  if (filled[0] + 1 > size_.rows || filled[1] + row.values > size_.values || filled[2] + row.keys > size_.keys)
    return false;
  auto* columns = part<std::uint32_t>(tile_, at.columns) + filled[1];
  auto* numbers = part<float>(tile_, at.numbers) + filled[1];
  row.each([&](std::uint32_t column, float value) { *columns++ = column, *numbers++ = value; });
  std::copy_n(row.labels, row.keys, part<std::int32_t>(tile_, at.keys) + filled[2]);
  filled[0] += 1, filled[1] += row.values, filled[2] += row.keys;
  part<Index>(tile_, at.pointers)[filled[0]] = filled[1];
  part<Index>(tile_, at.key_pointers)[filled[0]] = filled[2];
  return true;
}

BucketView bucket_view(const Tile& tile, const BucketSize& size) {
  const Parts at(size);
  const Index rows = part<Index>(tile, at.filled)[0];
  return {rows,
          {rows, part<Index>(tile, at.pointers), part<std::uint32_t>(tile, at.columns), part<float>(tile, at.numbers)},
          part<Index>(tile, at.key_pointers),
          part<std::int32_t>(tile, at.keys)};
}

std::unique_ptr<RowReader> BucketRows::piece(std::size_t number) const {
  return std::make_unique<BucketReader>(buckets_[number], sizes_[number]);
}

std::size_t at_a_time(const Graph& graph, std::span<const BucketSize> sizes) {
  const double room = 0.4 * static_cast<double>(graph.budget());
  double held = 0;
  std::size_t n = 0;
  for (; n < sizes.size() && (n == 0 || held + static_cast<double>(sizes[n].bytes()) <= room); ++n)
    held += static_cast<double>(sizes[n].bytes());
  return n;
}

std::vector<Array> fill_buckets(Graph& graph, const RowSource& rows, const std::vector<BucketSize>& sizes,
                                const std::shared_ptr<const BucketMaps>& maps, const std::string& who) {
  std::vector<Array> buckets;
  for (const BucketSize& size : sizes) {
    const Shape shape{static_cast<Index>(size.bytes())};
    buckets.push_back(graph.temporary(shape, Dtype::uint8, shape));
  }
  for (std::size_t p = 0; p < rows.pieces(); ++p) {
    TaskSpec task;
    task.name = "fill_buckets";
    auto value = std::make_shared<Filling>();
    value->from = rows.piece(p), value->who = who;
    value->from->access(task.accesses);
    value->maps = maps, value->sizes = sizes, value->begins = p == 0, value->first_tile = task.accesses.size();
    for (const Array& bucket : buckets) {
      const Region region{bucket, whole(bucket.shape())};
      task.accesses.push_back(again(p == 0 ? write(region) : update(region)));
    }
    task.accesses.push_back(scratch(value->from->scratch_bytes()));
    task.cost = value->from->cost();
    task.calls = {Call(Kernel::fill_buckets, Dtype::uint8, {TilePart{0}})};
    task.calls[0].value = value;
    graph.add(std::move(task));
  }
  return buckets;
}

}  // namespace flagstone::labels
