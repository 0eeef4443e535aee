// The fastest vibrations of a grid, an operator of one's own: no matrix is stored, the vectors go to a file.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numbers>
#include <vector>

#include "flagstone/flagstone.hpp"

using namespace flagstone;

constexpr Index side = 60, n = side * side, k = 12;

/// y := A x for b vectors at once: the Laplacian of a square of side x side points, held at its edge.
void stiffness(const double* x, double* y, Index b) {
  const Index row = side * b;
  for (Index i = 0; i < side; ++i)
    for (Index j = 0; j < side; ++j) {
      const Index at = i * row + j * b;
      for (Index c = at; c < at + b; ++c) {
        double sum = 4 * x[c];
        if (i > 0) sum -= x[c - row];
        if (i + 1 < side) sum -= x[c + row];
        if (j > 0) sum -= x[c - b];
        if (j + 1 < side) sum -= x[c + b];
        y[c] = sum;
      }
    }
}

/// What is known of it: one number for each pair of waves.
double known(Index p, Index q) {
  const auto wave = [](Index i) { return std::sin(static_cast<double>(i) * std::numbers::pi / (2 * (side + 1))); };
  return 4 * wave(p) * wave(p) + 4 * wave(q) * wave(q);
}

int main() try {
  Runtime runtime({.memory = 256 * MiB, .workers = 2});
  const auto vectors = flash_malloc<double>(runtime, static_cast<std::uint64_t>(n * k));
  // (p, q) and (q, p) sound alike, so most values are there twice.
  const flash::Eigenpairs found = flash::eigsh<double>(runtime, n, k, stiffness, vectors, {.which = "LA", .tol = 1e-6});

  std::vector<double> v(static_cast<std::size_t>(n * k)), y(v.size()), expected;
  for (Index p = side; p > side - 8; --p)
    for (Index q = side; q > side - 8; --q) expected.push_back(known(p, q));
  std::sort(expected.begin(), expected.end(), std::greater<>());
  read_sync(v.data(), vectors, Contiguous{n * k});
  stiffness(v.data(), y.data(), k);
  bool right = found.converged;
  for (std::size_t j = 0; j < k; ++j) {
    double off = 0;  // ‖A v - λ v‖, measured here
    for (std::size_t i = j; i < v.size(); i += k) off += std::pow(y[i] - found.values[j] * v[i], 2);
    right = right && std::sqrt(off) <= 1.1e-6 * 8 && std::abs(found.values[j] - expected[j]) <= 1e-6 * 8;
  }
  std::printf("%.6f ... %.6f after %d applications: %s\n", found.values.front(), found.values.back(),
              found.applications, right ? "as known" : "WRONG");
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
