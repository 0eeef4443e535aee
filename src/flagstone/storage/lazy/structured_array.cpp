#include "flagstone/storage/lazy/structured_array.hpp"

#include <algorithm>
#include <complex>
#include <cstring>
#include <optional>
#include <type_traits>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/lazy/gather.hpp"
#include "flagstone/storage/lazy/lazy_store.hpp"

namespace flagstone {
namespace {

using Kind = Structure::Kind;

Box turned(const Box& box) { return {{box.start[1], box.start[0]}, {box.shape[1], box.shape[0]}}; }

/// The least box that holds the elements of `box` on and below the diagonal; none where there are none.
std::optional<Box> below(const Box& box) {
  const Index first = std::max(box.start[0], box.start[1]), end = box.start[0] + box.shape[0];
  const Index last = std::min(box.start[1] + box.shape[1], end);
  if (first >= end || box.start[1] >= last) return {};
  return Box{{first, box.start[1]}, {end - first, last - box.start[1]}};
}

/// The same above the diagonal, without it.
std::optional<Box> above(const Box& box) {
  const Index end = std::min(box.start[0] + box.shape[0], box.start[1] + box.shape[1] - 1);
  const Index first = std::max(box.start[1], box.start[0] + 1), last = box.start[1] + box.shape[1];
  if (box.start[0] >= end || first >= last) return {};
  return Box{{box.start[0], first}, {end - box.start[0], last - first}};
}

bool contains(const Box& box, const Box& part) {
  const Box common = intersect(box, part);
  return common.start == part.start && common.shape == part.shape;
}

/// Elements by their bytes, and conjugates of complex ones.
template <class T>
struct Conjugate {
  T operator()(T value) const { return value; }
};
template <class R>
struct Conjugate<std::complex<R>> {
  std::complex<R> operator()(std::complex<R> value) const { return std::conj(value); }
};

/// Everything is laid out as of the lower triangle: of an upper one rows and columns have changed places.
template <class T>
void put_together(const Structure& how, const Box& box, const Tile& to, const Tile* lower, const Box& lower_box,
                  const Tile* mirror, const Box& mirror_box) {
  const bool conjugate = how.kind == Kind::hermitian;
  const auto at = [](const Tile& tile, Index i, Index j) -> T& {
    return *reinterpret_cast<T*>(tile.data + i * tile.strides[0] + j * tile.strides[1]);
  };
  for (Index i = 0; i < box.shape[0]; ++i) {
    const Index row = box.start[0] + i;
    for (Index j = 0; j < box.shape[1]; ++j) {
      const Index col = box.start[1] + j;
      T value{};
      if (row >= col)
        value = at(*lower, row - lower_box.start[0], col - lower_box.start[1]);
      else if (mirror)
        value = at(*mirror, row - mirror_box.start[0], col - mirror_box.start[1]);
      if (row < col && conjugate) value = Conjugate<T>()(value);
      if constexpr (!std::is_arithmetic_v<T>)
        if (row == col && conjugate) value = value.real();
      if (row == col && how.unit_diagonal) value = T(1);
      at(to, i, j) = value;
    }
  }
}

Tile turned(const Tile& tile) {
  Tile seen = tile;
  std::swap(seen.shape[0], seen.shape[1]), std::swap(seen.strides[0], seen.strides[1]);
  return seen;
}

template <class F>
void visit_element(Dtype dtype, F&& f) {
  if (dtype == Dtype::complex64) return f(std::complex<float>{});
  if (dtype == Dtype::complex128) return f(std::complex<double>{});
  if (dtype == Dtype::float32) return f(float{});
  if (dtype == Dtype::float64) return f(double{});
  switch (size_of(dtype)) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

class StructuredStore final : public LazyStore {
 public:
  StructuredStore(const Array& member, const Structure& how)
      : LazyStore({member}, member.dtype()), how_(how), unpacks_(LazyStore::unpack_bytes() > 0) {}

  Transfer read(const Box& box) const override {
    const Array& member = operands_.front();
    check_box(member.shape(), box);
    if (count(box.shape) == 0) return dense_geometry(box.shape, item_, false);
    const Box seen = how_.lower ? box : turned(box);
    const std::optional<Box> lower = below(seen), upper = above(seen);
    const bool diagonal = how_.unit_diagonal || how_.kind == Kind::hermitian;
    if (!upper && !(diagonal && touches_diagonal(seen))) {
      Transfer transfer = member.store().read(box);
      if (!unpacks_ || transfer.staging_bytes > 0 || transfer.segments.empty()) return transfer;
    }
    return read_together(box, seen, lower, how_.kind == Kind::triangular ? std::nullopt : upper);
  }

  bool zeros(const Box& box) const override {
    const Box seen = how_.lower ? box : turned(box);
    return how_.kind == Kind::triangular && !below(seen);
  }

  std::size_t run_bytes(const Shape& box) const override {
    const auto& store = operands_.front().store();
    if (operands_.front().in_memory()) return static_cast<std::size_t>(c_run(operands_.front().shape(), box)) * item_;
    return std::min(store.run_bytes(box), store.run_bytes({box[1], box[0]}));
  }

 private:
  static bool touches_diagonal(const Box& seen) {
    return seen.start[0] < seen.start[1] + seen.shape[1] && seen.start[1] < seen.start[0] + seen.shape[0];
  }

  Transfer read_together(const Box& box, const Box& seen, const std::optional<Box>& lower,
                         const std::optional<Box>& upper) const {
    Gather gather;
    const Array& member = operands_.front();
    const auto stored = [&](const Box& part) { return how_.lower ? part : turned(part); };
    if (lower) gather.add(member, stored(*lower));
    // Across the diagonal the mirror lies in what is read anyway.
    const bool within = lower && upper && contains(*lower, turned(*upper));
    if (upper && !within) gather.add(member, stored(turned(*upper)));
    Transfer geometry = dense_geometry(box.shape, item_, false);
    geometry.flops = static_cast<double>(count(box.shape));
    const Tile result{nullptr, member.dtype(), box.shape, geometry.strides, geometry.tile_bytes};
    return std::move(gather).finish(
        std::move(geometry), 0,
        [how = how_, result, seen, lower, upper, within](std::span<const Tile> parts, std::byte* buffer, std::byte*) {
          Tile to = result;
          to.data = buffer;
          std::size_t next = 0;
          std::optional<Tile> direct, mirror;
          if (lower) direct = how.lower ? parts[next] : turned(parts[next]), ++next;
          if (within)
            mirror = turned(*direct);
          else if (upper)
            mirror = how.lower ? turned(parts[next]) : parts[next];
          const Box mirrored = within ? turned(*lower) : upper.value_or(Box{{0, 0}, {0, 0}});
          visit_element(to.dtype, [&](auto sample) {
            put_together<decltype(sample)>(how, seen, how.lower ? to : turned(to), direct ? &*direct : nullptr,
                                           lower.value_or(Box{{0, 0}, {0, 0}}), mirror ? &*mirror : nullptr, mirrored);
          });
        });
  }

  const Structure how_;
  const bool unpacks_;
};

}  // namespace

Array structured_array(const Array& member, const Structure& structure) {
  const bool triangular = structure.kind == Kind::triangular;
  if (member.ndim() != 2 || (!triangular && member.shape()[0] != member.shape()[1]))
    throw ShapeError("structured array: the member is " + to_string(member.shape()) + "; a " +
                     (triangular ? "" : "square ") + "matrix is needed.");
  return Array(member.shape(), member.dtype(), member.chunks(), std::make_shared<StructuredStore>(member, structure));
}

}  // namespace flagstone
