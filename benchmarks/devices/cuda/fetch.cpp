// Boxes of a stored matrix into a device's memory, by what fl.fetch does piece by piece
// (python/flagstone/_storage/fetch.py): whole chunks read into one of two locked buffers, and one strided copy each.
// Held to the disk, which reads the same array by itself, and to the link. One line of JSON.
//   fetch [--device cuda|emulated] [--n N] [--scratch DIRECTORY]
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/runtime/spaces/cuda_loader.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

constexpr Index piece = Index{16} << 20;
constexpr std::size_t page = 4096;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Tile by_rows(std::byte* data, const Shape& shape) {
  const std::size_t item = size_of(Dtype::float32);
  return {data, Dtype::float32, shape, c_strides(shape, item), static_cast<std::size_t>(count(shape)) * item};
}

/// Locked memory, one copy from it at a time.
class Buffer {
 public:
  Buffer(Device& device, std::size_t bytes)
      : device_(device), bytes_((bytes + page - 1) / page * page), data_(std::aligned_alloc(page, bytes_), std::free) {
    std::memset(data_.get(), 1, bytes_);
    device_.lock_pages({data(), bytes_});
  }
  ~Buffer() { wait(), device_.unlock_pages({data(), bytes_}); }
  Buffer(const Buffer&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  void begin_copy(const Tile& from, const Tile& to) {
    wait(), busy_ = true;
    device_.copy_in(from, to, [this](std::exception_ptr thrown) {
      const std::lock_guard lock(mutex_);
      busy_ = false, thrown_ = thrown;
      done_.notify_all();
    });
  }
  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return !busy_; });
    if (thrown_) std::fprintf(stderr, "fetch: a copy failed\n"), std::exit(3);
  }

 private:
  Device& device_;
  std::size_t bytes_;
  std::unique_ptr<void, decltype(&std::free)> data_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool busy_ = false;
  std::exception_ptr thrown_;
};

/// Whole chunks of the array, as many as a piece holds, the last dimension first.
Shape steps_of(const Array& x, const Box& box) {
  Shape step = x.chunks();
  const auto item = static_cast<Index>(size_of(x.dtype()));
  for (std::size_t d = step.size(); d-- > 0;) {
    Index held = item;
    for (std::size_t e = 0; e < step.size(); ++e) held *= std::min(box.shape[e], step[e]);
    step[d] *= std::max<Index>(1, std::min(ceil_div(x.shape()[d], step[d]), piece / std::max<Index>(1, held)));
  }
  return step;
}

/// f of each cell of the grid of steps, cut to the box.
void each_piece(const Array& x, const Box& box, const std::function<void(const Box&)>& f) {
  const Shape step = steps_of(x, box);
  for (Index i = box.start[0]; i < box.start[0] + box.shape[0]; i = (i / step[0] + 1) * step[0])
    for (Index j = box.start[1]; j < box.start[1] + box.shape[1]; j = (j / step[1] + 1) * step[1])
      f({{i, j},
         {std::min((i / step[0] + 1) * step[0], box.start[0] + box.shape[0]) - i,
          std::min((j / step[1] + 1) * step[1], box.start[1] + box.shape[1]) - j}});
}

/// Seconds of bringing boxes, one after the other, to the device.
double brought(Runtime& runtime, Device& device, const Array& x, const std::vector<Box>& boxes) {
  Buffer one(device, piece), two(device, piece);
  Buffer* slots[] = {&one, &two};
  int turn = 0;
  const double begin = now();
  for (const Box& box : boxes) {
    const Tile whole_box = by_rows(device.memory(), box.shape);
    each_piece(x, box, [&](const Box& part) {
      Buffer& buffer = *slots[turn++ % 2];
      buffer.wait();
      const Tile from = by_rows(buffer.data(), part.shape);
      runtime.read(x, part, from);
      buffer.begin_copy(from,
                        subtile(whole_box, {{part.start[0] - box.start[0], part.start[1] - box.start[1]}, part.shape}));
    });
  }
  one.wait(), two.wait();
  return now() - begin;
}

/// Bytes a second of the link from locked memory, in such pieces.
double link_rate(Device& device) {
  Buffer one(device, piece), two(device, piece);
  const Shape shape{piece / 4096, 1024};
  const int rounds = 64;
  const double begin = now();
  for (int i = 0; i < rounds; ++i) {
    Buffer& buffer = i % 2 ? one : two;
    buffer.begin_copy(by_rows(buffer.data(), shape), by_rows(device.memory(), shape));
  }
  one.wait(), two.wait();
  return static_cast<double>(piece) * rounds / (now() - begin);
}

/// Whether the last box lies on the device as it was written: value (i, j) is a function of both.
float value(Index i, Index j) { return static_cast<float>((i * 7919 + j * 31) % 65521); }

int wrong(Device& device, const Box& box) {
  std::vector<std::byte> back(static_cast<std::size_t>(count(box.shape)) * sizeof(float));
  std::mutex mutex;
  std::condition_variable done;
  bool over = false;
  device.copy_out(by_rows(device.memory(), box.shape), by_rows(back.data(), box.shape), [&](std::exception_ptr) {
    const std::lock_guard lock(mutex);
    over = true;
    done.notify_all();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return over; });
  std::mt19937_64 random(std::random_device{}());
  int found = 0;
  for (int probe = 0; probe < 1000; ++probe) {
    const Index i = static_cast<Index>(random() % static_cast<std::uint64_t>(box.shape[0])),
                j = static_cast<Index>(random() % static_cast<std::uint64_t>(box.shape[1]));
    float seen = 0;
    std::memcpy(&seen, back.data() + (i * box.shape[1] + j) * static_cast<Index>(sizeof seen), sizeof seen);
    found += seen != value(box.start[0] + i, box.start[1] + j);
  }
  return found;
}

int run(int argc, char** argv) {
  std::string kind = "cuda", scratch = std::filesystem::temp_directory_path().string();
  Index n = 24576;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--device") kind = argv[i + 1];
    if (option == "--n") n = std::atoll(argv[i + 1]);
    if (option == "--scratch") scratch = argv[i + 1];
  }
  const std::string path = scratch + "/flagstone-fetch.zarr";
  std::filesystem::remove_all(path);
  Runtime runtime({.memory = resident_bytes() + (std::uint64_t{4} << 30), .scratch = scratch});
  Array x = create_zarr_array(path, {n, n}, Dtype::float32);
  const Index high = x.chunks()[0];
  {
    std::vector<float> rows(static_cast<std::size_t>(high * n));
    for (Index i = 0; i < n; i += high) {
      const Index h = std::min(high, n - i);
      for (Index r = 0; r < h; ++r)
        for (Index j = 0; j < n; ++j) rows[static_cast<std::size_t>(r * n + j)] = value(i + r, j);
      runtime.write(x, {{i, 0}, {h, n}}, by_rows(reinterpret_cast<std::byte*>(rows.data()), {h, n}));
    }
  }
  x.store().flush();
  const Index edge = std::min<Index>(n / 2, 4096), stripe = std::min<Index>(n, 1024);
  const auto bytes = static_cast<std::uint64_t>(std::max(edge * edge, n * stripe)) * sizeof(float) + (1 << 20);
  const auto device = kind == "cuda" ? open_cuda_memory(0, bytes) : open_emulated({.memory = bytes / 256 * 256});
  std::printf("{\"device\": \"%s\", \"n\": %lld", device->properties().description.c_str(), static_cast<long long>(n));

  // The disk alone: all rows of chunks, one after the other, into memory that is there already.
  double disk = 0;
  {
    std::vector<float> rows(static_cast<std::size_t>(high * n), 1.0f);
    const double begin = now();
    for (Index i = 0; i < n; i += high)
      runtime.read(x, {{i, 0}, {std::min(high, n - i), n}},
                   by_rows(reinterpret_cast<std::byte*>(rows.data()), {std::min(high, n - i), n}));
    disk = static_cast<double>(x.nbytes()) / (now() - begin);
  }
  const double link = link_rate(*device), floor = std::min(disk, link);
  std::printf(", \"disk\": %.4g, \"link\": %.4g", disk, link);
  // Blocks begin beside chunks' corners.
  std::vector<Box> blocks, aligned, stripes;
  for (Index i = 0; i + edge <= n; i += edge)
    for (Index j = 0; j + edge <= n; j += edge) {
      aligned.push_back({{i, j}, {edge, edge}});
      blocks.push_back({{std::min(i + 100, n - edge), std::min(j + 100, n - edge)}, {edge, edge}});
    }
  for (Index j = 0; j + stripe <= n; j += stripe) stripes.push_back({{0, j}, {n, stripe}});
  int bad = 0;
  for (const auto& [name, boxes] : {std::pair{"blocks", &aligned}, {"blocks_beside", &blocks}, {"stripes", &stripes}}) {
    double moved = 0;
    for (const Box& box : *boxes) moved += static_cast<double>(count(box.shape)) * sizeof(float);
    const double rate = moved / brought(runtime, *device, x, *boxes);
    bad += wrong(*device, boxes->back());
    std::printf(", \"%s\": {\"bytes_per_second\": %.4g, \"over_floor\": %.3f}", name, rate, rate / floor);
    std::fflush(stdout);
  }
  std::printf(", \"wrong\": %d}\n", bad);
  std::filesystem::remove_all(path);
  return bad > 0 ? 3 : 0;
}

}  // namespace
}  // namespace flagstone

int main(int argc, char** argv) {
  try {
    return flagstone::run(argc, argv);
  } catch (const std::exception& error) {
    std::printf("}\n");
    std::fprintf(stderr, "fetch: %s\n", error.what());
    return 1;
  }
}
