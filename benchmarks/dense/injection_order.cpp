// Bytes that one product moves when its tasks are added superblock by superblock (linalg::matmul's order) and with the
// tiles of C in random order, k ascending within each and the whole graph in the lookahead: one line of JSON.
//   injection_order DIRECTORY TILES_PER_SIDE TILES_OF_MEMORY SEED [run]
// Planned on the virtual clock (the same scheduler), or with `run` on real arrays in DIRECTORY.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "flagstone/algorithms/linalg/superblock.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/dense.hpp"
#include "flagstone/storage/zarr.hpp"

namespace flagstone {
namespace {

constexpr Index chunk = 1024;

struct Case {
  linalg::Operand a, b;
  Array c;
  linalg::ProductTile tile;
  Index tiles = 0;  // per side
};

Array new_array(const std::string& directory, const char* name, Index n, bool real) {
  if (!real) return planned_array({n, n}, Dtype::float32, {chunk, chunk});
  ZarrOptions options;
  options.chunks = {chunk, chunk};
  return create_zarr_array(directory + "/" + name, {n, n}, Dtype::float32, options);
}

/// Absent chunks would cost no transfer: every tile of an operand is written once.
void fill_with_ones(Runtime& runtime, const Array& array) {
  const std::vector<float> ones(static_cast<std::size_t>(count(array.chunks())), 1.0F);
  const Tile from{reinterpret_cast<std::byte*>(const_cast<float*>(ones.data())), Dtype::float32, array.chunks(),
                  c_strides(array.chunks(), sizeof(float)), ones.size() * sizeof(float)};
  for (Index i = 0; i < array.shape()[0]; i += chunk)
    for (Index j = 0; j < array.shape()[1]; j += chunk) {
      const Box box{{i, j}, array.chunks()};
      runtime.run([&](Graph& graph) {
        TaskSpec task;
        task.name = "ones";
        task.accesses = {write({array, box})};
        task.body = [&](std::span<const Tile> tiles) { copy(from, tiles[0]); };
        graph.add(std::move(task));
      });
    }
  array.store().flush();
}

void add_in_random_order(Graph& graph, const Case& product, std::uint64_t seed) {
  std::vector<std::pair<Index, Index>> order;
  for (Index i = 0; i < product.tiles; ++i)
    for (Index j = 0; j < product.tiles; ++j) order.emplace_back(i, j);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  const auto& [rows, cols, depth] = product.tile;
  const Index n = product.c.shape()[0];
  for (const auto& [i, j] : order)
    for (Index k = 0; k * depth < n; ++k) {
      const Region c{product.c, {{i * rows, j * cols}, {rows, cols}}};
      TaskSpec task;
      task.name = "gemm";
      task.accesses = {read({product.a.array, {{i * rows, k * depth}, {rows, depth}}}),
                       read({product.b.array, {{k * depth, j * cols}, {depth, cols}}}), k == 0 ? write(c) : update(c)};
      task.cost.flops = 2.0 * static_cast<double>(rows * cols * depth);
      task.body = [first = k == 0](std::span<const Tile> t) {
        kernel::gemm(1.0, t[0], {}, t[1], {}, first ? 0.0 : 1.0, t[2], nullptr);
      };
      graph.add(std::move(task));
    }
}

RuntimeOptions options_for(std::uint64_t tiles, const Case& product) {
  const std::uint64_t tile_bytes = static_cast<std::uint64_t>(product.tile.rows * product.tile.cols) * sizeof(float);
  RuntimeOptions options;
  options.workers = 2, options.lookahead = 1 << 24;
  options.memory = std::uint64_t{64} << 30;
  const std::uint64_t reserve = Runtime(options).reserve();
  options.memory = resident_bytes() + reserve + tiles * tile_bytes;
  return options;
}

Statistics move(const Case& product, std::uint64_t memory_tiles, bool real,
                const std::function<void(Graph&)>& builder) {
  Runtime runtime(options_for(memory_tiles, product));
  return real ? runtime.run(builder) : runtime.plan(builder);
}

int run(const std::string& directory, Index side, std::uint64_t memory_tiles, std::uint64_t seed, bool real) {
  kernel::set_blas_threads(1);
  constexpr Index large = 1 << 20;  // the tile of a large product; its side gives n
  Case product{{planned_array({large, large}, Dtype::float32, {chunk, chunk})}, {}, {}, {}, side};
  product.b = product.a, product.c = product.a.array;
  product.tile = linalg::product_tile(product.a, product.b, product.c);
  const Index n = side * product.tile.rows;
  product.a.array = new_array(directory, "a", n, real), product.b.array = new_array(directory, "b", n, real);
  product.c = new_array(directory, "c", n, real);
  product.tile = linalg::product_tile(product.a, product.b, product.c);
  product.tiles = (n + product.tile.rows - 1) / product.tile.rows;
  if (real) {
    Runtime runtime;
    fill_with_ones(runtime, product.a.array), fill_with_ones(runtime, product.b.array);
  }
  const Statistics ordered = move(product, memory_tiles, real, [&](Graph& graph) {
    linalg::matmul(graph, product.a, product.b, nullptr, product.c, {});
  });
  const Statistics random =
      move(product, memory_tiles, real, [&](Graph& graph) { add_in_random_order(graph, product, seed); });
  const auto bytes = [](const Statistics& s) { return static_cast<double>(s.bytes_read + s.bytes_written); };
  std::printf(
      "{\"ordered\": %.0f, \"random\": %.0f, \"ratio\": %.4f, \"tile\": [%lld, %lld, %lld], \"tiles\": %lld, "
      "\"ordered_budget\": %llu, \"random_budget\": %llu, \"tasks\": [%llu, %llu]}\n",
      bytes(ordered), bytes(random), bytes(random) / bytes(ordered), static_cast<long long>(product.tile.rows),
      static_cast<long long>(product.tile.cols), static_cast<long long>(product.tile.depth),
      static_cast<long long>(product.tiles), static_cast<unsigned long long>(ordered.budget),
      static_cast<unsigned long long>(random.budget), static_cast<unsigned long long>(ordered.tasks),
      static_cast<unsigned long long>(random.tasks));
  return 0;
}

}  // namespace
}  // namespace flagstone

int main(int count, char** words) {
  if (count < 5) {
    std::fprintf(stderr, "injection_order: needs DIRECTORY TILES_PER_SIDE TILES_OF_MEMORY SEED [run]\n");
    return 2;
  }
  try {
    const bool real = count > 5 && std::string(words[5]) == "run";
    return flagstone::run(words[1], std::stol(words[2]), std::stoul(words[3]), std::stoul(words[4]), real);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
