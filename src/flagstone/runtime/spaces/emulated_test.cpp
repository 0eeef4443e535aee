#include "flagstone/runtime/spaces/emulated.hpp"

#include <chrono>
#include <future>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"

namespace flagstone {
namespace {

using Step = EmulatedFault::Step;

/// What a queue said of one thing, to be waited for.
class Answer {
 public:
  Device::Done done() {
    return [promise = promise_](std::exception_ptr error) {
      if (error)
        promise->set_exception(error);
      else
        promise->set_value();
    };
  }
  void get() { future_.get(); }

 private:
  std::shared_ptr<std::promise<void>> promise_ = std::make_shared<std::promise<void>>();
  std::future<void> future_ = promise_->get_future();
};

Tile tile_at(std::byte* data, Dtype dtype, const Shape& shape) {
  return {data, dtype, shape, c_strides(shape, size_of(dtype)),
          static_cast<std::size_t>(count(shape)) * size_of(dtype)};
}

template <class T>
Tile tile_of(std::vector<T>& values, Dtype dtype, const Shape& shape) {
  return tile_at(reinterpret_cast<std::byte*>(values.data()), dtype, shape);
}

std::vector<double> drawn(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(n);
  for (double& value : values) value = uniform(random);
  return values;
}

void copy_in(Device& device, const Tile& from, const Tile& to) {
  Answer answer;
  device.copy_in(from, to, answer.done());
  answer.get();
}
void copy_out(Device& device, const Tile& from, const Tile& to) {
  Answer answer;
  device.copy_out(from, to, answer.done());
  answer.get();
}

TEST(EmulatedDevice, HostCodeThatFollowsItsPointerDies) {
  const auto device = open_emulated({.memory = 1 * MiB});
  volatile std::byte* const inside = device->memory() + 4096;
  EXPECT_DEATH(static_cast<void>(*inside), "");
  EXPECT_DEATH(*inside = std::byte{1}, "");
}

TEST(EmulatedDevice, HasALimitOfItsOwn) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer keeps memory of its own about every page";
#endif
  const std::uint64_t before = resident_bytes();
  const auto device = open_emulated({.memory = 64 * MiB});
  EXPECT_LE(resident_bytes(), before + 2 * MiB);
  reset_peak_resident();
  EXPECT_LE(peak_resident_bytes(), before + 2 * MiB);
}

TEST(EmulatedDevice, CopiesStridedTilesAndCountsThem) {
  const auto device = open_emulated({.memory = 1 * MiB});
  auto values = drawn(12 * 10 * 8, 1);
  const Tile host = tile_of(values, Dtype::float64, {12, 10, 8});
  const Box box{{3, 2, 1}, {5, 4, 6}};
  const Tile part = subtile(host, box);                                           // strided on the host
  const Tile dense = tile_at(device->memory() + 256, Dtype::float64, box.shape);  // dense over there
  copy_in(*device, part, dense);
  std::vector<double> back(12 * 10 * 8, 0.0);
  const Tile there = subtile(tile_of(back, Dtype::float64, {12, 10, 8}), box);
  copy_out(*device, dense, there);
  for (Index i = 0; i < 12; ++i)
    for (Index j = 0; j < 10; ++j)
      for (Index k = 0; k < 8; ++k) {
        const bool inside = i >= 3 && i < 8 && j >= 2 && j < 6 && k >= 1 && k < 7;
        const auto at = static_cast<std::size_t>((i * 10 + j) * 8 + k);
        ASSERT_EQ(back[at], inside ? values[at] : 0.0);
      }
  // A part over there, turned: column-major on the host.
  const Tile inner = subtile(dense, {{1, 1, 2}, {3, 2, 3}});
  std::vector<double> turned(3 * 2 * 3);
  Tile columns = tile_of(turned, Dtype::float64, {3, 2, 3});
  columns.strides = {8, 24, 48};
  copy_out(*device, inner, columns);
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 2; ++j)
      for (Index k = 0; k < 3; ++k)
        ASSERT_EQ(turned[static_cast<std::size_t>(i + 3 * j + 6 * k)],
                  values[static_cast<std::size_t>(((i + 4) * 10 + j + 3) * 8 + k + 3)]);
  const DeviceCounts counts = device->counts();
  EXPECT_EQ(counts.copies_in, 1U);
  EXPECT_EQ(counts.copies_out, 2U);
  EXPECT_EQ(counts.bytes_in, 5U * 4 * 6 * 8);
  EXPECT_EQ(counts.bytes_out, 5U * 4 * 6 * 8 + 3 * 2 * 3 * 8);
  EXPECT_EQ(counts.launches, 0U);
  EXPECT_EQ(counts.synchronizing, 0U);
}

/// Products of 16 x 16 over there, one launch for all, as many queues as there are.
std::vector<double> products(Device& device, const std::vector<double>& values, int products) {
  constexpr Index n = 16;
  constexpr std::size_t bytes = n * n * 8, each = 3 * bytes;
  auto host = values;
  std::vector<double> c(static_cast<std::size_t>(products * n * n));
  std::vector<std::vector<Tile>> tiles;
  const std::vector<Call> calls{call::gemm(Dtype::float64, 1.0, TilePart{0}, TilePart{1}, 0.0, TilePart{2})};
  for (int i = 0; i < products; ++i) {
    std::byte* const at = device.memory() + static_cast<std::size_t>(i) * (each + 256);
    auto& own = tiles.emplace_back();
    for (std::size_t t = 0; t < 3; ++t) own.push_back(tile_at(at + t * bytes, Dtype::float64, {n, n}));
    for (std::size_t t = 0; t < 2; ++t)
      copy_in(device,
              tile_at(reinterpret_cast<std::byte*>(host.data()) + (2 * static_cast<std::size_t>(i) + t) * bytes,
                      Dtype::float64, {n, n}),
              own[t]);
  }
  std::vector<Answer> answers(static_cast<std::size_t>(products) / 2);
  for (int i = 0; i + 1 < products; i += 2) {
    std::vector<DeviceWork> batch;
    for (int j = i; j < i + 2; ++j)
      batch.push_back({calls, tiles[static_cast<std::size_t>(j)],
                       device.memory() + static_cast<std::size_t>(j) * (each + 256) + each});
    device.launch(batch, i / 2 % device.properties().kernel_queues, answers[static_cast<std::size_t>(i) / 2].done());
  }
  for (Answer& answer : answers) answer.get();
  for (int i = 0; i < products; ++i)
    copy_out(
        device, tiles[static_cast<std::size_t>(i)][2],
        tile_at(reinterpret_cast<std::byte*>(c.data()) + static_cast<std::size_t>(i) * bytes, Dtype::float64, {n, n}));
  return c;
}

TEST(EmulatedDevice, LaunchesBatchesWithTheHostsBits) {
  constexpr int n = 8;
  auto values = drawn(2 * n * 256, 2);
  std::vector<double> expected(n * 256);
  const Call gemm = call::gemm(Dtype::float64, 1.0, TilePart{0}, TilePart{1}, 0.0, TilePart{2});
  auto* bytes = reinterpret_cast<std::byte*>(values.data());
  for (int i = 0; i < n; ++i)
    host_kernels().run(gemm, std::vector<Tile>{tile_at(bytes + i * 4096, Dtype::float64, {16, 16}),
                                               tile_at(bytes + i * 4096 + 2048, Dtype::float64, {16, 16}),
                                               tile_at(reinterpret_cast<std::byte*>(expected.data()) + i * 2048,
                                                       Dtype::float64, {16, 16})});
  for (const bool reorder : {false, true}) {
    EmulatedOptions options{.memory = 1 * MiB,
                            .bytes_per_workspace = 256};  // a workspace that overwrites what is beside
    if (reorder) options.reorder = 7;
    const auto device = open_emulated(options);
    EXPECT_TRUE(device->runs(gemm));
    EXPECT_EQ(device->workspace_bytes({&gemm, 1}, {}), 256U);
    EXPECT_EQ(products(*device, values, n), expected);
    EXPECT_EQ(device->counts().launches, n / 2U);
  }
}

TEST(EmulatedDevice, HasWhatDevicesAreFor) {
  const auto device = open_emulated({.memory = 4096, .lacks = {Kernel::scale}});
  EXPECT_TRUE(device->runs(call::zero(Dtype::uint8, TilePart{0})));
  EXPECT_FALSE(device->runs(call::scale(Dtype::float64, 2.0, TilePart{0})));
  EXPECT_FALSE(device->runs(Call(Kernel::generate, Dtype::float64, {TilePart{0}})));
  EXPECT_FALSE(device->runs(Call(Kernel::trsm, Dtype::int32, {TilePart{0}, TilePart{1}})));  // the host has none
}

TEST(EmulatedDevice, FailsByScript) {
  auto values = drawn(64, 3);
  const Tile host = tile_of(values, Dtype::float64, {8, 8});
  EXPECT_THROW(open_emulated({.memory = 4096, .faults = {{Step::allocation}}}), DeviceError);
  const auto device =
      open_emulated({.memory = 4096,
                     .faults = {{Step::copy_in, 2}, {Step::copy_out, 1}, {Step::launch, 2}, {Step::copy_in, 4, true}}});
  const Tile there = tile_at(device->memory(), Dtype::float64, {8, 8});
  copy_in(*device, host, there);
  EXPECT_THROW(copy_in(*device, host, there), DeviceError);
  std::vector<double> back(64);
  EXPECT_THROW(copy_out(*device, there, tile_of(back, Dtype::float64, {8, 8})), DeviceError);
  copy_out(*device, there, tile_of(back, Dtype::float64, {8, 8}));
  EXPECT_NE(back, values);  // the copy that failed has spoilt it
  copy_in(*device, host, there);
  const std::vector<Call> calls{call::zero(Dtype::float64, TilePart{0})};
  const DeviceWork work{calls, {&there, 1}, nullptr};
  const auto launch = [&] {
    Answer answer;
    device->launch({&work, 1}, 0, answer.done());
    answer.get();
  };
  launch();
  EXPECT_THROW(launch(), DeviceError);
  EXPECT_THROW(copy_in(*device, host, there), DeviceError);  // lost
  EXPECT_THROW(launch(), DeviceError);
  EXPECT_THROW(copy_out(*device, there, host), DeviceError);
}

TEST(EmulatedDevice, RefusesWhatIsNotItsOwn) {
  const auto device = open_emulated({.memory = 4096});
  auto values = drawn(1024, 4);
  EXPECT_THROW(
      copy_in(*device, tile_of(values, Dtype::float64, {1024}), tile_at(device->memory(), Dtype::float64, {1024})),
      DeviceError);  // reaches beyond its memory
  EXPECT_THROW(copy_in(*device, tile_of(values, Dtype::float64, {8}), tile_of(values, Dtype::float64, {8})),
               DeviceError);
  EXPECT_THROW(copy_in(*device, tile_of(values, Dtype::float64, {8}), tile_at(device->memory(), Dtype::float64, {9})),
               DeviceError);
  EXPECT_THROW(open_emulated({.memory = 100}), Error);
  EXPECT_THROW(open_emulated({.memory = 4096, .kernel_queues = 0}), Error);
  EXPECT_THROW(open_emulated({.memory = 4096, .bytes_per_second = -1}), Error);
}

TEST(EmulatedDevice, LinksAreSlowEachForItself) {
  const auto device = open_emulated({.memory = 1 * MiB, .bytes_per_second = 10e6, .latency_seconds = 2e-3});
  std::vector<double> values(25000);  // 20 ms
  const Tile host = tile_of(values, Dtype::float64, {25000});
  const Tile there = tile_at(device->memory(), Dtype::float64, {25000});
  copy_in(*device, host, there);
  const auto began = std::chrono::steady_clock::now();
  Answer in, out;
  device->copy_in(host, tile_at(device->memory() + 512 * KiB, Dtype::float64, {25000}), in.done());
  std::vector<double> back(25000);
  device->copy_out(there, tile_of(back, Dtype::float64, {25000}), out.done());
  in.get();
  const double one = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  out.get();
  EXPECT_GE(one, 0.022);
  EXPECT_EQ(back, values);
}

TEST(EmulatedDevice, EndsWhenWhatWasBegunIsDone) {
  for (const bool reorder : {false, true}) {
    auto values = drawn(4096, 5);
    std::vector<double> back(4096);
    std::atomic<int> done = 0;
    EmulatedOptions options{.memory = 1 * MiB, .latency_seconds = 1e-3};
    if (reorder) options.reorder = 1;
    {
      const auto device = open_emulated(options);
      for (int i = 0; i < 8; ++i) {
        const Tile there = tile_at(device->memory() + i * 32768, Dtype::float64, {4096});
        device->copy_in(tile_of(values, Dtype::float64, {4096}), there, [&](std::exception_ptr) { ++done; });
        device->copy_out(there, tile_of(back, Dtype::float64, {4096}), [&](std::exception_ptr) { ++done; });
      }
    }
    EXPECT_EQ(done, 16);
  }
}

}  // namespace
}  // namespace flagstone
