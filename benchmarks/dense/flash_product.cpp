// One product of flat files in place: C := A B, all three in rows of LEADING floats. unaligned.py runs it.
#include <cstdio>
#include <string>

#include "flagstone/algorithms/flash/gemm.hpp"
#include "flagstone/runtime/runtime.hpp"

namespace flagstone {
namespace {

int run(char** words) {
  const Index m = std::stol(words[4]), n = std::stol(words[5]), k = std::stol(words[6]), leading = std::stol(words[7]);
  RuntimeOptions options;
  options.memory = std::stoull(words[8]);
  Runtime runtime(options);
  const auto a = map_file<const float>(words[1]), b = map_file<const float>(words[2]);
  const auto c = map_file<float>(words[3], MapMode::update);
  using flash::Order, flash::Transpose;
  const Statistics done = flash::gemm(runtime, Order::row_major, Transpose::none, Transpose::none, m, n, k, 1.0f, a,
                                      leading, b, leading, 0.0f, c, leading);
  std::printf("{\"seconds\": %.6f, \"bytes_read\": %llu, \"bytes_written\": %llu, \"peak\": %llu}\n", done.seconds,
              static_cast<unsigned long long>(done.bytes_read), static_cast<unsigned long long>(done.bytes_written),
              static_cast<unsigned long long>(done.peak_memory));
  return 0;
}

}  // namespace
}  // namespace flagstone

int main(int count, char** words) {
  if (count != 9) {
    std::fprintf(stderr, "flash_product: needs A B C M N K LEADING MEMORY\n");
    return 2;
  }
  try {
    return flagstone::run(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
