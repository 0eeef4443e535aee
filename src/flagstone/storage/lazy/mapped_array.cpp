#include "flagstone/storage/lazy/mapped_array.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/lazy/gather.hpp"
#include "flagstone/storage/lazy/lazy_store.hpp"

namespace flagstone {
namespace {

using Kind = AxisMap::Kind;

/// `extent` indexes of the result from `to` on, `apart` from each other, are those of a member from `from` on, each
/// `step` further.
struct Run {
  Index to = 0, extent = 0;
  Index from = 0, step = 1;
  std::size_t member = 0;
  Index apart = 1;

  Index low() const { return step < 0 ? from - extent + 1 : from; }
  Index high() const { return step > 0 ? from + extent : from + 1; }
};

/// Indexes of one member that are read together.
struct Interval {
  std::size_t member = 0;
  Index low = 0, high = 0;
};

/// What one dimension of a box takes.
struct AxisPart {
  std::vector<Run> runs;
  std::vector<std::size_t> interval_of;  // of every run
  std::vector<Interval> intervals;       // in increasing order, none touching
};

class MappedStore final : public LazyStore {
 public:
  MappedStore(std::vector<Array> members, std::vector<AxisMap> axes)
      : LazyStore(members, members.front().dtype()), axes_(std::move(axes)) {
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      shape_.push_back(extent_of(axes_[d]));
      if (axes_[d].kind == Kind::join) joined_ = static_cast<int>(d);
    }
    unpacks_ = unpack_bytes() > 0;
    for (const Array& member : operands_) {
      starts_.push_back(total_);
      if (joined_ >= 0) total_ += member.shape()[source_of(joined_)];
    }
  }

  const Shape& shape() const { return shape_; }

  /// Those of the largest member that is read by chunks, as its dimensions are seen; the whole shape where all are
  /// flat.
  Shape chunks() const {
    const Array* lead = nullptr;
    for (const Array& member : operands_)
      if (!is_flat(member) && !member.in_memory() && (!lead || member.nbytes() > lead->nbytes())) lead = &member;
    if (!lead) return shape_;
    const Shape plain = default_chunks(shape_, lead->dtype());
    Shape chunks = shape_;
    for (std::size_t d = 0; d < chunks.size(); ++d) {
      const AxisMap& axis = axes_[d];
      if (axis.source < 0)
        chunks[d] = joined_ == static_cast<int>(d) ? 1 : plain[d];
      else if (axis.kind == Kind::stretch)
        chunks[d] = plain[d];
      else
        chunks[d] =
            lead->chunks()[static_cast<std::size_t>(axis.source)] * (axis.kind == Kind::repeat ? axis.amount : 1);
      chunks[d] = std::min(std::max<Index>(1, chunks[d]), shape_[d]);
    }
    return chunks;
  }

  Transfer read(const Box& box) const override {
    check_box(shape_, box);
    if (count(box.shape) == 0) return dense_geometry(box.shape, item_, false);
    std::vector<AxisPart> parts;
    bool straight = true;
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      AxisPart& part = parts.emplace_back(part_of(d, box.start[d], box.shape[d]));
      straight =
          straight && part.runs.size() == 1 && part.runs[0].apart == 1 && (part.runs[0].step == 1 || box.shape[d] == 1);
    }
    if (!straight) return read_together(parts, box);
    Transfer transfer = read_straight_through(parts, box);
    // Of a store that says that it unpacks, all that arrives goes to staging.
    const bool through = unpacks_ && transfer.staging_bytes == 0 && !transfer.segments.empty();
    return through ? read_together(parts, box) : transfer;
  }

  std::size_t run_bytes(const Shape& box) const override {
    std::size_t least = ~std::size_t{0};
    for (const Array& member : operands_) {
      Shape own(member.ndim(), 1);
      bool empty = false;
      for (std::size_t d = 0; d < axes_.size(); ++d) {
        if (axes_[d].source < 0) continue;
        const auto source = static_cast<std::size_t>(axes_[d].source);
        const Index extent = axes_[d].kind == Kind::repeat ? ceil_div(box[d], axes_[d].amount) : box[d];
        own[source] = std::min(extent, member.shape()[source]);
        empty = empty || own[source] == 0;
      }
      if (empty) continue;
      least = std::min(least, member.in_memory() ? static_cast<std::size_t>(c_run(member.shape(), own)) * item_
                                                 : member.store().run_bytes(own));
    }
    return least == ~std::size_t{0} ? item_ : least;
  }

 private:
  std::size_t source_of(int d) const { return static_cast<std::size_t>(axes_[static_cast<std::size_t>(d)].source); }

  Index extent_of(const AxisMap& axis) const {
    const auto own = [&](const Array& member) {
      return axis.source < 0 ? Index{1} : member.shape()[static_cast<std::size_t>(axis.source)];
    };
    const Index n = own(operands_.front());
    switch (axis.kind) {
      case Kind::repeat:
      case Kind::tile:
        return n * axis.amount;
      case Kind::stretch:
        return axis.amount;
      case Kind::select:
        return 1;
      case Kind::join: {
        Index sum = 0;
        for (const Array& member : operands_) sum += own(member);
        return sum;
      }
      default:
        return n;
    }
  }

  /// i / times: parts of an element at both ends; between them whole ones, as a run for each element or for each of its
  /// `times` places, whichever is fewer.
  static std::vector<Run> repeated(Index start, Index end, Index times) {
    const Index first = ceil_div(start, times), last = end / times;  // of whole elements
    if (last - first <= times) {
      std::vector<Run> runs;
      for (Index at = start; at < end;) {
        const Index next = std::min(end, (at / times + 1) * times);
        runs.push_back({at, next - at, at / times, 0});
        at = next;
      }
      return runs;
    }
    std::vector<Run> runs;
    if (first * times > start) runs.push_back({start, first * times - start, start / times, 0});
    for (Index place = 0; place < times; ++place)
      runs.push_back({.to = first * times + place, .extent = last - first, .from = first, .step = 1, .apart = times});
    if (last * times < end) runs.push_back({last * times, end - last * times, last, 0});
    return runs;
  }

  /// i mod n: a run for each time that all n come, or for each of the n, whichever is fewer.
  static std::vector<Run> tiled(Index start, Index end, Index n) {
    std::vector<Run> runs;
    if ((end - start) / n <= n) {
      for (Index at = start; at < end;) {
        const Index next = std::min(end, (at / n + 1) * n);
        runs.push_back({at, next - at, at % n, 1});
        at = next;
      }
      return runs;
    }
    for (Index at = start; at < start + n; ++at)
      runs.push_back({.to = at, .extent = ceil_div(end - at, n), .from = at % n, .step = 0, .apart = n});
    return runs;
  }

  std::vector<Run> runs_of(std::size_t d, Index start, Index extent) const {
    const AxisMap& axis = axes_[d];
    const Index end = start + extent;
    const Index n = axis.source < 0 ? 1 : operands_.front().shape()[static_cast<std::size_t>(axis.source)];
    std::vector<Run> runs;
    switch (axis.kind) {
      case Kind::same:
        return {{start, extent, start, 1}};
      case Kind::flip:
        return {{start, extent, n - 1 - start, -1}};
      case Kind::stretch:
        return {{start, extent, 0, 0}};
      case Kind::select:
        return {{start, extent, axis.amount, 1}};
      case Kind::roll: {
        const Index shift = ((axis.amount % n) + n) % n;  // result [0, shift) is the end of the source
        if (start < shift) runs.push_back({start, std::min(end, shift) - start, start - shift + n, 1});
        if (end > shift) {
          const Index first = std::max(start, shift);
          runs.push_back({first, end - first, first - shift, 1});
        }
        return runs;
      }
      case Kind::repeat:
        return repeated(start, end, axis.amount);
      case Kind::tile:
        return tiled(start, end, n);
      case Kind::join:
        break;
    }
    if (axis.source < 0) {  // a dimension of the members' own: each is one index
      for (Index at = start; at < end; ++at) runs.push_back({at, 1, 0, 1, static_cast<std::size_t>(at)});
      return runs;
    }
    auto member =
        static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), start) - starts_.begin() - 1);
    for (Index at = start; at < end; ++member) {
      const Index stop = std::min(end, member + 1 < starts_.size() ? starts_[member + 1] : total_);
      if (stop > at) runs.push_back({at, stop - at, at - starts_[member], 1, member});
      at = std::max(at, stop);
    }
    return runs;
  }

  AxisPart part_of(std::size_t d, Index start, Index extent) const {
    AxisPart part;
    part.runs = runs_of(d, start, extent);
    std::vector<std::size_t> order(part.runs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(part.runs[a].member, part.runs[a].low()) < std::pair(part.runs[b].member, part.runs[b].low());
    });
    part.interval_of.resize(order.size());
    for (const std::size_t i : order) {
      const Run& run = part.runs[i];
      if (part.intervals.empty() || part.intervals.back().member != run.member ||
          part.intervals.back().high < run.low())
        part.intervals.push_back({run.member, run.low(), run.high()});
      part.intervals.back().high = std::max(part.intervals.back().high, run.high());
      part.interval_of[i] = part.intervals.size() - 1;
    }
    return part;
  }

  /// The box of a member that one interval of each dimension is.
  Box source_box(const Array& member, const std::vector<AxisPart>& parts, const Shape& intervals) const {
    Box box{Shape(member.ndim(), 0), Shape(member.ndim(), 1)};
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      if (axes_[d].source < 0) continue;
      const Interval& interval = parts[d].intervals[static_cast<std::size_t>(intervals[d])];
      const auto source = static_cast<std::size_t>(axes_[d].source);
      box.start[source] = interval.low, box.shape[source] = interval.high - interval.low;
    }
    return box;
  }

  std::size_t member_of(const std::vector<AxisPart>& parts, const Shape& intervals) const {
    if (joined_ < 0) return 0;
    const auto d = static_cast<std::size_t>(joined_);
    return parts[d].intervals[static_cast<std::size_t>(intervals[d])].member;
  }

  /// As the member's own transfer: its tile seen with other dimensions.
  Transfer read_straight_through(const std::vector<AxisPart>& parts, const Box& box) const {
    const Shape first(axes_.size(), 0);
    const Array& member = operands_[member_of(parts, first)];
    Transfer transfer = member.store().read(source_box(member, parts, first));
    const Shape own = std::exchange(transfer.strides, Shape(axes_.size()));
    Index dense = static_cast<Index>(item_);  // of dimensions of one element that the member has not
    for (std::size_t d = axes_.size(); d-- > 0;) {
      transfer.strides[d] = axes_[d].source < 0 ? dense : own[static_cast<std::size_t>(axes_[d].source)];
      dense = std::max(dense, transfer.strides[d] * box.shape[d]);
    }
    return transfer;
  }

  Transfer read_together(const std::vector<AxisPart>& parts, const Box& box) const {
    Gather gather;
    Shape intervals, runs;
    for (const AxisPart& part : parts) {
      intervals.push_back(static_cast<Index>(part.intervals.size()));
      runs.push_back(static_cast<Index>(part.runs.size()));
    }
    const Shape strides = c_strides(intervals, 1);
    Shape at(axes_.size(), 0);
    do {
      const Array& member = operands_[member_of(parts, at)];
      gather.add(member, source_box(member, parts, at));
    } while (advance(at, intervals));
    Transfer geometry = dense_geometry(box.shape, item_, false);
    const Tile result{nullptr, operands_.front().dtype(), box.shape, geometry.strides, geometry.tile_bytes};
    return std::move(gather).finish(
        std::move(geometry), 0,
        [parts, runs, strides, result, start = box.start, axes = axes_](std::span<const Tile> read, std::byte* buffer,
                                                                        std::byte*) {
          Shape at(axes.size(), 0);
          do {
            std::size_t which = 0;
            Tile to = result;
            to.data = buffer;
            for (std::size_t d = 0; d < axes.size(); ++d)
              which += parts[d].interval_of[static_cast<std::size_t>(at[d])] * static_cast<std::size_t>(strides[d]);
            Tile from = read[which];
            const Shape own = std::exchange(from.strides, Shape(axes.size(), 0));
            for (std::size_t d = 0; d < axes.size(); ++d) {
              const Run& run = parts[d].runs[static_cast<std::size_t>(at[d])];
              to.shape[d] = run.extent;
              to.data += (run.to - start[d]) * to.strides[d];
              to.strides[d] *= run.apart;
              if (axes[d].source < 0) continue;
              const Index stride = own[static_cast<std::size_t>(axes[d].source)];
              const Interval& interval = parts[d].intervals[parts[d].interval_of[static_cast<std::size_t>(at[d])]];
              from.data += (run.from - interval.low) * stride;
              from.strides[d] = run.step * stride;
            }
            from.shape = to.shape;
            copy(from, to);
          } while (advance(at, runs));
        });
  }

  const std::vector<AxisMap> axes_;
  Shape shape_;
  bool unpacks_ = false;
  int joined_ = -1;  // dimension of the result
  Shape starts_;     // of the members along it
  Index total_ = 0;
};

[[noreturn]] void refuse(const std::string& why) { throw ShapeError("mapped array: " + why); }

void check(const std::vector<Array>& members, const std::vector<AxisMap>& axes) {
  if (members.empty()) refuse("there are no members; give at least one.");
  const Array& first = members.front();
  std::vector<int> named(first.ndim(), 0);
  int joined = -2;
  for (const AxisMap& axis : axes) {
    if (axis.source >= static_cast<int>(first.ndim())) refuse("an axis names a dimension that the members have not.");
    if (axis.source >= 0) ++named[static_cast<std::size_t>(axis.source)];
    if (axis.kind == Kind::join && std::exchange(joined, axis.source) != -2)
      refuse("two dimensions are joined; join them one after the other.");
    if (axis.source < 0 && axis.kind != Kind::join && axis.kind != Kind::stretch)
      refuse("a new dimension is stretched or joined, nothing else.");
    if ((axis.kind == Kind::repeat && axis.amount < 1) || axis.amount < (axis.kind == Kind::roll ? axis.amount : 0))
      refuse("an extent is negative.");
  }
  if (joined == -2 && members.size() > 1) refuse("there are several members and no dimension joins them.");
  for (const Array& member : members) {
    if (member.dtype() != first.dtype() || member.ndim() != first.ndim())
      refuse("members of " + std::string(name_of(first.dtype())) + " and " + std::string(name_of(member.dtype())) +
             " or of other dimensions are joined; convert them first.");
    for (std::size_t d = 0; d < named.size(); ++d) {
      if (static_cast<int>(d) != joined && member.shape()[d] != first.shape()[d])
        refuse("members of " + to_string(first.shape()) + " and " + to_string(member.shape()) + " are joined; " +
               "extents must agree in all other dimensions.");
      if (named[d] > 1 || (named[d] == 0 && member.shape()[d] != 1))
        refuse("each dimension of the members is named once; one that is not has one index.");
    }
  }
  for (const AxisMap& axis : axes)
    if (axis.kind == Kind::select &&
        (axis.amount < 0 || axis.amount >= first.shape()[static_cast<std::size_t>(axis.source)]))
      refuse("an index lies outside of its dimension.");
  for (const AxisMap& axis : axes)
    if (axis.kind == Kind::stretch && axis.source >= 0 && first.shape()[static_cast<std::size_t>(axis.source)] != 1)
      refuse("only a dimension of one index is stretched.");
}

}  // namespace

Array mapped_array(std::vector<Array> members, const std::vector<AxisMap>& axes) {
  check(members, axes);
  const Dtype dtype = members.front().dtype();
  auto store = std::make_shared<MappedStore>(std::move(members), axes);
  const Shape shape = store->shape(), chunks = store->chunks();
  return Array(shape, dtype, chunks, std::move(store));
}

}  // namespace flagstone
