#include "flagstone/storage/box/codec_pool.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/box/box.hpp"
#include "flagstone/storage/ring/scripted_ring.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

/// All that was given, as it is named by finished().
std::vector<CodecPool::Done> all_of(CodecPool& work, std::size_t n) {
  std::vector<CodecPool::Done> all;
  while (all.size() < n)
    for (auto& one : work.finished()) all.push_back(std::move(one));
  return all;
}

TEST(CodecPool, EveryPieceOnceAtNoMoreDesksThanHands) {
  ThreadPool pool(4, 4);
  std::atomic<int> told{0}, at_once{0}, most{0}, sum{0};
  std::set<Workspace*> workspaces;
  std::mutex mutex;
  {
    CodecPool work(&pool, 2, [&] { ++told; });
    for (int i = 1; i <= 50; ++i)
      work.give(static_cast<std::size_t>(i), [&, i](Workspace& workspace) {
        const int now = ++at_once;
        for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        sum += i;
        const std::lock_guard lock(mutex);
        workspaces.insert(&workspace);
        --at_once;
      });
    std::set<std::size_t> numbers;
    for (const auto& one : all_of(work, 50)) numbers.insert(one.number);
    EXPECT_EQ(numbers.size(), 50u);
  }
  EXPECT_EQ(told, 50);  // the destructor waited for the last one
  EXPECT_EQ(sum, 1275);
  EXPECT_LE(most, 2);
  EXPECT_LE(workspaces.size(), 2u);
}

TEST(CodecPool, ErrorsComeWithTheirNumberAndWhatIsCancelledIsNotComputed) {
  ThreadPool pool(2, 2);
  CodecPool work(&pool, 2, [] {});
  work.give(7, [](Workspace&) { throw FormatError("seven"); });
  const auto done = all_of(work, 1);
  EXPECT_EQ(done[0].number, 7u);
  EXPECT_THROW(std::rethrow_exception(done[0].error), FormatError);
  work.cancel();
  std::atomic<int> computed{0};
  for (std::size_t i = 0; i < 9; ++i) work.give(i, [&](Workspace&) { ++computed; });
  EXPECT_EQ(all_of(work, 9).size(), 9u);
  EXPECT_EQ(computed, 0);
}

TEST(CodecPool, APieceGivenHereWaitsForAWorkspace) {
  ThreadPool pool(2, 2);
  std::atomic<bool> named{false};
  CodecPool work(&pool, 2, [&] {  // both threads are done with their pieces, neither has put its workspace back
    while (!named) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  Workspace* used[3] = {};
  for (std::size_t i = 0; i < 2; ++i) work.give(i, [&, i](Workspace& workspace) { used[i] = &workspace; });
  EXPECT_EQ(all_of(work, 2).size(), 2u);
  named = true;
  work.give(
      2, [&](Workspace& workspace) { used[2] = &workspace; }, true);
  EXPECT_TRUE(used[2] == used[0] || used[2] == used[1]);
  EXPECT_EQ(work.finished().size(), 1u);
}

TEST(CodecPool, WithoutACrewTheGiverComputes) {
  CodecPool work(nullptr, 3, [] { FAIL() << "nobody is told"; });
  const auto here = std::this_thread::get_id();
  work.give(1, [&](Workspace& workspace) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    workspace.fit(5000, 0);
    EXPECT_GE(workspace.tile.size(), 5000u);
  });
  EXPECT_EQ(work.finished().size(), 1u);
  EXPECT_TRUE(work.finished().empty());
}

TEST(CodecPool, ACrewThatTakesNoMoreLeavesItToTheGiver) {
  ThreadPool pool(1, 4);
  pool.give([](std::size_t) { throw std::runtime_error("broken"); });
  EXPECT_THROW(pool.drain(), std::runtime_error);
  CodecPool work(&pool, 2, [] {});
  int computed = 0;
  work.give(1, [&](Workspace&) { ++computed; });
  EXPECT_EQ(work.finished().size(), 1u);
  EXPECT_EQ(computed, 1);
}

// Boxes of packed arrays with a pool of threads
// -------------------------------------------------------------------------

const Shape shape{211, 150, 7};
const Shape chunks{64, 40, 7};

std::unique_ptr<Ring> ring_of(const std::string& io) {
  if (io != "hostile") return make_ring({.kind = io});
  return make_memory_ring({.faults = {{3, EINTR, 3}, {7, EAGAIN, 2}}, .step_bytes = 8192, .reorder = true, .delay = 1});
}

class PackedBoxes : public testing::TestWithParam<std::tuple<std::string, std::string, std::size_t>> {
 protected:
  TemporaryDirectory directory_;
  std::unique_ptr<Ring> ring_ = ring_of(std::get<0>(GetParam()));
  ThreadPool pool_{3, 3};
  BoxOptions options_{.staging = std::get<2>(GetParam()), .pool = &pool_, .hands = 3};
  Array array_ =
      create_zarr_array(directory_ / "a", shape, Dtype::float32, {.chunks = chunks, .codec = std::get<1>(GetParam())});

  void expect_equal(test::Reference& reference, const Box& box, Index gap) {
    Shape padded = box.shape;
    for (Index& extent : padded) extent += gap;
    std::vector<std::byte> memory(count(padded) * 4, std::byte{0xCD});
    const Tile to{memory.data(), Dtype::float32, box.shape, c_strides(padded, 4), 0};
    read_box(*ring_, array_, box, to, options_);
    std::vector<std::byte> elements(count(box.shape) * 4);
    copy(to, {elements.data(), Dtype::float32, box.shape, c_strides(box.shape, 4), 0});
    ASSERT_EQ(elements, reference.elements(box)) << to_string(box.shape) << " at " << to_string(box.start);
  }
};

TEST_P(PackedBoxes, AnyBoxComesBack) {
  test::Reference reference(shape, Dtype::float32);
  std::mt19937_64 random(5);
  expect_equal(reference, whole(shape), 0);  // nothing written yet: zeros
  for (int turn = 0; turn < 10; ++turn) {
    const Box box = turn == 3 ? whole(shape) : test::random_box(shape, random);
    test::Reference fresh(shape, Dtype::float32);
    fresh.randomize(random);
    copy(fresh.tile(box), reference.tile(box));
    write_box(*ring_, array_, box, reference.tile(box), options_);
    expect_equal(reference, box, 3);
    expect_equal(reference, {{64, 80, 0}, chunks}, 0);  // a whole chunk, where it is unpacked to
    expect_equal(reference, test::random_box(shape, random), 1);
  }
  array_.store().flush();
  expect_equal(reference, whole(shape), 0);
}

INSTANTIATE_TEST_SUITE_P(Rings, PackedBoxes,
                         testing::Combine(testing::Values("auto", "threads", "hostile"),
                                          testing::Values("blosc-lz4", "zstd"),
                                          testing::Values(std::size_t{0}, std::size_t{1} << 20)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + (std::get<1>(info.param) == "zstd" ? "_zstd" : "_lz4") +
                                  (std::get<2>(info.param) ? "" : "_one_buffer");
                         });

TEST(PackedBoxErrors, ADamagedChunkIsNamedAndTheNextRequestWorks) {
  TemporaryDirectory directory;
  const auto ring = make_ring();
  ThreadPool pool(2, 2);
  const BoxOptions options{.pool = &pool, .hands = 2};
  const Shape whole_shape{1024, 64}, one{64, 64};
  {
    const Array array =
        create_zarr_array(directory / "a", whole_shape, Dtype::float32, {.chunks = one, .codec = "zstd"});
    test::Reference reference(whole_shape, Dtype::float32);
    std::mt19937_64 random(3);
    reference.randomize(random);
    write_box(*ring, array, whole(whole_shape), reference.tile(whole(whole_shape)), options);
    array.store().flush();
  }
  const Array array = open_zarr_array(directory / "a");
  const auto slots = array.store().read({{5 * 64, 0}, one}).segments;
  std::fstream file(slots[0].file->path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(slots[0].offset + 100));
  file.put('\x55').put('\x55').put('\x55');
  file.close();
  std::vector<std::byte> memory(1024 * 64 * 4);
  const Tile to{memory.data(), Dtype::float32, whole_shape, c_strides(whole_shape, 4), 0};
  const std::string message = test::message_of([&] { read_box(*ring, array, whole(whole_shape), to, options); });
  EXPECT_NE(message.find("chunk (5, 0) does not match its checksum"), std::string::npos) << message;
  const Box after{{6 * 64, 0}, {1024 - 6 * 64, 64}};
  read_box(*ring, array, after, subtile(to, after), options);
}

TEST(PackedBoxErrors, WhatThePulseThrowsEndsIt) {
  TemporaryDirectory directory;
  const auto ring = make_ring();
  ThreadPool pool(2, 2);
  const Shape whole_shape{4096, 64};
  const Array array =
      create_zarr_array(directory / "a", whole_shape, Dtype::float32, {.chunks = {64, 64}, .codec = "gzip:9"});
  test::Reference reference(whole_shape, Dtype::float32);
  std::mt19937_64 random(3);
  reference.randomize(random);
  struct Stop {};
  int pulses = 0;
  const BoxOptions options{.pool = &pool,
                           .hands = 2,
                           .pulse =
                               [&] {
                                 if (++pulses == 1) throw Stop();
                               },
                           .between_pulses = std::chrono::milliseconds(0)};
  EXPECT_THROW(write_box(*ring, array, whole(whole_shape), reference.tile(whole(whole_shape)), options), Stop);
  EXPECT_EQ(pulses, 1);
}

}  // namespace
}  // namespace flagstone
