#include "flagstone/cuda/cuda_device.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/cuda/copies.hpp"

namespace flagstone::cuda {

struct CudaDevice::Lane {
  Lane(int ordinal, std::byte* words, std::byte* workspace, Health& health, bool tf32)
      : queue(ordinal, words, health), with{.stream = queue.stream(), .tf32 = tf32} {
    try {
      make(workspace, tf32);
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~Lane() { destroy(); }
  Lane(const Lane&) = delete;

  void make(std::byte* workspace, bool tf32) {
    check(cublasCreate(&with.blas), "starting cuBLAS");
    check(cublasSetStream(with.blas, with.stream), "starting cuBLAS");
    if (workspace != nullptr) check(cublasSetWorkspace(with.blas, workspace, blas_workspace), "starting cuBLAS");
    check(cublasSetMathMode(with.blas, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH), "starting cuBLAS");
    check(cusolverDnCreate(&with.solver), "starting cuSOLVER");
    check(cusolverDnSetStream(with.solver, with.stream), "starting cuSOLVER");
    check(cusolverDnCreateParams(&with.params), "starting cuSOLVER");
  }
  void destroy() {
    queue.finish();
    if (with.params != nullptr) (void)cusolverDnDestroyParams(with.params);
    if (with.solver != nullptr) (void)cusolverDnDestroy(with.solver);
    if (with.blas != nullptr) (void)cublasDestroy(with.blas);
  }

  Queue queue;
  Libraries with;
};

struct CudaDevice::Question {
  const Call* call;
  std::span<const Tile> tiles;
  Verdict verdict;
  std::size_t word;
};

namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Null, or in one sentence why nothing runs here.
std::string what_is_missing(int* there) {
  int driver = 0, toolkit = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&toolkit);
  if (driver == 0) return "cuda: the NVIDIA driver does not answer; look at what nvidia-smi says.";
  if (driver < toolkit / 1000 * 1000)
    return "cuda: the driver knows CUDA " + version_text(driver) + " and Flagstone's library was built with " +
           version_text(toolkit) + "; install a newer driver.";
  const cudaError_t status = cudaGetDeviceCount(there);
  if (status == cudaSuccess && *there > 0) return {};
  (void)cudaGetLastError();
  if (status == cudaSuccess || status == cudaErrorNoDevice)
    return "cuda: the driver is there and no device; look at CUDA_VISIBLE_DEVICES and at what nvidia-smi says.";
  return "cuda: the driver answers \"" + std::string(cudaGetErrorString(status)) + "\"; look at what nvidia-smi says.";
}

DeviceProperties properties_of(int ordinal) {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, ordinal), "looking at a device");
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  DeviceProperties made;
  made.kind = "cuda", made.name = "cuda:" + std::to_string(ordinal);
  made.description =
      std::string(found.name) + ", " + format_bytes(found.totalGlobalMem) + ", driver for CUDA " + version_text(driver);
  made.kernel_queues = CudaDevice::kernel_queues;
  return made;
}

}  // namespace

void CudaDevice::take_memory(std::uint64_t bytes) {
  void* taken = nullptr;
  if (const cudaError_t status = cudaMalloc(&taken, bytes); status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    throw DeviceError(properties_.name + ": " + format_bytes(bytes) + " of device memory was asked for and " +
                      format_bytes(free) + " is free; give less.");
  } else {
    check(status, "taking device memory");
  }
  memory_ = static_cast<std::byte*>(taken);
}

CudaDevice::CudaDevice(int ordinal, std::uint64_t memory, Kernels kernels)
    : ordinal_(ordinal), properties_(properties_of(ordinal)) {
  const std::string& who = properties_.name;
  const bool computes = kernels != Kernels::none;
  if (computes && memory < least)
    throw BudgetError(who + ": " + format_bytes(memory) + " of device memory was given; at least " +
                          format_bytes(least) + " is needed.",
                      least);
  check(cudaSetDevice(ordinal), "choosing a device");
  if (computes && !has_kernels()) {
    cudaDeviceProp found{};
    check(cudaGetDeviceProperties(&found, ordinal), "looking at a device");
    throw DeviceError(
        who + ": the device has compute capability " + std::to_string(found.major) + "." + std::to_string(found.minor) +
        " and Flagstone's kernels were compiled for " + FLAGSTONE_CUDA_ARCHITECTURES +
        "; build it with FLAGSTONE_CUDA_ARCHITECTURES=" + std::to_string(found.major * 10 + found.minor) + ".");
  }
  properties_.kernel_queues = computes ? kernel_queues : 0;
  properties_.memory = computes ? (memory - reserve) / 256 * 256 : (memory + 255) / 256 * 256;
  take_memory(properties_.memory + (computes ? reserve : copies_reserve));
  try {
    std::byte* at = memory_ + properties_.memory;
    const auto next = [&at](std::size_t bytes) { return std::exchange(at, at + bytes); };
    in_ = std::make_unique<Queue>(ordinal, next(Queue::device_bytes), health_);
    out_ = std::make_unique<Queue>(ordinal, next(Queue::device_bytes), health_);
    for (int i = 0; i < properties_.kernel_queues; ++i) {
      std::byte *const words = next(Queue::device_bytes), *const workspace = next(blas_workspace);
      lanes_.push_back(std::make_unique<Lane>(ordinal, words, workspace, health_, kernels == Kernels::tf32));
    }
    if (!computes) return;
    // Before a run begins, so that they count as what the process holds.
    bounce_in_ = std::make_unique<Bounce>(in_->stream()), bounce_out_ = std::make_unique<Bounce>(out_->stream());
    check(cusolverDnCreate(&sizes_.solver), "starting cuSOLVER");
    check(cusolverDnCreateParams(&sizes_.params), "starting cuSOLVER");
  } catch (...) {
    close();
    throw;
  }
}

void CudaDevice::close() {
  (void)cudaSetDevice(ordinal_);
  for (const auto& queue : {in_.get(), out_.get()})
    if (queue != nullptr) queue->finish();
  bounce_in_.reset(), bounce_out_.reset(), in_.reset(), out_.reset();
  lanes_.clear();  // each when all that it was given is done
  for (const auto& [data, bytes] : locked_) (void)cudaHostUnregister(data);
  if (sizes_.params != nullptr) (void)cusolverDnDestroyParams(sizes_.params);
  if (sizes_.solver != nullptr) (void)cusolverDnDestroy(sizes_.solver);
  (void)cudaFree(memory_);
}

CudaDevice::~CudaDevice() { close(); }

std::size_t CudaDevice::workspace_bytes(std::span<const Call> calls, std::span<const Tile> tiles) const {
  std::vector<Tile> shapes(tiles.begin(), tiles.end());
  for (Tile& shape : shapes)
    if (shape.data == nullptr) shape.data = memory_;  // some libraries refuse null even for a question
  std::lock_guard lock(sizes_mutex_);
  std::size_t most = 0;
  for (const Call& call : calls) {
    Work work{call, shapes, Workspace(), sizes_};
    find(call).run(work);
    most = std::max(most, work.space.most());
  }
  return most;
}

bool CudaDevice::is_locked(const Tile& host) const {
  const std::lock_guard lock(locked_mutex_);
  const auto after = locked_.upper_bound(host.data);
  if (after == locked_.begin()) return false;
  const auto& [first, bytes] = *std::prev(after);
  std::byte* last = host.data + size_of(host.dtype);
  for (std::size_t d = 0; d < host.shape.size(); ++d) last += (host.shape[d] - 1) * host.strides[d];
  return last <= first + bytes;
}

void CudaDevice::copy_in(const Tile& host, const Tile& device, Done done) {
  ++copies_in_, bytes_in_ += static_cast<std::uint64_t>(count(host.shape)) * size_of(host.dtype);
  in_->push({[this, host, device, locked = is_locked(host)](Slot&) {
               if (locked) return copy_rows(in_->stream(), host, device, cudaMemcpyHostToDevice);
               if (!bounce_in_) bounce_in_ = std::make_unique<Bounce>(in_->stream());
               bounce_in_->in(host, device);
             },
             {},
             std::move(done)});
}

void CudaDevice::copy_out(const Tile& device, const Tile& host, Done done) {
  ++copies_out_, bytes_out_ += static_cast<std::uint64_t>(count(host.shape)) * size_of(host.dtype);
  out_->push({[this, host, device, locked = is_locked(host)](Slot&) {
                if (locked) return copy_rows(out_->stream(), device, host, cudaMemcpyDeviceToHost);
                if (!bounce_out_) bounce_out_ = std::make_unique<Bounce>(out_->stream());
                bounce_out_->out(device, host);
              },
              {},
              std::move(done)});
}

void CudaDevice::run(const Lane& lane, std::span<const DeviceWork> batch, Slot& slot,
                     std::vector<Question>& questions) {
  for (std::size_t step = 0; step < batch.front().calls.size(); ++step) {
    const Call& first = batch.front().calls[step];
    if (first.kernel == Kernel::gemm && batch.size() > 1) {
      std::vector<const Call*> calls;
      std::vector<std::span<const Tile>> tiles;
      for (const DeviceWork& one : batch) calls.push_back(&one.calls[step]), tiles.push_back(one.tiles);
      if (run_small_products(calls, tiles, lane.with.stream)) continue;
    }
    for (const DeviceWork& one : batch) {
      const Call& call = one.calls[step];
      const Entry entry = find(call);
      if (!entry)
        throw DeviceError("cuda: there is no " + std::string(name_of(call.kernel)) + " of " +
                          std::string(name_of(call.dtype)) + "; compute it on the host.");
      const std::size_t word = slot.used();
      Work work{call, one.tiles, Workspace(one.workspace), lane.with, &slot};
      entry.run(work);
      if (slot.used() > word) questions.push_back({&call, one.tiles, entry.verdict, word});
    }
  }
}

namespace {

/// Multiplications of a work from which on it fills a queue by itself.
constexpr double large = 1 << 25;

bool is_large(const DeviceWork& work) {
  double flops = 0;
  for (const Call& call : work.calls) flops += call.flops;
  return flops > large;
}

/// Tells when so many parts of a launch are done, and what the first of them threw.
Device::Done when_all(std::size_t parts, Device::Done done) {
  struct Parts {
    std::mutex mutex;
    std::size_t left;
    std::exception_ptr thrown;
    Device::Done done;
  };
  auto all = std::make_shared<Parts>();
  all->left = parts, all->done = std::move(done);
  return [all](std::exception_ptr thrown) {
    {
      const std::lock_guard lock(all->mutex);
      if (thrown && !all->thrown) all->thrown = thrown;
      if (--all->left > 0) return;
    }
    all->done(all->thrown);
  };
}

}  // namespace

/// Works that are large by themselves go to all queues: one stream would take them one after the other.
void CudaDevice::launch(std::span<const DeviceWork> batch, int queue, Done done) {
  ++launches_;
  const std::size_t lanes = lanes_.size(),
                    parts = !batch.empty() && is_large(batch.front()) ? std::min(lanes, batch.size()) : 1;
  const Done one_done = parts > 1 ? when_all(parts, std::move(done)) : std::move(done);
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t from = batch.size() * p / parts, end = batch.size() * (p + 1) / parts;
    launch_on(*lanes_[(static_cast<std::size_t>(queue) + p) % lanes], batch.subspan(from, end - from), one_done);
  }
}

void CudaDevice::launch_on(Lane& lane, std::span<const DeviceWork> batch, Done done) {
  auto questions = std::make_shared<std::vector<Question>>();
  lane.queue.push({[&lane, questions, works = std::vector<DeviceWork>(batch.begin(), batch.end())](Slot& slot) {
                     if (!works.empty()) run(lane, works, slot, *questions);
                   },
                   [questions](const Slot& slot) {
                     for (const Question& q : *questions) q.verdict(*q.call, q.tiles, slot.at(q.word));
                   },
                   std::move(done)});
}

void CudaDevice::lock_pages(std::span<std::byte> host) {
  (void)cudaSetDevice(ordinal_);
  std::lock_guard lock(locked_mutex_);
  if (cudaHostRegister(host.data(), host.size(), cudaHostRegisterPortable) == cudaSuccess)
    locked_[host.data()] = host.size();
  else
    (void)cudaGetLastError();  // copies are slower, nothing else
}

void CudaDevice::unlock_pages(std::span<std::byte> host) {
  (void)cudaSetDevice(ordinal_);
  std::lock_guard lock(locked_mutex_);
  if (locked_.erase(host.data()) > 0) (void)cudaHostUnregister(host.data());
}

DeviceCounts CudaDevice::counts() const { return {copies_in_, copies_out_, bytes_in_, bytes_out_, launches_, 0}; }

std::vector<DeviceProperties> devices(std::string* why_not) {
  int there = 0;
  *why_not = what_is_missing(&there);
  std::vector<DeviceProperties> found;
  for (int i = 0; why_not->empty() && i < there; ++i) {
    found.push_back(properties_of(i));
    std::size_t free = 0, total = 0;
    check(cudaSetDevice(i), "choosing a device");
    check(cudaMemGetInfo(&free, &total), "looking at a device");
    found.back().memory = free;
  }
  return found;
}

namespace {

std::shared_ptr<Device> open_device(int ordinal, std::uint64_t memory, CudaDevice::Kernels kernels) {
  int there = 0;
  if (const std::string missing = what_is_missing(&there); !missing.empty()) throw DeviceError(missing);
  if (ordinal < 0 || ordinal >= there)
    throw DeviceError("cuda: device " + std::to_string(ordinal) + " was asked for; there are " + std::to_string(there) +
                      ", counted from 0.");
  return std::make_shared<CudaDevice>(ordinal, memory, kernels);
}

}  // namespace

std::shared_ptr<Device> open(int ordinal, std::uint64_t memory, const std::string& precision) {
  return open_device(ordinal, memory, precision == "tf32" ? CudaDevice::Kernels::tf32 : CudaDevice::Kernels::exact);
}

std::shared_ptr<Device> open_memory(int ordinal, std::uint64_t memory) {
  return open_device(ordinal, memory, CudaDevice::Kernels::none);
}

}  // namespace flagstone::cuda
