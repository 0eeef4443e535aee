// A matrix on disk, and a task of our own on every tile of it: find_package(flagstone), flagstone::flagstone.
#include <cstdio>
#include <filesystem>
#include <flagstone/flagstone.hpp>

using namespace flagstone;

struct Square final : Task {
  explicit Square(Region tile) : Task("square") { update(std::move(tile)); }
  void execute(std::span<const Tile> tiles) override {
    const Tile& t = tiles[0];
    for (Index i = 0; i < t.shape[0]; ++i)
      for (Index j = 0; j < t.shape[1]; ++j)
        if (auto* x = reinterpret_cast<double*>(t.data + i * t.strides[0] + j * t.strides[1])) *x *= *x;
  }
};

int main() try {
  const auto directory = std::filesystem::temp_directory_path() / "flagstone-own-task";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  Runtime runtime({.memory = 256 * MiB, .workers = 2, .scratch = directory});
  auto x = map_file<double>(directory / "x.bin", MapMode::create, 1000 * 1000);
  for (Index i = 0; i < 1000 * 1000; ++i) x.ptr[i] = static_cast<double>(i % 1000);
  const Array X = matrix(x, 1000, 1000, 1000);
  const Statistics stats = runtime.run([&](Graph& graph) {
    for (Index i = 0; i < 1000; i += 250)
      for (Index j = 0; j < 1000; j += 250) graph.add(std::make_shared<Square>(Region{X, {{i, j}, {250, 250}}}));
  });
  std::printf("%.0f, %llu tasks, %s\n", x.ptr[999], static_cast<unsigned long long>(stats.tasks), stats.io.c_str());
  const bool right = x.ptr[999] == 999.0 * 999.0 && x.ptr[999'500] == 500.0 * 500.0;
  unmap_file(x);
  std::filesystem::remove_all(directory);
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
