#include "flagstone/kernel/along/scan.hpp"

#include <algorithm>
#include <array>

#include "flagstone/base/grid.hpp"
#include "flagstone/kernel/along/elements.hpp"

namespace flagstone::kernel {
namespace {

constexpr Index together = 8;  // rows that are gone along at once: each waits for its own last addition only

const std::byte* at(const Tile& tile, const Shape& place) {
  const std::byte* data = tile.data;
  for (std::size_t d = 0; d < place.size(); ++d) data += place[d] * tile.strides[d];
  return data;
}
std::byte* moved(const Tile& tile, const Shape& place) { return const_cast<std::byte*>(at(tile, place)); }

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void keep(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

/// Lanes side by side along dimension `lane`, from one place of the others on.
struct Lanes {
  const std::byte* from;
  std::byte *to, *carry;
  Index number;              // of lanes
  Index from_lane, to_lane;  // strides from one to the next
  Index carry_lane;
  Index from_step, to_step, have, want;  // along the axis: strides, extents
};

/// Rows of lanes that lie one beside the other: each step is a loop over them.
template <class T, class Op>
void side_by_side(const Lanes& l, bool initial, bool first) {
  for (Index k = 0; k < l.want; ++k) {
    const bool begins = first && k == 0;
    const std::byte* from = l.from + k * l.from_step;
    std::byte* to = l.to + k * l.to_step;
    const bool more = k < l.have;
    if (more && !initial && !begins && l.from_lane == sizeof(T) && l.to_lane == sizeof(T) &&
        l.carry_lane == sizeof(T)) {
      const T* x = reinterpret_cast<const T*>(from);
      T* __restrict y = reinterpret_cast<T*>(to);
      T* __restrict c = reinterpret_cast<T*>(l.carry);
      for (Index j = 0; j < l.number; ++j) y[j] = c[j] = Op::of(c[j], x[j]);
      continue;
    }
    for (Index j = 0; j < l.number; ++j) {
      std::byte* const carry = l.carry + j * l.carry_lane;
      T value = load<T>(carry);
      if (initial) keep(to + j * l.to_lane, value);
      if (more) value = begins ? load<T>(from + j * l.from_lane) : Op::of(value, load<T>(from + j * l.from_lane));
      if (!initial) keep(to + j * l.to_lane, value);
      keep(carry, value);
    }
  }
}

/// Lanes whose elements lie one after the other: several at a time.
template <class T, class Op, Index n>
void one_after_the_other(const Lanes& l, Index at, bool initial, bool first) {
  std::array<T, n> value;
  const std::byte* from = l.from + at * l.from_lane;
  std::byte* to = l.to + at * l.to_lane;
  for (Index j = 0; j < n; ++j) value[j] = load<T>(l.carry + (at + j) * l.carry_lane);
  for (Index k = 0; k < l.want; ++k, from += l.from_step, to += l.to_step)
    for (Index j = 0; j < n; ++j) {
      if (initial) keep(to + j * l.to_lane, value[j]);
      if (k < l.have) {
        const T x = load<T>(from + j * l.from_lane);
        value[j] = first && k == 0 ? x : Op::of(value[j], x);
      }
      if (!initial) keep(to + j * l.to_lane, value[j]);
    }
  for (Index j = 0; j < n; ++j) keep(l.carry + (at + j) * l.carry_lane, value[j]);
}

template <class T, class Op>
void scan_lanes(const Lanes& l, bool initial, bool beside, bool first) {
  if (beside) return side_by_side<T, Op>(l, initial, first);
  Index j = 0;
  for (; j + together <= l.number; j += together) one_after_the_other<T, Op, together>(l, j, initial, first);
  for (; j < l.number; ++j) one_after_the_other<T, Op, 1>(l, j, initial, first);
}

/// What nothing gives: the first element itself follows it, not 0 + that or 1 times that (-0, infinities of complex
/// ones).
template <class T, class Op>
void begin(const Tile& carry) {
  T nothing{};
  if constexpr (std::is_same_v<Op, Times>) {
    if constexpr (std::is_same_v<T, Half>)
      nothing = {0x3c00};
    else if constexpr (std::is_same_v<T, Truth>)
      nothing = {1};
    else
      nothing = T(1);
  }
  fill(carry, &nothing);
}

template <class T, class Op>
void scan_tile(const ScanOptions& options, const Tile& from, const Tile& to, const Tile& carry) {
  const std::size_t axis = options.axis, ndim = to.shape.size();
  if (options.first) begin<T, Op>(carry);
  // Lanes go along the last dimension, or along the one before where that is the axis.
  const std::size_t lane = axis + 1 < ndim || ndim == 1 ? ndim - 1 : ndim - 2;
  const bool single = ndim == 1;
  Shape extents = to.shape;
  extents[axis] = 1;
  if (!single) extents[lane] = 1;
  if (count(to.shape) == 0) return;
  Shape place(ndim, 0);
  do {
    const Lanes lanes{at(from, place),
                      moved(to, place),
                      moved(carry, place),
                      single ? 1 : to.shape[lane],
                      single ? 0 : from.strides[lane],
                      single ? 0 : to.strides[lane],
                      single ? 0 : carry.strides[lane],
                      from.strides[axis],
                      to.strides[axis],
                      from.shape[axis],
                      to.shape[axis]};
    scan_lanes<T, Op>(lanes, options.initial, axis + 1 < ndim, options.first);
  } while (advance(place, extents));
}

template <class T>
void differ(const Tile& a, const Tile& b, const Tile& to) {
  const std::size_t ndim = to.shape.size();
  if (count(to.shape) == 0) return;
  const Index run = to.shape[ndim - 1], sa = a.strides[ndim - 1], sb = b.strides[ndim - 1], st = to.strides[ndim - 1];
  Shape extents = to.shape, place(ndim, 0);
  extents[ndim - 1] = 1;
  do {
    const std::byte *x = at(a, place), *y = at(b, place);
    std::byte* z = moved(to, place);
    if (sa == sizeof(T) && sb == sizeof(T) && st == sizeof(T)) {
      const T *p = reinterpret_cast<const T*>(x), *q = reinterpret_cast<const T*>(y);
      T* r = reinterpret_cast<T*>(z);  // may be q itself, or run before it: not restricted
      for (Index j = 0; j < run; ++j) r[j] = Minus::of(p[j], q[j]);
    } else {
      for (Index j = 0; j < run; ++j) keep(z + j * st, Minus::of(load<T>(x + j * sa), load<T>(y + j * sb)));
    }
  } while (advance(place, extents));
}

/// The part of a tile from `first` on along an axis, `extent` long.
Tile slab(const Tile& tile, std::size_t axis, Index first, Index extent) {
  Tile part = tile;
  part.data += first * tile.strides[axis];
  part.shape[axis] = extent;
  return part;
}

}  // namespace

void scan(const ScanOptions& options, const Tile& from, const Tile& to, const Tile& carry) {
  visit_element_type(to.dtype, [&](auto sample) {
    using T = decltype(sample);
    options.scan == Scan::sum ? scan_tile<T, Plus>(options, from, to, carry)
                              : scan_tile<T, Times>(options, from, to, carry);
  });
}

std::size_t difference_work_bytes(int times, std::size_t axis, const Shape& shape, Dtype dtype) {
  if (times < 2) return 0;
  Shape all = shape;
  all[axis] += times;
  return static_cast<std::size_t>(count(all)) * size_of(dtype);
}

void difference(int times, std::size_t axis, const Tile& from, const Tile* next, const Tile& to, std::byte* work) {
  const auto with = [&](auto sample) {
    using T = decltype(sample);
    const Index extent = from.shape[axis], wanted = to.shape[axis];
    if (times == 1) {
      const Index inside = std::min(wanted, extent - 1);
      differ<T>(slab(from, axis, 1, inside), slab(from, axis, 0, inside), slab(to, axis, 0, inside));
      if (wanted > inside) differ<T>(slab(*next, axis, 0, 1), slab(from, axis, inside, 1), slab(to, axis, inside, 1));
      return;
    }
    // All that is needed, one after the other, and then less by one each time.
    Tile all{work, to.dtype, to.shape, {}, 0};
    all.shape[axis] = wanted + times;
    all.strides = c_strides(all.shape, size_of(to.dtype));
    const Index own = std::min(extent, all.shape[axis]);
    copy(slab(from, axis, 0, own), slab(all, axis, 0, own));
    if (own < all.shape[axis])
      copy(slab(*next, axis, 0, all.shape[axis] - own), slab(all, axis, own, all.shape[axis] - own));
    for (int t = 1; t <= times; ++t) {
      const Index left = wanted + times - t;
      // One row after the other, so that what is read is not overwritten before.
      for (Index k = 0; k < left; ++k)
        differ<T>(slab(all, axis, k + 1, 1), slab(all, axis, k, 1), slab(all, axis, k, 1));
    }
    copy(slab(all, axis, 0, wanted), to);
  };
  visit_element_type(to.dtype, with);
}

}  // namespace flagstone::kernel
