// Routines on a device, end to end: operands in host memory or on disk, a limit for each memory. What they compute is
// checked against float64 at random places first; then each is timed once, warm. One line of JSON; README.md tells
// which options a machine of 128 GiB takes, and floors.cpp what the numbers are held to.
//   figures [--device cuda|emulated] [--product32 N] [--product64 N] [--disk N] [--cholesky N] [--qr M N]
//           [--sparse MILLIONS] [--memory GIB] [--host GIB] [--scratch DIRECTORY]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/factor/qr.hpp"
#include "flagstone/algorithms/linalg/matmul.hpp"
#include "flagstone/algorithms/sparse/csrmm.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/runtime/spaces/cuda_loader.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

struct Options {
  std::string kind = "cuda", scratch = std::filesystem::temp_directory_path().string();
  double host = 8;     // GiB beside what the process holds
  bool plans = false;  // nothing runs
};
bool plans_only = false;  // operands are shapes

/// An emulated device that is cut into a card's tiles.
class AsCard final : public Device {
 public:
  explicit AsCard(std::shared_ptr<Device> inner) : inner_(std::move(inner)), properties_(inner_->properties()) {
    properties_.kind = "cuda";
  }
  const DeviceProperties& properties() const noexcept override { return properties_; }
  std::byte* memory() const noexcept override { return inner_->memory(); }
  bool runs(const Call& call) const noexcept override { return inner_->runs(call); }
  std::size_t workspace_bytes(std::span<const Call> calls, std::span<const Tile> tiles) const override {
    return inner_->workspace_bytes(calls, tiles);
  }
  void copy_in(const Tile& host, const Tile& device, Done done) override {
    inner_->copy_in(host, device, std::move(done));
  }
  void copy_out(const Tile& device, const Tile& host, Done done) override {
    inner_->copy_out(device, host, std::move(done));
  }
  void launch(std::span<const DeviceWork> batch, int queue, Done done) override {
    inner_->launch(batch, queue, std::move(done));
  }
  void lock_pages(std::span<std::byte> host) override { inner_->lock_pages(host); }
  void unlock_pages(std::span<std::byte> host) override { inner_->unlock_pages(host); }
  DeviceCounts counts() const override { return inner_->counts(); }

 private:
  std::shared_ptr<Device> inner_;
  DeviceProperties properties_;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class F>
void on_all_processors(Index n, F&& f) {
  const Index each = std::max<Index>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (Index t = 0; t < each; ++t) threads.emplace_back([&, t] { f(n * t / each, n * (t + 1) / each); });
  for (std::thread& thread : threads) thread.join();
}

const std::uint64_t fresh = std::random_device{}();  // other numbers in each run

/// Uniform in [-1, 1), a function of the seed and the place (SplitMix64).
double number(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = (fresh + seed * 0x9E3779B97F4A7C15) ^ (place * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9, z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

template <class T>
Array random_array(const Shape& shape, std::uint64_t seed) {
  Array array = memory_array(shape, dtype_of<T>());
  if (plans_only) return array;
  const std::span<T> x = elements_of<T>(array);
  on_all_processors(static_cast<Index>(x.size()), [&](Index first, Index end) {
    for (Index i = first; i < end; ++i) x[i] = static_cast<T>(number(seed, static_cast<std::uint64_t>(i)));
  });
  return array;
}

/// Memory that holds nothing that a result could be taken for.
template <class T>
Array poisoned_array(const Shape& shape) {
  Array array = memory_array(shape, dtype_of<T>());
  if (plans_only) return array;
  const std::span<T> x = elements_of<T>(array);
  on_all_processors(static_cast<Index>(x.size()),
                    [&](Index first, Index end) { std::fill(x.begin() + first, x.begin() + end, T(std::nan(""))); });
  return array;
}

std::shared_ptr<Device> open_device(const Options& options, double memory) {
  const auto bytes = static_cast<std::uint64_t>(memory * gib) / 256 * 256;
  return options.kind == "cuda" ? open_cuda(0, bytes) : std::make_shared<AsCard>(open_emulated({.memory = bytes}));
}

RuntimeOptions with_device(const Options& options, std::shared_ptr<Device> device, double host) {
  RuntimeOptions made;
  made.memory = resident_bytes() + static_cast<std::uint64_t>(host * gib);
  made.scratch = options.scratch;
  made.devices = {std::move(device)};
  return made;
}

/// Least of what the driver says is free while it lives.
class FreeMemory {
 public:
  explicit FreeMemory(bool watches) {
    if (watches) thread_ = std::thread([this] { watch(); });
  }
  ~FreeMemory() { stop(); }
  std::uint64_t stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
    return least_;
  }
  static std::uint64_t now() {
    const auto devices = cuda_devices();
    return devices.empty() ? 0 : devices[0].memory;
  }

 private:
  void watch() {
    while (!over_) least_ = std::min(least_, now()), std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::atomic<bool> over_{false};
  std::uint64_t least_ = ~std::uint64_t{0};
  std::thread thread_;
};

/// What a case prints: times, bytes of each space, the worst relative error of what was looked at.
void print(const std::string& name, const std::string& size, const Statistics& done, double seconds, double flops,
           double error, double bound, double peak) {
  std::printf(
      "%s\"%s\": {\"size\": \"%s\", \"seconds\": %.4g, \"flops_per_second\": %.4g, \"error\": %.3g, \"bound\": %.3g",
      name == "begin" ? "" : ", ", name.c_str(), size.c_str(), seconds, flops / seconds, error, bound);
  if (peak > 0) std::printf(", \"driver_peak_over_limit\": %.4f", peak);
  std::printf(", \"spaces\": [");
  for (std::size_t i = 0; i < done.spaces.size(); ++i) {
    const SpaceStatistics& s = done.spaces[i];
    std::printf(
        "%s{\"name\": \"%s\", \"budget\": %llu, \"peak\": %llu, \"bytes_in\": %llu, \"bytes_out\": %llu, "
        "\"launches\": %llu, \"tasks\": %llu, \"busy_seconds\": %.4g}",
        i ? ", " : "", s.name.c_str(), static_cast<unsigned long long>(s.budget),
        static_cast<unsigned long long>(s.peak), static_cast<unsigned long long>(s.bytes_in),
        static_cast<unsigned long long>(s.bytes_out), static_cast<unsigned long long>(s.launches),
        static_cast<unsigned long long>(s.tasks), s.busy_seconds);
  }
  std::printf("]}");
  std::fflush(stdout);
  if (error < 0) return;  // a plan
  std::fprintf(stderr, "%-12s %-18s %9.3f s %9.2f TF/s   error %.2e (bound %.2e)  %s\n", name.c_str(), size.c_str(),
               seconds, flops / seconds / 1e12, error, bound, error <= bound ? "ok" : "WRONG");
  if (!(error <= bound)) std::exit(3);
}

struct Timed {
  Statistics done;
  double seconds = 0, peak = 0;
};

/// One run with the device's memory watched; `limit` GiB of it.
Timed timed(const Options& options, double limit, double host, const std::function<void(Graph&)>& builder) {
  const bool cuda = options.kind == "cuda";
  std::uint64_t context = 0;
  if (cuda) {
    const auto small = open_cuda(0, std::uint64_t{64} << 20);
    context = FreeMemory::now() + (std::uint64_t{64} << 20);
  }
  Timed result;
  FreeMemory free(cuda);
  Runtime runtime(with_device(options, open_device(options, limit), host));
  if (options.plans) {
    result.done = runtime.plan(builder);
    result.seconds = result.done.seconds;
    return result;
  }
  const double begin = now();
  result.done = runtime.run(builder);
  result.seconds = now() - begin;
  if (cuda) result.peak = static_cast<double>(context - std::min(context, free.stop())) / (limit * gib);
  return result;
}

/// Largest |C - A B| at random places over the bound's norm, in eps.
template <class T>
double product_error(const Options& options, const Array& a, const Array& b, const Array& c, Index n) {
  if (options.plans) return -1;
  const std::span<T> x = elements_of<T>(a), y = elements_of<T>(b), z = elements_of<T>(c);
  std::mt19937_64 random(fresh);
  double worst = 0;
  for (int probe = 0; probe < 60; ++probe) {
    const Index i = static_cast<Index>(random() % static_cast<std::uint64_t>(n)),
                j = static_cast<Index>(random() % static_cast<std::uint64_t>(n));
    double sum = 0, size = 0;
    for (Index k = 0; k < n; ++k) {
      const double term = static_cast<double>(x[i * n + k]) * static_cast<double>(y[k * n + j]);
      sum += term, size += std::abs(term);
    }
    const double error = std::abs(static_cast<double>(z[i * n + j]) - sum) / size;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

template <class T>
void product(const Options& options, const std::string& name, Index n, double limit) {
  const Array a = random_array<T>({n, n}, 1), b = random_array<T>({n, n}, 2), c = poisoned_array<T>({n, n});
  const Timed t =
      timed(options, limit, options.host, [&](Graph& graph) { linalg::matmul(graph, {a}, {b}, nullptr, c, {}); });
  const double eps = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52, size = static_cast<double>(n);
  print(name, std::to_string(n), t.done, t.seconds, 2 * size * size * size, product_error<T>(options, a, b, c, n),
        eps * std::sqrt(size), t.peak);
}

void product_from_disk(const Options& options, Index n) {
  const std::string directory = options.scratch + "/flagstone-figures";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const Array a = random_array<float>({n, n}, 1), b = random_array<float>({n, n}, 2);
  const auto operand = [&](const char* name) {
    return options.plans ? planned_array({n, n}, Dtype::float32, default_chunks({n, n}, Dtype::float32))
                         : create_zarr_array(directory + name, {n, n}, Dtype::float32);
  };
  Array stored_a = operand("/a"), stored_b = operand("/b"),
        stored_c = create_zarr_array(directory + "/c", {n, n}, Dtype::float32);
  if (!options.plans) {
    Runtime runtime({.memory = resident_bytes() + static_cast<std::uint64_t>(4 * gib), .scratch = options.scratch});
    const auto tile = [&](const Array& x) {
      return Tile{x.store().memory(), x.dtype(), x.shape(), c_strides(x.shape(), size_of(x.dtype())), x.nbytes()};
    };
    const double begin = now();
    runtime.write(stored_a, whole(a.shape()), tile(a)), runtime.write(stored_b, whole(b.shape()), tile(b));
    stored_a.store().flush(), stored_b.store().flush();
    const double written = now();
    std::printf(", \"disk_write_bytes_per_second\": %.4g", 2.0 * static_cast<double>(a.nbytes()) / (written - begin));
  }
  const Timed t =
      timed(options, 2, 4, [&](Graph& graph) { linalg::matmul(graph, {stored_a}, {stored_b}, nullptr, stored_c, {}); });
  const double size = static_cast<double>(n), flops = 2 * size * size * size;
  if (options.plans) return print("disk", std::to_string(n), t.done, t.seconds, flops, -1, 0, 0);
  stored_c.store().flush();
  Runtime reader({.memory = resident_bytes() + static_cast<std::uint64_t>(8 * gib), .scratch = options.scratch});
  const double begin = now();
  const Array c = reader.read(stored_c, whole(stored_c.shape()));
  std::printf(", \"read_back_bytes_per_second\": %.4g", static_cast<double>(c.nbytes()) / (now() - begin));
  print("disk", std::to_string(n), t.done, t.seconds, flops, product_error<float>(options, a, b, c, n),
        0x1p-23 * std::sqrt(size), t.peak);
  std::filesystem::remove_all(directory);
}

void cholesky(const Options& options, Index n, double limit) {
  const Array a = random_array<double>({n, n}, 3), l = poisoned_array<double>({n, n});
  const std::span<double> x = elements_of<double>(a), y = elements_of<double>(l);
  for (Index i = 0; i < n && !options.plans; ++i)
    x[i * n + i] = 2.0 * static_cast<double>(n) + x[i * n + i];  // the lower triangle is read
  const Timed t = timed(options, limit, options.host, [&](Graph& graph) { linalg::cholesky(graph, {a}, {l}, {}); });
  const double size = static_cast<double>(n), flops = size * size * size / 3;
  if (options.plans) return print("cholesky", std::to_string(n), t.done, t.seconds, flops, -1, 0, 0);
  std::mt19937_64 random(fresh);
  double worst = 0;
  for (int probe = 0; probe < 60; ++probe) {
    Index i = static_cast<Index>(random() % static_cast<std::uint64_t>(n)),
          j = static_cast<Index>(random() % static_cast<std::uint64_t>(n));
    if (probe % 4 == 0) j = i;
    if (i < j) std::swap(i, j);
    double sum = 0, size = std::abs(x[i * n + j]);
    for (Index k = 0; k <= j; ++k) sum += y[i * n + k] * y[j * n + k], size += std::abs(y[i * n + k] * y[j * n + k]);
    const double error = std::abs(sum - x[i * n + j]) / size;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  print("cholesky", std::to_string(n), t.done, t.seconds, flops, worst, 0x1p-52 * std::sqrt(size) * 8, t.peak);
}

void qr(const Options& options, Index m, Index n, double limit) {
  const Array a = random_array<double>({m, n}, 4), r = memory_array({std::min(m, n), n}, Dtype::float64);
  const Timed t = timed(options, limit, options.host, [&](Graph& graph) { linalg::qr_r(graph, {a}, {r}, {}); });
  const double rows = static_cast<double>(m), cols = static_cast<double>(n),
               flops = 2 * cols * cols * (rows - cols / 3);
  const std::string shape = std::to_string(m) + " x " + std::to_string(n);
  if (options.plans) return print("qr", shape, t.done, t.seconds, flops, -1, 0, 0);
  const std::span<double> x = elements_of<double>(a), y = elements_of<double>(r);
  std::mt19937_64 random(fresh);
  double worst = 0;  // of RᵀR - AᵀA over the lengths of the columns
  for (int probe = 0; probe < 24; ++probe) {
    const Index i = static_cast<Index>(random() % static_cast<std::uint64_t>(n)),
                j = probe % 4 == 0 ? i : static_cast<Index>(random() % static_cast<std::uint64_t>(n));
    double of_a = 0, of_r = 0, left = 0, right = 0;
    for (Index k = 0; k < m; ++k)
      of_a += x[k * n + i] * x[k * n + j], left += x[k * n + i] * x[k * n + i], right += x[k * n + j] * x[k * n + j];
    for (Index k = 0; k <= std::min(i, j); ++k) of_r += y[k * n + i] * y[k * n + j];
    const double error = std::abs(of_a - of_r) / std::sqrt(left * right);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  print("qr", shape, t.done, t.seconds, flops, worst, 0x1p-52 * std::sqrt(rows) * 8, t.peak);
}

/// Y = A X: float32 values in rows of 200 over 50,000 columns, X 64 columns, all of it in memory.
void sparse_product(const Options& options, Index millions, double limit) {
  constexpr Index n = 50'000, width = 64, in_row = 200, panel_rows = 8192;
  const Index m = std::max<Index>(1, millions * 1'000'000 / in_row), nnz = m * in_row;
  const Array values = random_array<float>({nnz}, 5), x = random_array<float>({n, width}, 6),
              y = poisoned_array<float>({m, width}), columns = memory_array({nnz}, Dtype::int32),
              pointers = memory_array({m + 1}, Dtype::int64);
  const std::span<std::int32_t> column = elements_of<std::int32_t>(columns);
  const std::span<std::int64_t> pointer = elements_of<std::int64_t>(pointers);
  if (!options.plans)
    on_all_processors(m, [&](Index first, Index end) {
      for (Index i = first; i < end; ++i) {
        pointer[i + 1] = (i + 1) * in_row;
        for (Index p = i * in_row; p < (i + 1) * in_row; ++p)
          column[p] = static_cast<std::int32_t>((number(7, static_cast<std::uint64_t>(p)) + 1) / 2 * n);
      }
    });
  std::vector<CsrPanelRange> panels;
  for (Index row = 0; row < m; row += panel_rows) {
    const Index end = std::min(m, row + panel_rows);
    panels.push_back({row, end, row * in_row, end * in_row});
  }
  CsrMatrix matrix{m, n, nnz, values, columns, pointers, "memory", values.nbytes() + columns.nbytes()};
  const sparse::CsrOperand a = sparse::prepare(matrix, std::move(panels));
  const Timed t =
      timed(options, limit, options.host, [&](Graph& graph) { sparse::csrmm(graph, a, {x}, nullptr, {y}, {}); });
  const double flops = 2.0 * static_cast<double>(nnz) * static_cast<double>(width);
  const std::string size = std::to_string(nnz / 1'000'000) + "M x " + std::to_string(width);
  if (options.plans) return print("sparse", size, t.done, t.seconds, flops, -1, 0, 0);
  const std::span<float> v = elements_of<float>(values), from = elements_of<float>(x), to = elements_of<float>(y);
  std::mt19937_64 random(fresh);
  double worst = 0;
  for (int probe = 0; probe < 2000; ++probe) {
    const Index i = probe == 0 ? m - 1 : static_cast<Index>(random() % static_cast<std::uint64_t>(m)),
                j = static_cast<Index>(random() % static_cast<std::uint64_t>(width));
    double sum = 0, all = 0;
    for (Index p = i * in_row; p < (i + 1) * in_row; ++p) {
      const double term = static_cast<double>(v[p]) * static_cast<double>(from[column[p] * width + j]);
      sum += term, all += std::abs(term);
    }
    const double error = std::abs(static_cast<double>(to[i * width + j]) - sum) / all;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  print("sparse", size, t.done, t.seconds, flops, worst, 0x1p-23 * std::sqrt(double{in_row}), t.peak);
}

int run(int argc, char** argv) {
  Options options;
  double memory = 8;
  std::printf("{\"run\": \"figures\"");
  if (const auto devices = cuda_devices(); !devices.empty())
    std::printf(", \"card\": \"%s\"", devices[0].description.c_str());
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const Index n = std::atoll(argv[i + 1]);
    if (option == "--device") options.kind = argv[i + 1];
    if (option == "--plan") options.plans = plans_only = n != 0;
    if (option == "--memory") memory = std::atof(argv[i + 1]);
    if (option == "--host") options.host = std::atof(argv[i + 1]);
    if (option == "--scratch") options.scratch = argv[i + 1];
    if (option == "--product32") product<float>(options, "product32", n, memory);
    if (option == "--product64") product<double>(options, "product64", n, memory);
    if (option == "--disk") product_from_disk(options, n);
    if (option == "--cholesky") cholesky(options, n, memory);
    if (option == "--sparse") sparse_product(options, n, std::min(memory, 2.0));
    if (option == "--qr" && i + 2 < argc) qr(options, n, std::atoll(argv[i + 2]), std::min(memory, 2.0)), ++i;
  }
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace flagstone

int main(int argc, char** argv) {
  try {
    return flagstone::run(argc, argv);
  } catch (const std::exception& error) {
    std::printf("}\n");
    std::fprintf(stderr, "figures: %s\n", error.what());
    return 1;
  }
}
