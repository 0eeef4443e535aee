// A product of n² float32 in small tiles, from memory on an emulated device: how many launches its tasks need. One line
// of JSON.
//   batches N EDGE
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/algorithms/tiled/tiled.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone {
namespace {

int run(Index n, Index edge) {
  const auto elements = static_cast<std::size_t>(n * n);
  std::vector<float> a(elements, 0.5f), b(elements, 0.25f), c(elements);
  const auto matrix = [n](std::vector<float>& values) {
    return memory_array(reinterpret_cast<std::byte*>(values.data()), {n, n}, Dtype::float32, {});
  };
  const auto device = open_emulated({.memory = align_up(3 * elements * sizeof(float) + MiB)});
  const auto scratch = std::filesystem::temp_directory_path() / "flagstone-batches";
  std::filesystem::create_directories(scratch);
  Runtime runtime({.memory = resident_bytes() + 4 * GiB, .workers = 2, .scratch = scratch, .devices = {device}});
  const linalg::Cut cut{n, edge, edge};
  const linalg::Tiled left({matrix(a)}, cut, cut), right({matrix(b)}, cut, cut), to({matrix(c)}, cut, cut);
  const auto build = [&](Graph& graph) {
    graph.trust_order(true);
    for (Index k = 0; k < left.cols(); ++k)
      for (Index i = 0; i < to.rows(); ++i)
        for (Index j = 0; j < to.cols(); ++j)
          linalg::gemm(graph, 1, left(i, k), right(k, j), k == 0 ? 0 : 1, linalg::again(to(i, j), k + 1 < left.cols()));
  };
  const Statistics planned = runtime.plan(build), ran = runtime.run(build);
  std::filesystem::remove_all(scratch);
  std::printf("{\"tasks\": %llu, \"launches\": %llu, \"planned\": %llu, \"synchronizing\": %llu, \"seconds\": %.3f}\n",
              static_cast<unsigned long long>(ran.spaces[1].tasks),
              static_cast<unsigned long long>(ran.spaces[1].launches),
              static_cast<unsigned long long>(planned.spaces[1].launches),
              static_cast<unsigned long long>(device->counts().synchronizing), ran.seconds);
  return 0;
}

}  // namespace
}  // namespace flagstone

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "batches: needs N EDGE\n");
    return 2;
  }
  try {
    return flagstone::run(std::stol(words[1]), std::stol(words[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
