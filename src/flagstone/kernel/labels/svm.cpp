#include "flagstone/kernel/labels/svm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/labels/shuffle.hpp"

namespace flagstone::kernel {
namespace {

double product(const SparsePoints& x, Index i, const double* w, double bias) {
  double sum = bias;
  for (Index p = x.pointers[i]; p < x.pointers[i + 1]; ++p) sum += w[x.columns[p]] * static_cast<double>(x.values[p]);
  return sum;
}

/// ‖x‖² with the feature of value 1.
double square(const SparsePoints& x, Index i) {
  double sum = 1;
  for (Index p = x.pointers[i]; p < x.pointers[i + 1]; ++p)
    sum += static_cast<double>(x.values[p]) * static_cast<double>(x.values[p]);
  return sum;
}

}  // namespace

std::size_t svm_bytes(Index rows) {
  return align_up(static_cast<std::size_t>(rows) * 8, 64) + align_up(static_cast<std::size_t>(rows) * 4, 64);
}

Index train_svm(const SparsePoints& x, Index features, const bool* positive, const SvmOptions& options, double* w,
                double* alpha, std::byte* memory) {
  const double infinite = std::numeric_limits<double>::infinity(), diagonal = 0.5 / options.cost;
  auto* norms = reinterpret_cast<double*>(memory);
  auto* order = reinterpret_cast<std::int32_t*>(memory + align_up(static_cast<std::size_t>(x.rows) * 8, 64));
  for (Index i = 0; i < x.rows; ++i) norms[i] = square(x, i) + diagonal, order[i] = static_cast<std::int32_t>(i);
  Shuffle shuffle(options.seed);
  Index active = x.rows;
  double most_before = infinite;  // of the sweep before: what is worse at its bound stays there
  for (Index sweep = 0; sweep < options.sweeps; ++sweep) {
    double most = -infinite, least = infinite;
    shuffle(order, active);
    for (Index s = 0; s < active; ++s) {
      const Index i = order[s];
      const double y = positive[i] ? 1 : -1;
      const double gradient = y * product(x, i, w, w[features]) - 1 + alpha[i] * diagonal;
      double projected = gradient;
      if (alpha[i] == 0) {
        if (gradient > most_before) {
          std::swap(order[s--], order[--active]);
          continue;
        }
        projected = std::min(gradient, 0.0);
      }
      most = std::max(most, projected), least = std::min(least, projected);
      if (std::abs(projected) <= 1e-12) continue;
      const double before = alpha[i];
      alpha[i] = std::max(before - gradient / norms[i], 0.0);
      const double step = (alpha[i] - before) * y;
      for (Index p = x.pointers[i]; p < x.pointers[i + 1]; ++p)
        w[x.columns[p]] += step * static_cast<double>(x.values[p]);
      w[features] += step;
    }
    if (options.spread) *options.spread = active > 0 ? std::max(most - least, std::max(most, -least)) : 0;
    if (most - least <= options.eps || active == 0) {
      if (active == x.rows) return sweep + 1;
      active = x.rows, most_before = infinite;  // all rows once more
    } else {
      most_before = most <= 0 ? infinite : most;
    }
  }
  return options.sweeps;
}

}  // namespace flagstone::kernel
