// A product of n² float32 in small tiles, from memory on an emulated device: how many launches its tasks need. One line
// of JSON.
//   batches N EDGE
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

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
  const Array left = matrix(a), right = matrix(b), to = matrix(c);
  const auto build = [&](Graph& graph) {
    graph.trust_order(true);
    for (Index k = 0; k < n; k += edge)
      for (Index i = 0; i < n; i += edge)
        for (Index j = 0; j < n; j += edge) {
          TaskSpec task;
          task.name = "gemm";
          const Region sum{to, {{i, j}, {edge, edge}}};
          task.accesses = {read({left, {{i, k}, {edge, edge}}}), read({right, {{k, j}, {edge, edge}}}),
                           k == 0 ? write(sum) : update(sum)};
          Call call(Kernel::gemm, Dtype::float32, {{0}, {1}, {2}});
          call.beta = k == 0 ? 0 : 1;
          call.flops = task.cost.flops = 2.0 * static_cast<double>(edge * edge * edge);
          task.calls = {call};
          graph.add(std::move(task));
        }
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
