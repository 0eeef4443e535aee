// A long program that may be killed at any moment, and started again: the columns of a matrix are centred, in two
// stages. What the first one found, and the tiles of the second that are written, are not computed again.
//
//   long_program DIRECTORY          x.bin -> centred.zarr; goes on where a killed one stopped
//   long_program DIRECTORY NUMBER   kills itself at that checkpoint
//   long_program                    does all of this, and compares: the test of this file
//
// While it is not finished, `flagstone scratch` lists it.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <flagstone/flagstone.hpp>
#include <fstream>
#include <map>
#include <vector>

using namespace flagstone;
namespace fs = std::filesystem;

constexpr Index rows = 4096, cols = 512, panel = 256, panels = rows / panel;

/// For the test: a byte in a file, which outlives the process, for each panel that is computed.
void count_in(const fs::path& file) { std::ofstream(file, std::ios::app) << '.'; }
std::uint64_t counted(const fs::path& file) { return fs::exists(file) ? fs::file_size(file) : 0; }

double* row(const Tile& tile, Index i) { return reinterpret_cast<double*>(tile.data + i * tile.strides[0]); }
Box panel_of(Index p) { return {{p * panel, 0}, {panel, cols}}; }

/// The first stage: one read of X, sums merged in a fixed order.
Array column_means(Graph& graph, const Array& X, const fs::path& directory) {
  const Array means = graph.allocate({1, cols}, Dtype::float64);
  const Region all{means, whole(means.shape())};
  for (Index p = 0; p < panels; ++p)
    graph.add({.name = "sum",
               .accesses = {read({X, panel_of(p)}), reduce(all)},
               .body = [directory](std::span<const Tile> tiles) {
                 for (Index i = 0; i < panel; ++i)
                   for (Index j = 0; j < cols; ++j) row(tiles[1], 0)[j] += row(tiles[0], i)[j];
                 count_in(directory / "summed");
               }});
  graph.await({update(all)}, [](std::span<const Tile> tiles) {
    for (Index j = 0; j < cols; ++j) row(tiles[0], 0)[j] /= rows;
  });
  return means;
}

/// The task of the second stage.
TaskSpec centre(const Array& X, const Array& means, const Array& Y, Index p, const fs::path& directory) {
  return {.name = "centre",
          .accesses = {read({X, panel_of(p)}), read({means, whole(means.shape())}), write({Y, panel_of(p)})},
          .body = [directory](std::span<const Tile> tiles) {
            for (Index i = 0; i < panel; ++i)
              for (Index j = 0; j < cols; ++j) row(tiles[2], i)[j] = row(tiles[0], i)[j] - row(tiles[1], 0)[j];
            count_in(directory / "centred");
          }};
}

void compute(const fs::path& directory, int killed_at) {
  Runtime runtime({.memory = 256 * MiB, .workers = 2});
  const Array X = open_raw(directory / "x.bin", {.shape = {rows, cols}});
  const auto hear = [killed_at](int checkpoint) {
    if (checkpoint == killed_at) raise(SIGKILL);
  };
  Record record("centring", RecordArguments().file("x", directory / "x.bin"),
                {.scratch = runtime.options().scratch, .saved = hear});
  record.build(directory / "centred.zarr", true, [&](const Output& output) {
    const Array Y = zarr_output(output, {rows, cols}, Dtype::float64, {.chunks = {panel, cols}});
    runtime.run([&](Graph& graph) {
      Stages stages(graph, record.checkpoint());
      FinishedTiles tiles = stages.tiles(Y, {panel, cols});
      const Array means = stages.once(
          "means", [&] { return column_means(graph, X, directory); }, 0.5);
      for (Index p = 0; p < panels; ++p) {
        if (tiles.holds(panel_of(p))) continue;
        graph.add(centre(X, means, Y, p, directory));
        tiles.finish(panel_of(p));
        stages.offer(0.5 + 0.5 * static_cast<double>(p + 1) / panels);
      }
    });
    Y.store().flush();
  });
}

void make_input(const fs::path& directory) {
  fs::create_directories(directory);
  std::vector<double> values(rows * cols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * i % 1009) / 7;
  std::ofstream(directory / "x.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(8 * values.size()));
}

// The test -----------------------------------------------------------------------------------------------------------

/// Starts this program anew, in a process that takes every opportunity for a checkpoint; how it ended, as of waitpid.
int start(const fs::path& directory, int killed_at) {
  const std::string at = std::to_string(killed_at);
  const pid_t child = fork();
  if (child == 0) {
    setenv("FLAGSTONE_SCRATCH", (directory / "scratch").c_str(), 1);
    setenv("FLAGSTONE_CHECKPOINT_SECONDS", "0", 1);
    execl("/proc/self/exe", "long_program", directory.c_str(), at.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// The elements as they are stored, by file.
std::map<std::string, std::string> stored(const fs::path& zarr) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(zarr)) {
    if (!entry.is_regular_file() || entry.path().string().find("__flagstone") != std::string::npos) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().lexically_relative(zarr)] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

bool check(bool right, const char* what, int killed_at) {
  if (!right) std::fprintf(stderr, "killed at checkpoint %d: %s\n", killed_at, what);
  return right;
}

/// Checkpoint 1 is behind the first stage, n + 1 behind the n-th panel of the second.
bool goes_on(const fs::path& directory, int killed_at, const std::map<std::string, std::string>& expected) {
  make_input(directory);
  const int end = start(directory, killed_at);
  bool right = check(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL, "it was not killed", killed_at);
  const std::vector<Leftover> left = registered_outputs(directory / "scratch");
  right &= check(left.size() == 1 && left[0].resumable() && left[0].operation == "centring", "not listed", killed_at);
  right &= check(!fs::exists(directory / "centred.zarr"), "half of it is to be seen", killed_at);
  right &= check(start(directory, 0) == 0, "it did not go on", killed_at);
  right &= check(counted(directory / "summed") == panels, "the first stage was computed again", killed_at);
  right &= check(counted(directory / "centred") == panels, "a finished panel was computed again", killed_at);
  right &= check(stored(directory / "centred.zarr") == expected, "other bits came out", killed_at);
  right &= check(registered_outputs(directory / "scratch").empty(), "it is still listed", killed_at);
  if (right && !left.empty()) std::printf("killed at %.0f%%, gone on to the same bits\n", 100 * left[0].done);
  return right;
}

int test() {
  const fs::path top = fs::temp_directory_path() / ("flagstone-long-program-" + std::to_string(getpid()));
  make_input(top / "whole");
  bool right = check(start(top / "whole", 0) == 0, "the whole program failed", 0);
  const auto expected = stored(top / "whole" / "centred.zarr");
  for (const int killed_at : {1, 2, 9, 17})
    right = right && goes_on(top / std::to_string(killed_at), killed_at, expected);
  fs::remove_all(top);
  return right ? 0 : 1;
}

int main(int count, char** arguments) try {
  if (count == 1) return test();
  const fs::path directory = arguments[1];
  if (!fs::exists(directory / "x.bin")) make_input(directory);
  compute(directory, count > 2 ? std::atoi(arguments[2]) : 0);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
