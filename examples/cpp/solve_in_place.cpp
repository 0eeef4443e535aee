// A symmetric positive definite system that lies in one flat file, factored and solved in place with LAPACK's
// arguments: the Kac-Murdock-Szego matrix rho^|i-j|, whose solution is known.
#include <cmath>
#include <cstdio>
#include <vector>

#include "flagstone/flagstone.hpp"

using namespace flagstone;

int main() {
  Runtime runtime({.memory = 256 * MiB, .workers = 2});
  const Index n = 2000;
  const double rho = 0.7;
  auto a = flash_malloc<double>(runtime, static_cast<std::uint64_t>(n * n));
  std::vector<double> row(static_cast<std::size_t>(n)), b(row.size(), 0.0);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j)  // of A one triangle counts
      row[static_cast<std::size_t>(j)] = j <= i ? std::pow(rho, static_cast<double>(i - j)) : 0.0;
    for (Index j = 0; j < n; ++j) b[static_cast<std::size_t>(i)] += std::pow(rho, static_cast<double>(std::abs(i - j)));
    write_sync(a + i * n, row.data(), Contiguous{n});
  }

  // A on disk becomes its factor, b in memory the solution, which is all ones.
  const Statistics did = flash::posv(runtime, flash::Order::row_major, flash::Uplo::lower, n, 1, a, n, b.data(), 1);

  double error = 0;
  for (const double value : b) error = std::max(error, std::abs(value - 1));
  std::printf("%lld unknowns, %.1f MiB read, largest error %.1e\n", static_cast<long long>(n),
              static_cast<double>(did.bytes_read) / (1 << 20), error);
  flash_free(a);
  return error < 1e-10 ? 0 : 1;
}
