#pragma once
// For tests: arrays of six chunks, updates of two of them at once, and what must be there afterwards.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/transaction/transaction.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"

namespace flagstone::test {

inline const Shape shape{96, 64};

inline Reference filled(std::uint64_t seed) {
  Reference reference(shape, Dtype::float32);
  std::mt19937_64 random(seed);
  reference.randomize(random);
  return reference;
}

inline void make(const std::string& path, std::uint64_t seed, const std::string& checksum = "sidecar") {
  const Array array = create_zarr_array(path, shape, Dtype::float32, {.chunks = {32, 32}, .checksum = checksum});
  write_elements(array, whole(shape), filled(seed).data);
  array.store().flush();
}

/// Two boxes of each array, one twice, in one transaction.
inline void update(const std::string& directory) {
  Transaction transaction;
  for (const std::string name : {"a", "b"}) {
    const Array array = open_zarr_array(directory + "/" + name, true);
    transaction.add(array);
    Reference fresh = filled(name == "a" ? 11 : 12);
    for (const Box& box : {Box{{0, 0}, {32, 64}}, Box{{64, 32}, {32, 32}}, Box{{0, 0}, {32, 32}}})
      write_elements(array, box, fresh.elements(box));
  }
  transaction.commit();
}

inline std::vector<std::byte> expected(std::uint64_t old_seed, std::uint64_t new_seed) {
  Reference reference = filled(old_seed), fresh = filled(new_seed);
  for (const Box& box : {Box{{0, 0}, {32, 64}}, Box{{64, 32}, {32, 32}}}) copy(fresh.tile(box), reference.tile(box));
  return reference.data;
}

/// 0: both old, 1: both new, -1: a mix.
inline int state_of(const std::string& directory) {
  const auto a = read_elements(open_zarr_array(directory + "/a"), whole(shape));
  const auto b = read_elements(open_zarr_array(directory + "/b"), whole(shape));
  if (a == filled(1).data && b == filled(2).data) return 0;
  return a == expected(1, 11) && b == expected(2, 12) ? 1 : -1;
}

/// Dies in an update of a and b in `directory` once its record is written.
inline void die_committed(const std::string& directory) {
  const pid_t child = ::fork();
  if (child == 0) {
    commit_step = [](const char* what) {
      if (std::string(what) == "index") ::_exit(9);
    };
    update(directory);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 9);
}

/// As a shard of a or b looks after one update: the same length, other elements (those of expected(3, 13)).
inline void make_alike(const std::string& path) {
  make(path, 3);
  const Array array = open_zarr_array(path, true);
  Transaction transaction;
  transaction.add(array);
  for (const Box& box : {Box{{0, 0}, {32, 64}}, Box{{64, 32}, {32, 32}}})
    write_elements(array, box, filled(13).elements(box));
  transaction.commit();
}

inline void expect_whole(const std::string& path, const std::vector<std::byte>& elements) {
  EXPECT_EQ(read_elements(open_zarr_array(path), whole(shape)), elements);
  const auto ring = make_ring({.kind = "threads"});
  const CheckReport report = check_array(*ring, path, 1 << 16);
  EXPECT_TRUE(report.damages.empty()) << report.damages[0].what;
  EXPECT_EQ(report.verified, 6u);
}

}  // namespace flagstone::test
