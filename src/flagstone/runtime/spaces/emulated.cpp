#include "flagstone/runtime/spaces/emulated.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/spaces/arena.hpp"
#include "flagstone/runtime/spaces/emulated_queues.hpp"

namespace flagstone {
namespace {

/// No memory of a process lies where this bit is set and the next ones are not: with 48 bits of addresses it makes none
/// that a processor accepts, with 57 the kernel maps nothing there unasked. (Bit 46 will not do: it is set in what mmap
/// returns.)
constexpr std::uintptr_t bias = std::uintptr_t{1} << 55;

std::byte* biased(std::byte* memory) noexcept {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory) + bias);
}
std::byte* without_bias(std::byte* address) noexcept {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) - bias);
}

/// It has a limit of its own: it is no part of what the process holds (SetAside). NaN at first in every dtype that has
/// one: nothing is read that was not copied or computed.
class Mapping {
 public:
  Mapping(const std::string& name, std::size_t bytes) : bytes_(bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      throw DeviceError(name + ": its " + format_bytes(bytes) + " are not to be had; give it less memory.");
    data_ = static_cast<std::byte*>(at);
    std::memset(data_, 0xff, bytes);
    aside_.emplace(align_up(bytes));
  }
  Mapping(const Mapping&) = delete;
  ~Mapping() {
    aside_.reset();
    ::munmap(data_, bytes_);
  }
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::optional<SetAside> aside_;
};

constexpr Kernel device_kernels[]{Kernel::zero,
                                  Kernel::fill,
                                  Kernel::copy,
                                  Kernel::copy_lower,
                                  Kernel::add,
                                  Kernel::scale,
                                  Kernel::gemm,
                                  Kernel::convert,
                                  Kernel::mirror,
                                  Kernel::take,
                                  Kernel::herk,
                                  Kernel::trsm,
                                  Kernel::potrf,
                                  Kernel::getrf,
                                  Kernel::laswp,
                                  Kernel::geqrt,
                                  Kernel::tpqrt,
                                  Kernel::gemqrt,
                                  Kernel::tpmqrt,
                                  Kernel::identity,
                                  Kernel::assemble,
                                  Kernel::evaluate,
                                  Kernel::join,
                                  Kernel::finish,
                                  Kernel::csr_pack,
                                  Kernel::csr_finish,
                                  Kernel::csr_gram_matrix,
                                  Kernel::csr_rows_multiply,
                                  Kernel::csr_rows_multiply_transposed,
                                  Kernel::csr_rows_gram,
                                  Kernel::csr_fold,
                                  Kernel::csr_fold_join,
                                  Kernel::csr_semiring,
                                  Kernel::csr_semiring_transposed,
                                  Kernel::csr_semiring_start,
                                  Kernel::csr_semiring_join,
                                  Kernel::center,
                                  Kernel::center_gram,
                                  Kernel::stencil_block,
                                  Kernel::stencil_copy,
                                  Kernel::stencil_strip};

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(EmulatedOptions options)
      : options_(checked(std::move(options))),
        properties_{"emulated",
                    options_.name,
                    "emulated device, " + format_bytes(options_.memory) + " of this machine's memory",
                    options_.memory,
                    options_.kernel_queues,
                    options_.kernel_queues,
                    options_.bytes_per_second,
                    options_.latency_seconds},
        mapping_(options_.name, options_.memory),
        queues_(first_kernel_queue + options_.kernel_queues, options_.reorder) {}

  const DeviceProperties& properties() const noexcept override { return properties_; }
  std::byte* memory() const noexcept override { return biased(mapping_.data()); }

  bool runs(const Call& call) const noexcept override {
    return emulated_has(call.kernel) &&
           std::find(options_.lacks.begin(), options_.lacks.end(), call.kernel) == options_.lacks.end() &&
           host_kernels().find(call.kernel, call.dtype, call.semiring) != nullptr;
  }
  std::size_t workspace_bytes(std::span<const Call>, std::span<const Tile>) const override {
    return options_.bytes_per_workspace;
  }

  void copy_in(const Tile& host, const Tile& device, Done done) override {
    copy(in_queue, EmulatedFault::Step::copy_in, host, device, std::move(done));
  }
  void copy_out(const Tile& device, const Tile& host, Done done) override {
    copy(out_queue, EmulatedFault::Step::copy_out, device, host, std::move(done));
  }
  void launch(std::span<const DeviceWork> batch, int queue, Done done) override;

  // The kernel's page tables are at hand to this device: it only counts.
  void lock_pages(std::span<std::byte> host) override {
    const std::uint64_t now = locked_ += host.size();
    for (std::uint64_t most = most_locked_; most < now && !most_locked_.compare_exchange_weak(most, now);) {
    }
  }
  void unlock_pages(std::span<std::byte> host) override { locked_ -= host.size(); }

  DeviceCounts counts() const override {
    DeviceCounts counts;
    counts.copies_in = asked_[step_index(EmulatedFault::Step::copy_in)];
    counts.copies_out = asked_[step_index(EmulatedFault::Step::copy_out)];
    counts.launches = asked_[step_index(EmulatedFault::Step::launch)];
    counts.bytes_in = bytes_in_, counts.bytes_out = bytes_out_;
    counts.locked = locked_, counts.most_locked = most_locked_;
    return counts;
  }

 private:
  static constexpr int in_queue = 0, out_queue = 1, first_kernel_queue = 2;
  static constexpr std::size_t step_index(EmulatedFault::Step step) noexcept { return static_cast<std::size_t>(step); }
  static EmulatedOptions checked(EmulatedOptions options);

  void copy(int queue, EmulatedFault::Step step, const Tile& from, const Tile& to, Done done);
  /// Counts it, and says whether it fails. By the order in which things are asked for: a script is the same every time.
  std::optional<EmulatedFault> ask(EmulatedFault::Step step);
  /// The tile as the device's own code sees it.
  Tile own(const Tile& tile) const;
  void run(const DeviceWork& work) const;

  EmulatedOptions options_;
  DeviceProperties properties_;
  Mapping mapping_;
  std::array<std::atomic<std::uint64_t>, 4> asked_{};
  std::atomic<std::uint64_t> bytes_in_ = 0, bytes_out_ = 0, locked_ = 0, most_locked_ = 0;
  std::atomic<bool> lost_ = false;
  EmulatedQueues queues_;  // last: what is in flight uses the rest
};

std::string name_of(EmulatedFault::Step step) {
  constexpr const char* names[]{"allocation", "copy in", "copy out", "launch"};
  return names[static_cast<std::size_t>(step)];
}

EmulatedOptions EmulatedDevice::checked(EmulatedOptions options) {
  if (options.memory == 0 || options.memory % Arena::alignment != 0)
    throw Error(options.name + ": a device's memory is a multiple of 256 bytes; got " + std::to_string(options.memory) +
                ".");
  if (options.kernel_queues < 1)
    throw Error(options.name + ": a device has one queue of kernels at least; got " +
                std::to_string(options.kernel_queues) + ".");
  if (!(options.bytes_per_second >= 0) || !(options.latency_seconds >= 0))
    throw Error(options.name + ": bandwidth and latency are at least 0.");
  for (const EmulatedFault& fault : options.faults)
    if (fault.step == EmulatedFault::Step::allocation)
      throw DeviceError(options.name + ": its memory is not to be had (allocation 1 fails by script).");
  return options;
}

std::optional<EmulatedFault> EmulatedDevice::ask(EmulatedFault::Step step) {
  const std::uint64_t number = ++asked_[step_index(step)];
  for (const EmulatedFault& fault : options_.faults)
    if (fault.step == step && fault.at == number) {
      if (fault.lost) lost_ = true;
      return fault;
    }
  if (!lost_) return std::nullopt;
  return EmulatedFault{step, number, true};
}

std::exception_ptr error_of(const std::string& device, const EmulatedFault& fault) {
  const std::string what = fault.lost ? ": the device is lost" : "";
  return std::make_exception_ptr(
      DeviceError(device + ": " + name_of(fault.step) + " " + std::to_string(fault.at) + " failed by script" + what));
}

Tile EmulatedDevice::own(const Tile& tile) const {
  Tile seen = tile;
  if (count(tile.shape) == 0) return seen;
  seen.data = without_bias(tile.data);
  std::ptrdiff_t first = 0, end = static_cast<std::ptrdiff_t>(size_of(tile.dtype));
  for (std::size_t d = 0; d < tile.shape.size(); ++d)
    (tile.strides[d] < 0 ? first : end) += tile.strides[d] * (tile.shape[d] - 1);
  end = std::max(end, first + static_cast<std::ptrdiff_t>(tile.bytes));
  const std::byte* const begin = mapping_.data();
  if (seen.data + first < begin || seen.data + end > begin + mapping_.bytes())
    throw DeviceError(options_.name + ": a tile " + to_string(tile.shape) + " does not lie in its memory.");
  return seen;
}

void EmulatedDevice::copy(int queue, EmulatedFault::Step step, const Tile& from, const Tile& to, Done done) {
  const bool in = step == EmulatedFault::Step::copy_in;
  const std::uint64_t bytes = static_cast<std::uint64_t>(count(from.shape)) * size_of(from.dtype);
  (in ? bytes_in_ : bytes_out_) += bytes;
  const std::optional<EmulatedFault> fault = ask(step);
  const double seconds = options_.latency_seconds +
                         (options_.bytes_per_second > 0 ? static_cast<double>(bytes) / options_.bytes_per_second : 0);
  queues_.push(queue, seconds, std::move(done), [this, in, from, to, fault] {
    if (from.dtype != to.dtype || from.shape != to.shape)
      throw DeviceError(options_.name + ": a copy of " + to_string(from.shape) + " to " + to_string(to.shape) + ".");
    const Tile source = in ? from : own(from), target = in ? own(to) : to;
    if (fault) {
      constexpr std::array<std::byte, 16> spoilt{std::byte{0xee}, std::byte{0xee}, std::byte{0xee}, std::byte{0xee}};
      fill(target, spoilt.data());
      std::rethrow_exception(error_of(options_.name, *fault));
    }
    flagstone::copy(source, target);
  });
}

void EmulatedDevice::run(const DeviceWork& work) const {
  std::vector<Tile> tiles;
  tiles.reserve(work.tiles.size());
  for (const Tile& tile : work.tiles) tiles.push_back(own(tile));
  if (options_.bytes_per_workspace > 0) {
    const auto bytes = static_cast<Index>(options_.bytes_per_workspace);
    const Tile workspace = own({work.workspace, Dtype::uint8, {bytes}, {1}, static_cast<std::size_t>(bytes)});
    std::memset(workspace.data, 0xff, workspace.bytes);
  }
  for (const Call& call : work.calls) {
    if (!runs(call))
      throw DeviceError(options_.name + ": it has no " + std::string(flagstone::name_of(call.kernel)) + " of " +
                        std::string(flagstone::name_of(call.dtype)) + ".");
    host_kernels().run(call, tiles);
  }
}

void EmulatedDevice::launch(std::span<const DeviceWork> batch, int queue, Done done) {
  const std::optional<EmulatedFault> fault = ask(EmulatedFault::Step::launch);
  queues_.push(first_kernel_queue + queue, 0, std::move(done),
               [this, works = std::vector<DeviceWork>(batch.begin(), batch.end()), fault] {
                 if (fault) std::rethrow_exception(error_of(options_.name, *fault));
                 for (const DeviceWork& work : works) run(work);
               });
}

}  // namespace

bool emulated_has(Kernel kernel) noexcept {
  return std::find(std::begin(device_kernels), std::end(device_kernels), kernel) != std::end(device_kernels);
}

std::shared_ptr<Device> open_emulated(EmulatedOptions options) {
  return std::make_shared<EmulatedDevice>(std::move(options));
}

}  // namespace flagstone
