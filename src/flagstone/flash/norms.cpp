#include "flagstone/flash/norms.hpp"

#include <cmath>
#include <limits>

#include "flagstone/algorithms/elementwise/fused.hpp"
#include "flagstone/flash/map.hpp"
#include "flagstone/kernel/elementwise/norm_level.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/lazy/structured_array.hpp"

namespace flagstone::flash {
namespace {

double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }  // b where it is NaN

/// Squares by the sizes of numbers (kernel/elementwise/norm_level.hpp).
struct Squares {
  double large = 0, middle = 0, small = 0;
  bool infinite = false;

  void add(double x) {
    const double size = std::abs(x);
    if (std::isinf(size))
      infinite = true;
    else if (size > kernel::large_number)
      large += (size * kernel::scale_down) * (size * kernel::scale_down);
    else if (size < kernel::small_number)
      small += (size * kernel::scale_up) * (size * kernel::scale_up);
    else
      middle += size * size;  // NaN too
  }
  void add(std::complex<double> x) { add(x.real()), add(x.imag()); }
  void add(const Squares& other) {
    large += other.large, middle += other.middle, small += other.small, infinite = infinite || other.infinite;
  }
  double root() const {
    if (std::isnan(middle)) return middle;
    if (infinite) return std::numeric_limits<double>::infinity();
    if (large > 0) {
      const double rest = std::sqrt(middle) * kernel::scale_down;
      return std::hypot(std::sqrt(large), rest) * kernel::scale_up;
    }
    if (middle > 0) return std::hypot(std::sqrt(middle), std::sqrt(small) * kernel::scale_down);
    return std::sqrt(small) * kernel::scale_down;
  }
};

template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::complex<double>>;

template <class T>
double size_of_all(Runtime& runtime, const Array& a, Norm which) {
  if (which == Norm::max)
    return reduce<T>(
        runtime, a, 0.0, [](double most, T x) { return larger(most, std::abs(Wide<T>(x))); }, larger);
  const auto add = [](Squares sum, const auto& x) {
    sum.add(x);
    return sum;
  };
  return reduce<T>(
             runtime, a, Squares{}, [add](Squares sum, T x) { return add(sum, Wide<T>(x)); }, add)
      .root();
}

/// The largest of the sums along the other dimension.
double largest_sum(Runtime& runtime, const Array& a, std::size_t summed) {
  elementwise::Fused pass;
  const elementwise::Value sizes = abs(pass.read(a)).as(Dtype::float64);
  const Array sums = pass.reduce(elementwise::Reduce::sum, sizes, {.axes = {{summed}}});
  runtime.run(pass);
  double most = 0;
  for (const double sum : elements_of<double>(sums)) most = larger(most, sum);
  return most;
}

}  // namespace

double norm(Runtime& runtime, const NormCall& call) {
  check_extents(call.who, {{"m", call.m}, {"n", call.n}});
  const StoredMatrix stored(call.who, "a", call.order, call.a, call.m, call.n, call.dtype);
  if (call.m == 0 || call.n == 0) return 0;
  const bool rows = call.order == Order::row_major;
  Array a = stored.lines_as_rows();
  if (call.seen != Seen::whole) {
    const auto kind = call.seen == Seen::symmetric   ? Structure::Kind::symmetric
                      : call.seen == Seen::hermitian ? Structure::Kind::hermitian
                                                     : Structure::Kind::triangular;
    a = structured_array(a, {kind, (call.uplo == Uplo::lower) == rows, call.diagonal == Diagonal::unit});
  }
  if (call.norm == Norm::one || call.norm == Norm::inf)
    return largest_sum(runtime, a, (call.norm == Norm::one) == rows ? 0 : 1);
  switch (call.dtype) {
    case Dtype::float32:
      return size_of_all<float>(runtime, a, call.norm);
    case Dtype::float64:
      return size_of_all<double>(runtime, a, call.norm);
    case Dtype::complex64:
      return size_of_all<std::complex<float>>(runtime, a, call.norm);
    default:
      return size_of_all<std::complex<double>>(runtime, a, call.norm);
  }
}

}  // namespace flagstone::flash
