#pragma once
// Graphs of tiles of 64 KiB, run with so many bytes: for tests of the runtime.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/scratch_array.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/scratch/scratch.hpp"

namespace flagstone {

class SmallRuns : public testing::Test {
 protected:
  SmallRuns() {
    std::string name = std::filesystem::temp_directory_path() / "flagstone-runtime-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    options_.workers = 2;
    options_.scratch = folder_;
  }
  ~SmallRuns() override { std::filesystem::remove_all(folder_); }

  /// `tiles` tiles of 64 KiB that live in scratch.
  Array tiles(Index tiles) const { return temporary_array({tiles * elements}, Dtype::float64, {elements}, folder_); }
  static Region tile(const Array& array, Index i) { return {array, {{i * elements}, {elements}}}; }

  ScratchSpace space() const { return {folder_, "test", options_.scratch_quota}; }

  void run(std::uint64_t capacity, const std::function<void(Graph&)>& builder) {
    Executor executor(*ring_, options_, space(), capacity, {});
    executor.run(builder);
    stats_ = executor.statistics();
  }

  static constexpr Index elements = 8192;
  static constexpr std::uint64_t tile_bytes = 64 * KiB;
  std::string folder_;
  RuntimeOptions options_;
  std::unique_ptr<Ring> ring_ = make_ring();
  Statistics stats_;
};

inline TaskSpec task(std::string name, std::vector<Access> accesses, Body body) {
  TaskSpec spec;
  spec.name = std::move(name);
  spec.accesses = std::move(accesses);
  spec.body = std::move(body);
  return spec;
}

}  // namespace flagstone
