// Numbers on disk: a function of each of them, and the sum of squares, mean and largest in one read each.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <flagstone/flagstone.hpp>

using namespace flagstone;

struct Moments {
  double sum = 0, squares = 0;
};

int main() try {
  const auto directory = std::filesystem::temp_directory_path() / "flagstone-map-reduce";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  Runtime runtime({.memory = 256 * MiB, .workers = 2, .scratch = directory});
  const Index n = 4'000'000;
  auto x = map_file<float>(directory / "x.bin", MapMode::create, n);
  for (Index i = 0; i < n; ++i) x.ptr[i] = static_cast<float>(i % 1000);
  auto y = flash_malloc<double>(runtime, n);
  flash::map(runtime, x, y, n, [](float v) { return std::sqrt(static_cast<double>(v)); });
  const double largest = flash::reduce(runtime, y, n, 0.0, [](double a, double b) { return std::max(a, b); });
  const auto [sum, squares] = flash::reduce(
      runtime, y, n, Moments{},
      [](Moments m, double v) {
        return Moments{m.sum + v, m.squares + v * v};
      },
      [](Moments a, Moments b) {
        return Moments{a.sum + b.sum, a.squares + b.squares};
      });
  std::printf("mean %.4f, mean of squares %.4f, largest %.4f\n", sum / n, squares / n, largest);
  const bool right = largest == std::sqrt(999.0) && std::abs(squares / n - 499.5) < 1e-6;
  flash_free(y);
  unmap_file(x);
  std::filesystem::remove_all(directory);
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
