// Arrays on disk: opened by their path, read inside the limit, written anew in other chunks and turned, and looked at
// in one fused pass; what it would cost is told before it runs. find_package(flagstone), flagstone::flagstone.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <flagstone/flagstone.hpp>

using namespace flagstone;

constexpr Index rows = 1200, cols = 900;

double value(Index i, Index j) { return std::sin(static_cast<double>(i)) + 0.01 * static_cast<double>(j); }

/// A .npy, as another program leaves it.
void make(Runtime& runtime, const std::string& path) {
  const Array made = create_npy(path, {rows, cols}, Dtype::float64);
  std::vector<double> band(100 * cols);
  for (Index first = 0; first < rows; first += 100) {
    for (Index i = 0; i < 100; ++i)
      for (Index j = 0; j < cols; ++j) band[static_cast<std::size_t>(i * cols + j)] = value(first + i, j);
    runtime.write(made, {{first, 0}, {100, cols}}, tile_of(band.data(), {100, cols}));
  }
  made.store().flush();
}

bool run(const std::filesystem::path& directory) {
  Runtime runtime({.memory = 512 * MiB, .workers = 2, .scratch = directory / "scratch"});
  make(runtime, directory / "a.npy");

  const Array A = open(directory / "a.npy");  // or a Zarr array, or a member of a group
  const Array part = runtime.read(A, {{10, 20}, {3, 4}});
  bool right = elements_of<double>(part)[5] == value(11, 21);

  const restructure::RechunkTo columns{.path = directory / "columns.zarr",
                                       .stored = {.chunks = {rows, 60}, .codec = "blosc-lz4"}};
  const auto planned = restructure::plan_rechunk(runtime, A, columns);
  std::printf("rechunk would read %s in %d pass(es), with at least %s of memory\n",
              format_bytes(planned.statistics.bytes_read).c_str(), planned.passes,
              format_bytes(planned.statistics.least_memory).c_str());
  const Array B = restructure::rechunk(runtime, A, columns);
  const Array T = restructure::transpose(runtime, B, {.path = directory / "turned.zarr"});

  const Array C = create_zarr_array(directory / "c.zarr", {rows, cols}, Dtype::float32, {.chunks = {300, 300}});
  elementwise::Fused pass;
  const elementwise::Value x = pass.read(A), t = pass.read(T, true);
  pass.store((log1p(x * x) / 2).as(Dtype::float32), C);
  const Array apart = pass.reduce(elementwise::Reduce::max, abs(x - t));
  const Array means = pass.reduce(elementwise::Reduce::mean, x, {.axes = {{0}}});
  const Statistics would = runtime.plan(pass), did = runtime.run(pass);
  C.store().flush();
  std::printf("one pass: %s read, %s planned, %llu tasks\n", format_bytes(did.bytes_read).c_str(),
              format_bytes(would.bytes_read).c_str(), static_cast<unsigned long long>(did.tasks));

  double mean = 0;
  for (Index i = 0; i < rows; ++i) mean += value(i, 7) / rows;
  const double seventh = elements_of<double>(means)[7];
  const float stored = elements_of<float>(runtime.read(open(directory / "c.zarr"), {{5, 6}, {1, 1}}))[0];
  right = right && would.bytes_read == did.bytes_read && elements_of<double>(apart)[0] == 0 &&
          std::abs(seventh - mean) < 1e-10 && std::abs(stored - std::log1p(value(5, 6) * value(5, 6)) / 2) < 1e-6;

  try {  // what does not fit is refused before it is read, with the limit that works
    Runtime({.memory = 1 * MiB}).read(A, whole(A.shape()));
    return false;
  } catch (const BudgetError& error) {
    std::printf("%s\n", error.what());
  }
  return right;
}

int main() try {
  const auto directory = std::filesystem::temp_directory_path() / "flagstone-stored-array";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const bool right = run(directory);
  std::filesystem::remove_all(directory);
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
