// Nested loops that add one derived task a block (figure 1 of BLAS-on-flash), against gemm: the same bits. Blocks of
// the size that the library computes in, and the inner loop over k in order, are all that takes.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <flagstone/flagstone.hpp>
#include <random>
#include <vector>

using namespace flagstone;

struct GemmTask final : Task {
  GemmTask(const flash_ptr<const float>& a, Strided a_part, const flash_ptr<const float>& b, Strided b_part,
           const flash_ptr<float>& c, Strided c_part, bool first)
      : Task("gemm"), first_(first) {
    input(region(a, a_part));
    input(region(b, b_part));
    first ? output(region(c, c_part)) : update(region(c, c_part));
  }
  void execute(std::span<const Tile> t) override {
    kernel::gemm(1.0, t[0], {}, t[1], {}, first_ ? 0.0 : 1.0, t[2], nullptr);
  }

 private:
  bool first_;
};

int main() try {
  constexpr Index m = 2500, n = 2100, k = 2300;
  const auto directory = std::filesystem::temp_directory_path() / "flagstone-flash-gemm";
  std::filesystem::create_directories(directory);
  Runtime runtime({.memory = 384 * MiB, .workers = 2, .scratch = directory});
  auto a = flash_malloc<float>(runtime, m * k), b = flash_malloc<float>(runtime, k * n);
  auto ours = flash_malloc<float>(runtime, m * n), yours = flash_malloc<float>(runtime, m * n);
  std::mt19937 random(1);
  std::vector<float> row(static_cast<std::size_t>(std::max(k, n)));
  for (const auto& [p, rows, cols] : {std::tuple{a, m, k}, std::tuple{b, k, n}})
    for (Index i = 0; i < rows; ++i) {
      for (float& value : row) value = static_cast<float>(random() % 1000) / 500 - 1;
      write_sync(p + i * cols, row.data(), Contiguous{cols});
    }

  flash::gemm(runtime, flash::Order::row_major, flash::Transpose::none, flash::Transpose::none, m, n, k, 1, a, k, b, n,
              0, ours, n);

  const auto tile = linalg::product_tile({matrix(a, m, k, k)}, {matrix(b, k, n, n)}, matrix(yours, m, n, n));
  kernel::set_blas_threads(1);
  runtime.run([&](Graph& graph) {
    for (Index i = 0; i < m; i += tile.rows)
      for (Index j = 0; j < n; j += tile.cols)
        for (Index p = 0; p < k; p += tile.depth) {
          const Index rows = std::min(tile.rows, m - i), cols = std::min(tile.cols, n - j);
          const Index depth = std::min(tile.depth, k - p);
          graph.add(std::make_shared<GemmTask>(a + (i * k + p), Strided{rows, depth, k}, b + (p * n + j),
                                               Strided{depth, cols, n}, yours + (i * n + j), Strided{rows, cols, n},
                                               p == 0));
        }
  });

  std::vector<float> x(static_cast<std::size_t>(m * n)), y = x;
  read_sync(x.data(), ours, Contiguous{m * n});
  read_sync(y.data(), yours, Contiguous{m * n});
  const bool same = std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  std::printf("%lld x %lld in tiles of %lld x %lld x %lld: %s\n", static_cast<long long>(m), static_cast<long long>(n),
              static_cast<long long>(tile.rows), static_cast<long long>(tile.cols), static_cast<long long>(tile.depth),
              same ? "the same bits" : "different bits");
  for (auto* p : {&a, &b, &ours, &yours}) flash_free(*p);
  std::filesystem::remove_all(directory);
  return same ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
