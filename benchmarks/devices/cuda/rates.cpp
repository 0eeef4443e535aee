// How fast a device's kernels are on tiles, by edge, with all of its queues busy: for machine profiles, and beside what
// floors.cpp says of whole matrices. Everything lies on the device. One line of JSON.
//   rates [--device cuda|emulated] [--memory GIB] EDGE...
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/kernel/factor/getrf.hpp"
#include "flagstone/kernel/factor/qr.hpp"
#include "flagstone/runtime/spaces/cuda_loader.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"

namespace flagstone {
namespace {

using kernel::Side;
using kernel::Uplo;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Tile bytes_of(std::byte* data, std::size_t n) { return {data, Dtype::uint8, {static_cast<Index>(n)}, {1}, n}; }

/// One kernel on tiles of its own in each work: a task as the algorithms make it.
struct Case {
  std::string name;
  Call call;
  std::vector<Tile> tiles;  // without memory
  double flops;
  std::size_t works = 0;  // in a launch; 0: as many as usual
};

Tile rows_of(Dtype dtype, Index m, Index n) {
  return {nullptr, dtype, {m, n}, c_strides({m, n}, size_of(dtype)), static_cast<std::size_t>(m * n) * size_of(dtype)};
}
Tile columns_of(Dtype dtype, Index m, Index n) {
  Tile t = rows_of(dtype, n, m);
  return std::swap(t.shape[0], t.shape[1]), std::swap(t.strides[0], t.strides[1]), t;
}

/// Tiles of QR as a card has them.
void add_tall_cases(Dtype dtype, Index b, std::vector<Case>& to) {
  const Index high = 16 * b;
  const Tile t = columns_of(dtype, b, b), square = t, panel = columns_of(dtype, high, b);
  const std::size_t work = kernel::qr_work_bytes(dtype, b, b);
  const Tile scratch{nullptr, Dtype::uint8, {static_cast<Index>(work)}, {1}, work};
  const call::QrOptions factor{.ib = b, .work = 3}, apply{.ib = b, .adjoint = true, .work = 4};
  const double flops = 2.0 * static_cast<double>(b) * static_cast<double>(b) * static_cast<double>(high);
  to.push_back({"geqrt 16:1", call::geqrt(dtype, factor, {0}, {1}), {t, panel, square, scratch}, flops, 1});
  to.push_back({"tpqrt 16:1", call::tpqrt(dtype, factor, {0}, {1}, {2}), {t, panel, square, scratch}, flops, 1});
  to.push_back({"tpmqrt 16:1",
                call::tpmqrt(dtype, apply, {0}, {1}, {2}, {3}),
                {panel, t, square, panel, scratch},
                2 * flops,
                1});
}

std::vector<Case> cases(Dtype dtype, Index b) {
  const double cube = static_cast<double>(b) * static_cast<double>(b) * static_cast<double>(b);
  const Tile square = rows_of(dtype, b, b), by_columns = columns_of(dtype, b, b);
  const Index ib = 32;
  const Tile t = columns_of(dtype, ib, b),
             scratch{nullptr, Dtype::uint8, {16 * ib * b}, {1}, static_cast<std::size_t>(16 * ib * b)};
  const call::QrOptions qr{.ib = ib, .work = 4}, adjoint{.ib = ib, .adjoint = true, .work = 4};
  std::vector<Case> all{
      {"gemm", call::gemm(dtype, -1, {0}, {1, true, false, {}}, 1, {2}), {square, square, square}, 2 * cube},
      {"herk", call::herk(dtype, Uplo::lower, -1, {0}, 1, {1}), {square, square}, cube},
      {"trsm",
       call::trsm(dtype, Side::right, Uplo::upper, false, 1, {0, true, false, {}}, {1}),
       {square, square},
       cube},
      {"potrf", call::potrf(dtype, Uplo::lower, {0}, {}), {square}, cube / 3},
      {"geqrt", call::geqrt(dtype, qr, {0}, {1}), {t, by_columns, t, t, scratch}, 4 * cube / 3},
      {"tpqrt", call::tpqrt(dtype, qr, {0}, {1}, {2}), {t, by_columns, by_columns, t, scratch}, 2 * cube},
      {"tpmqrt",
       call::tpmqrt(dtype, adjoint, {0}, {1}, {2}, {3}),
       {by_columns, t, by_columns, by_columns, scratch},
       4 * cube},
      {"copy", call::copy(dtype, {0}, {1}), {square, square}, 0},
  };
  if (b == 512) add_tall_cases(dtype, b, all);
  return all;
}

/// Seconds of one work, `works` in each launch, all queues busy. Matrices are diagonally dominant: no kernel stops
/// early.
double seconds_of(Device& device, const Case& what, std::size_t works, int rounds) {
  const std::vector<Call> calls{what.call};
  const std::size_t space = device.workspace_bytes(calls, what.tiles);
  std::byte* at = device.memory();
  const auto take = [&](std::size_t bytes) { return std::exchange(at, at + (bytes + 255) / 256 * 256); };
  std::size_t largest = 0;
  for (const Tile& t : what.tiles) largest = std::max(largest, t.bytes);
  std::vector<std::byte> values(largest);
  const Tile& first = what.tiles[0];
  std::mt19937_64 random(std::random_device{}());
  std::uniform_real_distribution<double> uniform(-1, 1);
  const Index n = first.shape[1], count = static_cast<Index>(largest / size_of(first.dtype));
  visit_blas_type(first.dtype, [&]<class T>(T) {
    T* const x = reinterpret_cast<T*>(values.data());
    for (Index i = 0; i < count; ++i)
      x[i] = static_cast<T>(uniform(random) + (i % (n + 1) == 0 ? 2.0 * static_cast<double>(n) : 0));
  });
  const int queues = device.properties().kernel_queues;
  std::vector<std::vector<std::vector<Tile>>> tiles(static_cast<std::size_t>(queues));
  std::vector<std::vector<DeviceWork>> batches(static_cast<std::size_t>(queues));
  const auto end = device.memory() + device.properties().memory;
  for (int q = 0; q < queues; ++q) {
    auto& mine = tiles[static_cast<std::size_t>(q)];
    mine.assign(works, what.tiles);
    for (auto& work : mine) {
      for (Tile& t : work) {
        t.data = take(t.bytes);
        if (at > end) return -1;
        std::promise<std::exception_ptr> done;
        device.copy_in(bytes_of(values.data(), t.bytes), bytes_of(t.data, t.bytes),
                       [&](std::exception_ptr e) { done.set_value(e); });
        if (const auto e = done.get_future().get()) std::rethrow_exception(e);
      }
      std::byte* const memory = take(space);
      if (at > end) return -1;
      batches[static_cast<std::size_t>(q)].push_back({calls, work, memory});
    }
  }
  double begin = 0;
  for (const int turn : {0, 1}) {  // the first one warms up
    begin = now();
    std::vector<std::promise<std::exception_ptr>> done(static_cast<std::size_t>(turn == 0 ? queues : queues * rounds));
    for (std::size_t i = 0; i < done.size(); ++i)
      device.launch(batches[i % static_cast<std::size_t>(queues)], static_cast<int>(i) % queues,
                    [&done, i](std::exception_ptr e) { done[i].set_value(e); });
    for (auto& one : done)
      if (const auto e = one.get_future().get()) std::rethrow_exception(e);
  }
  return (now() - begin) / static_cast<double>(works) / (queues * rounds);
}

/// Bytes a second of tiles of host memory that is not locked in place, of a matrix four tiles wide, one after the
/// other.
double copy_rate(Device& device, bool in) {
  const Index edge = device.properties().memory >> 30 ? 2048 : 256, tiles = 16;
  const Tile host = rows_of(Dtype::float64, edge * tiles / 4, edge * 4);
  std::vector<std::byte> memory(host.bytes, std::byte{1});
  const double begin = now();
  std::vector<std::promise<std::exception_ptr>> done(static_cast<std::size_t>(tiles));
  for (Index t = 0; t < tiles; ++t) {
    Tile here = subtile(host, {{t / 4 * edge, t % 4 * edge}, {edge, edge}}),
         there = rows_of(Dtype::float64, edge, edge);
    here.data = memory.data() + t / 4 * edge * host.strides[0] + t % 4 * edge * host.strides[1];
    there.data = device.memory() + t % 2 * static_cast<Index>(there.bytes);
    const auto told = [&done, t](std::exception_ptr e) { done[static_cast<std::size_t>(t)].set_value(e); };
    in ? device.copy_in(here, there, told) : device.copy_out(there, here, told);
  }
  for (auto& one : done)
    if (const auto e = one.get_future().get()) std::rethrow_exception(e);
  return static_cast<double>(host.bytes) / (now() - begin);
}

int run(int argc, char** argv) {
  std::string kind = "cuda";
  double memory = 8;
  std::vector<Index> edges;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--device" && i + 1 < argc)
      kind = argv[++i];
    else if (word == "--memory" && i + 1 < argc)
      memory = std::atof(argv[++i]);
    else
      edges.push_back(std::atoll(argv[i]));
  }
  const auto bytes = static_cast<std::uint64_t>(memory * 1024 * 1024 * 1024) / 256 * 256;
  const auto device = kind == "cuda" ? open_cuda(0, bytes) : open_emulated({.memory = bytes});
  std::printf("{\"device\": \"%s\", \"ordinary_in\": %.4g, \"ordinary_out\": %.4g, \"rates\": [",
              device->properties().description.c_str(), copy_rate(*device, true), copy_rate(*device, false));
  bool comma = false;
  for (const Dtype dtype : {Dtype::float32, Dtype::float64})
    for (const Index edge : edges)
      for (const Case& one : cases(dtype, edge)) {
        if (one.name == "potrf" && kind != "cuda") continue;  // a factor is not positive definite: it stops early
        const double seconds = seconds_of(*device, one,
                                          one.works     ? one.works
                                          : edge <= 512 ? 16
                                                        : 4,
                                          one.name == "potrf" ? 1 : 3);
        if (seconds < 0) continue;
        const double moved = 2.0 * static_cast<double>(edge * edge) * static_cast<double>(size_of(dtype));
        std::printf(
            "%s{\"kernel\": \"%s\", \"dtype\": \"%s\", \"edge\": %lld, \"seconds\": %.4g, \"per_second\": %.4g}",
            comma ? ", " : "", one.name.c_str(), std::string(name_of(dtype)).c_str(), static_cast<long long>(edge),
            seconds, (one.flops > 0 ? one.flops : moved) / seconds);
        std::fprintf(stderr, "%-12s %-8s %5lld  %9.1f us  %7.2f %s\n", one.name.c_str(),
                     std::string(name_of(dtype)).c_str(), static_cast<long long>(edge), seconds * 1e6,
                     (one.flops > 0 ? one.flops : moved) / seconds / 1e12, one.flops > 0 ? "TF/s" : "TB/s");
        comma = true;
      }
  std::printf("]}\n");
  return 0;
}

}  // namespace
}  // namespace flagstone

int main(int argc, char** argv) {
  try {
    return flagstone::run(argc, argv);
  } catch (const std::exception& error) {
    std::printf("]}\n");
    std::fprintf(stderr, "rates: %s\n", error.what());
    return 1;
  }
}
