#include "flagstone/kernel/stencil/kernel_probe.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <complex>
#include <cstring>
#include <thread>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/base/thread.hpp"
#include "flagstone/kernel/stencil/edges.hpp"

namespace flagstone::kernel {
namespace {

constexpr std::uint64_t cache_block = 256 * KiB;  // of a thread: half a second-level cache, or less
constexpr std::uint64_t memory_block = 24 * MiB;  // of a thread: the third level holds no such block of each
constexpr Index longest_row = 2048;

std::array<std::byte, 16> one(Dtype dtype) {
  std::array<std::byte, 16> bytes{};
  if (dtype == Dtype::complex64 || dtype == Dtype::complex128) {
    const std::complex<float> single{1, 0};
    const std::complex<double> full{1, 0};
    if (dtype == Dtype::complex64)
      std::memcpy(bytes.data(), &single, sizeof(single));
    else
      std::memcpy(bytes.data(), &full, sizeof(full));
    return bytes;
  }
  visit_real_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T value = static_cast<T>(1);
    std::memcpy(bytes.data(), &value, sizeof(T));
  });
  return bytes;
}

/// Planes of a field with ghosts, one after another, and as many of whatever else the kernel reads and writes.
class Block {
 public:
  Block(const ProbedKernel& probed, std::uint64_t most) : probed_(probed) {
    const Axes& reach = probed.kernel->radius();
    const auto item = static_cast<Index>(size_of(probed.dtype));
    columns_ = std::clamp<Index>(probed.shape[2], 1, longest_row);
    pitch_ = static_cast<Index>(align_up(static_cast<std::size_t>((columns_ + 2 * reach[2]) * item), 64)) + 64;
    const auto arrays = static_cast<Index>(2 + (probed.before ? 1 : 0) + probed.coefficients);
    const Index rows = std::max<Index>(1, static_cast<Index>(most) / (pitch_ * arrays));  // of all planes
    rows_ = probed.shape[1] == 1 ? 1 : std::clamp<Index>(rows / (4 * (2 * reach[0] + 1)), 2, 64);
    planes_ = std::max<Index>(1, rows / (rows_ + 2 * reach[1]) - 2 * reach[0]);
    if (probed.shape[0] == 1) planes_ = 1;
    plane_ = (rows_ + 2 * reach[1]) * pitch_, first_ = reach[1] * pitch_ + reach[2] * item;
    array_ = (planes_ + 2 * reach[0]) * plane_;
    bytes_ = static_cast<std::uint64_t>(array_ * arrays);
  }
  std::uint64_t bytes() const { return bytes_; }

  /// Gives the block its memory, full of ones: no sum of them is subnormal.
  void fill(std::byte* data) {
    data_ = data;
    const auto item = static_cast<Index>(size_of(probed_.dtype));
    fill_elements(data, static_cast<Index>(bytes_) / item, one(probed_.dtype), size_of(probed_.dtype));
  }

  /// One step of all planes; returns the updates.
  double sweep(std::byte* scratch) const {
    const Index reach = probed_.kernel->radius()[0];
    std::vector<const std::byte*> around(static_cast<std::size_t>(2 * reach + 1));
    std::vector<CoefficientRows> coefficients(probed_.coefficients);
    const auto item = static_cast<Index>(size_of(probed_.dtype));
    for (Index z = reach; z < reach + planes_; ++z) {
      PlaneCall call;
      call.rows = rows_, call.columns = columns_, call.pitch = call.to_pitch = call.before_pitch = pitch_;
      for (Index dz = -reach; dz <= reach; ++dz) around[static_cast<std::size_t>(dz + reach)] = at(0, z + dz);
      call.planes = around.data(), call.to = at(1, z);
      std::size_t array = 2;
      if (probed_.before) call.before = at(array++, z);
      for (CoefficientRows& rows : coefficients) rows = {at(array++, z), pitch_, item};
      call.coefficients = coefficients;
      probed_.kernel->run(call, scratch);
    }
    return static_cast<double>(planes_ * rows_ * columns_);
  }

 private:
  std::byte* at(std::size_t array, Index z) const {
    return data_ + static_cast<Index>(array) * array_ + z * plane_ + first_;
  }
  const ProbedKernel& probed_;
  Index columns_, rows_ = 1, planes_ = 1, pitch_, plane_ = 0, first_ = 0, array_ = 0;
  std::uint64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

double rate(const ProbedKernel& probed, std::uint64_t most, int threads, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::barrier ready(threads);
  const auto measure = [&](int thread) {
    Block block(probed, most);
    const Buffer memory(block.bytes()), scratch(std::max<std::size_t>(64, probed.kernel->scratch_bytes()));
    block.fill(memory.data());
    block.sweep(scratch.data());
    ready.arrive_and_wait();
    const auto start = Clock::now();
    double updates = 0, passed = 0;
    do updates += block.sweep(scratch.data()), passed = std::chrono::duration<double>(Clock::now() - start).count();
    while (passed < seconds);
    rates[static_cast<std::size_t>(thread)] = updates / passed;
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread)
      others.push_back(start_thread<std::jthread>([&measure, thread] { measure(thread); }));
    measure(0);
  }
  double all = 0;
  for (const double each : rates) all += each;
  return all;
}

}  // namespace

std::uint64_t probe_bytes(const ProbedKernel& probed, int threads) {
  return static_cast<std::uint64_t>(threads) * Block(probed, memory_block).bytes();
}

KernelRates probe(const ProbedKernel& probed, int threads, double seconds) {
  const double cached = rate(probed, cache_block, threads, seconds / 2);
  return {cached, std::min(cached, rate(probed, memory_block, threads, seconds / 2))};
}

}  // namespace flagstone::kernel
