// Rows of a file bigger than the limit, in place, by a comparison of one's own.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "flagstone/flagstone.hpp"

using namespace flagstone;

struct Row {
  std::uint32_t group;
  float weight;
  std::uint64_t place;
};

int main() {
  Runtime runtime({.memory = 256 * MiB, .workers = 2});
  const Index n = 1 << 20;
  auto rows = flash_malloc<Row>(runtime, static_cast<std::uint64_t>(n));
  std::vector<Row> made(static_cast<std::size_t>(n));
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < made.size(); ++i) {
    state = state * 1664525 + 1013904223;
    made[i] = {state >> 24, static_cast<float>(state >> 8 & 1023), i};
  }
  write_sync(rows, made.data(), Contiguous{n});

  // By group, the heaviest first; equal ones stay in their order.
  const auto before = [](const Row& a, const Row& b) {
    return a.group != b.group ? a.group < b.group : a.weight > b.weight;
  };
  const Statistics did = flash::sort(runtime, rows, rows, n, before);

  read_sync(made.data(), rows, Contiguous{n});
  for (std::size_t i = 1; i < made.size(); ++i) {
    const bool ties = !before(made[i - 1], made[i]);
    if (before(made[i], made[i - 1]) || (ties && made[i - 1].place > made[i].place)) return 1;
  }
  std::printf("%lld rows sorted, %.1f MiB read\n", static_cast<long long>(n),
              static_cast<double>(did.bytes_read) / (1 << 20));
  return 0;
}
