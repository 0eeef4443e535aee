#include "flagstone/runtime/spaces/cuda_loader.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "flagstone/base/error.hpp"
#include "flagstone/base/version.hpp"
#include "flagstone/runtime/spaces/cuda_library.hpp"

namespace flagstone {
namespace {

constexpr char file_name[] = "libflagstone_cuda.so.1";

/// Beside whatever this code was linked into: the package's compiled core, or a program.
std::filesystem::path library_path() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&library_path), &here) == 0 || here.dli_fname == nullptr) return file_name;
  std::error_code failed;
  const std::filesystem::path module = std::filesystem::canonical(here.dli_fname, failed);
  return failed ? std::filesystem::path(file_name) : module.parent_path() / file_name;
}

struct Opened {
  const CudaLibrary* library = nullptr;
  std::string why_not;
};

std::string last_dl_error() {
  const char* const text = dlerror();
  return text == nullptr ? "unknown" : text;
}

Opened open_library() {
  // The driver first: without it the library has nothing to do, and its own error would name a file nobody knows.
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr)
    return {nullptr, "cuda: there is no NVIDIA driver on this machine (libcuda.so.1 was not found); install one."};
  const std::filesystem::path path = library_path();
  if (!std::filesystem::exists(path))
    return {nullptr, "cuda: Flagstone was built without CUDA (" + path.string() +
                         " is not there); build it where nvcc is, with FLAGSTONE_CUDA=ON."};
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: its exceptions and threads live on
  if (handle == nullptr)
    return {nullptr,
            "cuda: " + last_dl_error() + "; install the CUDA toolkit's libraries that Flagstone was built with."};
  const auto entry = reinterpret_cast<CudaLibraryEntry>(dlsym(handle, CudaLibrary::symbol));
  const CudaLibrary* const library = entry == nullptr ? nullptr : entry();
  if (library == nullptr || library->abi != CudaLibrary::current_abi || library->tile_bytes != sizeof(Tile) ||
      library->call_bytes != sizeof(Call) || std::string_view(library->version) != version())
    return {nullptr, "cuda: " + path.string() + " belongs to another build of Flagstone; install both again together."};
  return {library, {}};
}

const Opened& opened() {
  static const Opened once = open_library();
  return once;
}

}  // namespace

std::vector<DeviceProperties> cuda_devices(std::string* why_not) {
  std::string text = opened().why_not;
  std::vector<DeviceProperties> found;
  if (opened().library != nullptr) found = opened().library->devices(&text);
  if (why_not != nullptr) *why_not = text;
  return found;
}

std::shared_ptr<Device> open_cuda(int ordinal, std::uint64_t memory, const std::string& precision) {
  if (!precision.empty() && precision != "tf32")
    throw DeviceError("cuda: precision \"" + precision + "\" was given; \"tf32\" or none is known.");
  if (opened().library == nullptr) throw DeviceError(opened().why_not);
  return opened().library->open(ordinal, memory, precision);
}

std::shared_ptr<Device> open_cuda_memory(int ordinal, std::uint64_t memory) {
  if (opened().library == nullptr) throw DeviceError(opened().why_not);
  return opened().library->open_memory(ordinal, memory);
}

}  // namespace flagstone
