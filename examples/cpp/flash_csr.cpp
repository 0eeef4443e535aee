// The paper's files: a sparse matrix as three headerless files, multiplied with a block of vectors and transposed.
#include <cstdio>
#include <filesystem>
#include <flagstone/flagstone.hpp>
#include <random>
#include <vector>

using namespace flagstone;

int main() try {
  constexpr Index m = 20'000, n = 3'000, each = 12, width = 8, nnz = m * each;
  const auto directory = std::filesystem::temp_directory_path() / "flagstone-flash-csr";
  std::filesystem::create_directories(directory);
  Runtime runtime({.memory = 384 * MiB, .workers = 2, .scratch = directory});
  auto a = flash_malloc<float>(runtime, nnz), at = flash_malloc<float>(runtime, nnz);
  auto ia = flash_malloc<std::int64_t>(runtime, m + 1), iat = flash_malloc<std::int64_t>(runtime, n + 1);
  auto ja = flash_malloc<std::int64_t>(runtime, nnz), jat = flash_malloc<std::int64_t>(runtime, nnz);
  std::mt19937 random(1);
  std::vector<float> values(nnz), x(n * width), y(m * width), z(m * width);
  std::vector<std::int64_t> columns(nnz), pointers(m + 1);
  for (Index i = 0; i < m; ++i) {
    pointers[i + 1] = (i + 1) * each;
    for (Index k = 0; k < each; ++k) {
      columns[i * each + k] = k * (n / each) + static_cast<Index>(random() % (n / each));
      values[i * each + k] = static_cast<float>(random() % 9);
    }
  }
  for (float& one : x) one = static_cast<float>(random() % 9);
  write_sync(a, values.data(), Contiguous{nnz});
  write_sync(ja, columns.data(), Contiguous{nnz});
  write_sync(ia, pointers.data(), Contiguous{m + 1});

  flash::csrmm(runtime, flash::Transpose::none, m, width, n, 1, 0, a, ia, ja, flash::Order::row_major, x.data(),
               y.data());
  flash::csrcsc(runtime, m, n, a, ia, ja, at, iat, jat);
  flash::csrmm(runtime, flash::Transpose::plain, n, width, m, 1, 0, at, iat, jat, flash::Order::row_major, x.data(),
               z.data());  // (Aᵀ)ᵀ X, of whole numbers: the same
  std::printf("A X and (Aᵀ)ᵀ X of %lld values: %s\n", static_cast<long long>(nnz), y == z ? "equal" : "different");
  for (auto* p : {&a, &at}) flash_free(*p);
  for (auto* p : {&ia, &iat, &ja, &jat}) flash_free(*p);
  std::filesystem::remove_all(directory);
  return y == z ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
