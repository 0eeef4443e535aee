// Empty tasks, one `update` each: what adding and running a task costs beyond its work. One line of JSON.
//   empty_tasks TASKS TILES WORKERS [disk]
// TILES of memory, or (disk) of a nameless file that all fit in memory; task i updates tile i mod TILES.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/raw.hpp"

namespace flagstone {
namespace {

int run(Index tasks, Index tiles, int workers, bool disk) {
  constexpr Index elements = 8;
  const auto scratch = std::filesystem::temp_directory_path() / "flagstone-empty-tasks";
  std::filesystem::create_directories(scratch);
  std::vector<double> numbers(static_cast<std::size_t>(disk ? 0 : tiles * elements));
  const Array array = disk ? temporary_array({tiles * elements}, Dtype::float64, {elements}, scratch)
                           : memory_array(reinterpret_cast<std::byte*>(numbers.data()), {tiles * elements},
                                          Dtype::float64, {sizeof(double)});
  Runtime runtime({.memory = resident_bytes() + 4 * GiB, .workers = workers, .scratch = scratch});
  const Statistics stats = runtime.run([&](Graph& graph) {
    if (disk)
      for (Index i = 0; i < tiles; ++i) {
        TaskSpec task;
        task.name = "first";
        task.accesses = {write({array, {{i * elements}, {elements}}})};
        graph.add(std::move(task));
      }
    for (Index i = 0; i < tasks; ++i) {
      TaskSpec task;
      task.name = "empty";
      task.accesses = {update({array, {{i % tiles * elements}, {elements}}})};
      task.body = [](std::span<const Tile>) {};
      graph.add(std::move(task));
    }
  });
  std::printf("{\"tasks\": %lld, \"tiles\": %lld, \"workers\": %d, \"disk\": %s, \"microseconds_each\": %.3f}\n",
              static_cast<long long>(tasks), static_cast<long long>(tiles), workers, disk ? "true" : "false",
              1e6 * stats.seconds / static_cast<double>(stats.tasks));
  return 0;
}

}  // namespace
}  // namespace flagstone

int main(int count, char** words) {
  if (count < 4) {
    std::fprintf(stderr, "empty_tasks: needs TASKS TILES WORKERS [disk]\n");
    return 2;
  }
  try {
    return flagstone::run(std::stol(words[1]), std::stol(words[2]), std::stoi(words[3]),
                          count > 4 && std::string(words[4]) == "disk");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
