// A time loop with a kernel of one's own, which is no sum of weights, beside the same steps in memory: the same bits.
// find_package(flagstone), flagstone::flagstone.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <flagstone/flagstone.hpp>
#include <vector>

using namespace flagstone;

constexpr Index planes = 96, rows = 128, columns = 512, steps = 24;

/// Heat that flows faster where it is hot: no sum of weights.
struct Melt {
  float rate;
  void operator()(const stencil::Row<float>& row) const {
    const float *u = row(), *below = row(-1), *above = row(1), *left = row(0, -1), *right = row(0, 1);
    float* const to = row.to();
    for (Index x = 0; x < row.size(); ++x) {
      const float around = below[x] + above[x] + left[x] + right[x] + u[x - 1] + u[x + 1] - 6 * u[x];
      to[x] = u[x] + rate * u[x] * around;
    }
  }
};

/// The same steps in memory, in the same order of operations.
std::vector<float> in_memory(std::vector<float> u, const Melt& melt) {
  std::vector<float> next(u.size());
  const auto at = [&](Index z, Index y, Index x) {
    z = std::clamp<Index>(z, 0, planes - 1), y = std::clamp<Index>(y, 0, rows - 1);
    return u[static_cast<std::size_t>((z * rows + y) * columns + std::clamp<Index>(x, 0, columns - 1))];
  };
  for (Index step = 0; step < steps; ++step) {
    for (Index z = 0; z < planes; ++z)
      for (Index y = 0; y < rows; ++y)
        for (Index x = 0; x < columns; ++x) {
          const float around = at(z - 1, y, x) + at(z + 1, y, x) + at(z, y - 1, x) + at(z, y + 1, x) + at(z, y, x - 1) +
                               at(z, y, x + 1) - 6 * at(z, y, x);
          next[static_cast<std::size_t>((z * rows + y) * columns + x)] = at(z, y, x) + melt.rate * at(z, y, x) * around;
        }
    u.swap(next);
  }
  return u;
}

bool run(const std::filesystem::path& directory) {
  Runtime runtime({.memory = 96 * MiB, .workers = 2, .scratch = directory});
  const Array from = create_npy(directory / "field.npy", {planes, rows, columns}, Dtype::float32);
  const Array to = create_npy(directory / "after.npy", {planes, rows, columns}, Dtype::float32);
  std::vector<float> field(planes * rows * columns);
  for (std::size_t i = 0; i < field.size(); ++i) field[i] = static_cast<float>((i * 2654435761u >> 20) % 1000) / 1000;
  runtime.write(from, {{0, 0, 0}, {planes, rows, columns}}, tile_of(field.data(), {planes, rows, columns}));
  from.store().flush();

  const Melt melt{0.1F};
  stencil::Problem problem{.from = {from}, .to = {to}, .scratch = runtime.scratch("melt")};
  for (auto& sides : problem.space.edges) sides[0].edge = sides[1].edge = kernel::Edge::neumann;
  const auto loop = stencil::loop_of<float>(std::move(problem), steps, {1, 1, 1}, 9, melt);
  stencil::Scheme scheme;
  const Statistics did = runtime.run([&](Graph& graph) { scheme = stencil::run(graph, loop, {}); });
  to.store().flush();
  std::printf("%s, %lld steps a superstep, %s read, %s written\n", std::string(name_of(scheme.method)).c_str(),
              static_cast<long long>(scheme.depth), format_bytes(did.bytes_read).c_str(),
              format_bytes(did.bytes_written).c_str());

  std::vector<float> made(field.size());
  runtime.read(to, {{0, 0, 0}, {planes, rows, columns}}, tile_of(made.data(), {planes, rows, columns}));
  return made == in_memory(std::move(field), melt);
}

int main() try {
  const auto directory = std::filesystem::temp_directory_path() / "flagstone-stencil-functor";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const bool right = run(directory);
  std::filesystem::remove_all(directory);
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
