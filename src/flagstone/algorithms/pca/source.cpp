#include "flagstone/algorithms/pca/source.hpp"

#include <algorithm>
#include <cmath>

namespace flagstone::spectral {

void measure_right(LastPass& pass, const double* z, Index n, double rounding) {
  const auto k = static_cast<Index>(pass.sigma.size());
  const auto* v = reinterpret_cast<const double*>(pass.vectors.store().memory());
  std::vector<double> products(k, 0.0);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < k; ++j) products[j] += v[i * k + j] * z[i * k + j];
  for (Index j = 0; j < k; ++j) {
    const double measured = std::sqrt(std::max(0.0, products[j]));
    if (pass.measure) pass.sigma[j] = measured;
    if (j > 0) pass.sigma[j] = std::min(pass.sigma[j], pass.sigma[j - 1]);  // equal but for rounding
  }
  pass.residual.assign(k, 0.0);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < k; ++j) {
      const double sigma = pass.sigma[j];
      if (sigma <= rounding * pass.sigma[0]) continue;
      const double difference = z[i * k + j] / sigma - sigma * v[i * k + j];
      pass.residual[j] += difference * difference;
    }
  for (Index j = 0; j < k; ++j)
    pass.residual[j] = pass.sigma[j] > rounding * pass.sigma[0] ? std::sqrt(pass.residual[j]) : pass.sigma[j];
  pass.components.resize(static_cast<std::size_t>(k * n));
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < k; ++j) pass.components[j * n + i] = v[i * k + j];
}

void take_out(Index rows, const std::vector<double>& d, const Array& v, const Array& y) {
  const auto n = static_cast<Index>(d.size()), b = v.shape()[1];
  auto* to = reinterpret_cast<double*>(y.store().memory());
  const auto out = [&](const auto* from) {
    const Index ld = v.store().memory_strides()[0] / static_cast<Index>(sizeof *from);
    std::vector<double> product(static_cast<std::size_t>(b), 0.0);  // dᵀ V
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < b; ++j) product[j] += d[i] * static_cast<double>(from[i * ld + j]);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < b; ++j) to[i * b + j] -= static_cast<double>(rows) * d[i] * product[j];
  };
  const std::byte* memory = v.store().memory();
  if (v.dtype() == Dtype::float32) return out(reinterpret_cast<const float*>(memory));
  out(reinterpret_cast<const double*>(memory));
}

}  // namespace flagstone::spectral
