// Elements in a device's memory, which Python fills piece by piece and hands to other libraries.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/spaces/device.hpp"

namespace flagstone::python {
namespace {

/// All of a device's memory as one array in C order. Copies of a slot follow one another; who gives memory for one
/// waits for its slot before the memory goes.
class DeviceBlock {
 public:
  DeviceBlock(std::shared_ptr<Device> device, Shape shape, const std::string& dtype) : device_(std::move(device)) {
    const Dtype kind = dtype_from_name(dtype);
    tile_ = {device_->memory(), kind, shape, c_strides(shape, size_of(kind)),
             static_cast<std::size_t>(count(shape)) * size_of(kind)};
    if (tile_.bytes > device_->properties().memory)
      throw DeviceError("device: " + format_bytes(tile_.bytes) + " do not fit the " +
                        format_bytes(device_->properties().memory) + " that were taken.");
  }
  ~DeviceBlock() {
    for (const std::span<std::byte> locked : locked_) device_->unlock_pages(locked);
  }
  DeviceBlock(const DeviceBlock&) = delete;

  void lock(const nb::ndarray<>& memory) {
    const std::span<std::byte> pages(static_cast<std::byte*>(memory.data()), memory.nbytes());
    device_->lock_pages(pages);
    locked_.push_back(pages);
  }
  void begin_copy(std::size_t slot, const nb::ndarray<nb::ro>& from, const Shape& start) {
    const Tile host = tile_of(from), there = subtile(tile_, {start, host.shape});
    const nb::gil_scoped_release unlocked;
    begin(slot);
    device_->copy_in(host, there, [this, slot](std::exception_ptr error) { end(slot, error); });
  }
  void copy_to(const nb::ndarray<>& to) {
    const Tile host = tile_of(nb::ndarray<nb::ro>(to));
    if (count(host.shape) != count(tile_.shape)) throw ShapeError("device: another number of elements was asked for.");
    const Tile there{tile_.data, tile_.dtype, host.shape, c_strides(host.shape, size_of(tile_.dtype)), tile_.bytes};
    const nb::gil_scoped_release unlocked;
    begin(0);
    device_->copy_out(there, host, [this](std::exception_ptr error) { end(0, error); });
    wait_for(0);
  }
  void wait(std::size_t slot) {
    const nb::gil_scoped_release unlocked;
    wait_for(slot);
  }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(tile_.data); }
  /// A DLPack capsule, which keeps the memory; `shape` leaves out dimensions of extent 1.
  static nb::object dlpack(nb::handle self, int ordinal, const std::vector<std::size_t>& shape) {
    const auto& block = nb::cast<const DeviceBlock&>(self);
    const nb::ndarray<> array(block.tile_.data, shape.size(), shape.data(), self, nullptr, dlpack_of(block.tile_.dtype),
                              nb::device::cuda::value, ordinal);
    nb::object made = nb::cast(array, nb::rv_policy::reference);
    return PyCapsule_CheckExact(made.ptr()) ? made : made.attr("__dlpack__")();
  }

 private:
  void begin(std::size_t slot) {
    const std::lock_guard lock(mutex_);
    ++under_way_.at(slot);
  }
  void end(std::size_t slot, const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    --under_way_[slot];
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
  void wait_for(std::size_t slot) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return under_way_.at(slot) == 0; });
    if (error_) std::rethrow_exception(error_);
  }

  Tile tile_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<int, 2> under_way_{};
  std::exception_ptr error_;
  std::vector<std::span<std::byte>> locked_;
  std::shared_ptr<Device> device_;  // gone first: copies under way end with it
};

}  // namespace

void bind_device_block(nb::module_& m) {
  nb::class_<DeviceBlock>(m, "DeviceBlock")
      .def(nb::init<std::shared_ptr<Device>, Shape, const std::string&>(), nb::arg("device"), nb::arg("shape"),
           nb::arg("dtype"))
      .def("lock", &DeviceBlock::lock, nb::arg("memory"))
      .def("begin_copy", &DeviceBlock::begin_copy, nb::arg("slot"), nb::arg("part"), nb::arg("start"))
      .def("copy_to", &DeviceBlock::copy_to, nb::arg("to"))
      .def("wait", &DeviceBlock::wait, nb::arg("slot"))
      .def_prop_ro("address", &DeviceBlock::address)
      .def(
          "dlpack",
          [](nb::handle self, int ordinal, const std::vector<std::size_t>& shape) {
            return DeviceBlock::dlpack(self, ordinal, shape);
          },
          nb::arg("ordinal"), nb::arg("shape"));
}

}  // namespace flagstone::python
