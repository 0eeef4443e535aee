#pragma once
// For tests: bytes to move, and one request moved.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "flagstone/storage/ring/ring.hpp"

namespace flagstone::test {

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed = 1) {
  std::vector<std::byte> data(bytes);
  std::minstd_rand random(seed);
  for (auto& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

/// Result by tag of `n` completions.
inline std::map<std::uint64_t, std::int64_t> reap_all(Ring& ring, std::size_t n) {
  std::map<std::uint64_t, std::int64_t> results;
  std::vector<Completion> some(7);
  while (results.size() < n) {
    const std::size_t got = ring.reap(some);
    for (std::size_t i = 0; i < got; ++i) EXPECT_TRUE(results.emplace(some[i].tag, some[i].result).second);
  }
  return results;
}

inline std::int64_t one(Ring& ring, Request request) {
  request.tag = 99;
  ring.submit({&request, 1});
  return reap_all(ring, 1).at(99);
}

}  // namespace flagstone::test
