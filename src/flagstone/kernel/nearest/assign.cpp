#include "flagstone/kernel/nearest/assign.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::kernel {
namespace {

/// The nearest among centres whose score is at most `bound`; among all where the row's scores are of no use.
Index decide(const Points& points, Index i, const Centres& centres, const float* dots, float bound, bool all) {
  const RowTable& loops = row_loops();
  const double* x = points.row(i);
  double least = std::numeric_limits<double>::infinity();
  Index best = 0;
  for (Index j = 0; j < centres.k; ++j) {
    if (!all && !(centres.half[j] - dots[j] <= bound)) continue;
    const double* c = centres.exact + j * centres.d;
    const double score =
        centres.unit ? -loops.product(x, c, centres.d) : loops.distance(x, points.scales[i], c, 1, centres.d);
    if (score < least) least = score, best = j;
  }
  return best;
}

}  // namespace

Index scores_width(Index k) { return ceil_div(k, score_step) * score_step; }

double round_centres(const double* exact, Index k, Index d, const double* shift, float* rounded, float* half) {
  const RowTable& loops = row_loops();
  double longest = 0;
  for (Index j = 0; j < k; ++j) {
    const double square = loops.round(exact + j * d, 1, shift, d, rounded + j * d);
    half[j] = static_cast<float>(square / 2);
    longest = std::max(longest, std::sqrt(square));
  }
  std::fill(half + k, half + scores_width(k), std::numeric_limits<float>::infinity());
  return longest;
}

Index assign(const Points& points, const Centres& centres, float* scores, std::int32_t* labels, double* squares) {
  const RowTable& loops = row_loops();
  const Index k = centres.k, d = centres.d, width = scores_width(k);
  const Tile c{const_cast<std::byte*>(reinterpret_cast<const std::byte*>(centres.rounded)),
               Dtype::float32,
               {k, d},
               {d * 4, 4},
               static_cast<std::size_t>(k * d) * 4};
  const Tile dots{reinterpret_cast<std::byte*>(scores),
                  Dtype::float32,
                  {points.rows, k},
                  {width * 4, 4},
                  static_cast<std::size_t>(points.rows * width) * 4};
  for (Index i = 0; i < points.rows; ++i) std::fill(scores + i * width + k, scores + (i + 1) * width, 0.0F);
  gemm(1.0, points.rounded_tile(), {}, c, {true, false}, 0.0, dots, nullptr);
  Index decided = 0;
  for (Index i = 0; i < points.rows; ++i) {
    const float* row = scores + i * width;
    const double length = std::sqrt(points.squares[i]);
    const bool all = !(length + centres.longest < most_length);
    const double error = score_error(d, length, centres.longest);
    const double bound = static_cast<double>(loops.least(centres.half, row, width)) + 2 * error;
    const float most = std::nextafter(static_cast<float>(bound), std::numeric_limits<float>::infinity());
    const Below found = loops.below(centres.half, row, most, width);
    const bool clear = found.count == 1 && !all;
    const Index best = clear ? found.place : decide(points, i, centres, row, most, all || found.count == 0);
    labels[i] = static_cast<std::int32_t>(best);
    squares[i] = loops.distance(points.row(i), points.scales[i], centres.exact + best * d, 1, d);
    decided += clear || k == 1 ? 0 : 1;
  }
  return decided;
}

}  // namespace flagstone::kernel
