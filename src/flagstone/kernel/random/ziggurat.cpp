#include "flagstone/kernel/random/ziggurat.hpp"

#include <array>
#include <bit>
#include <cmath>

namespace flagstone::kernel {
namespace {

constexpr int layers = 256;

/// Layer i reaches from 0 to edge[i], and lies under the curve up to edge[i + 1]; layer 0 has the tail.
struct Table {
  std::array<double, layers + 1> edge;
  std::array<double, layers> scale;  // edge[i] 2^-53
};

/// density(x), and the x of a density: decreasing. `start`: where the tail begins; `area` of each layer.
template <class Density, class Inverse>
Table table_of(double start, double area, Density density, Inverse inverse) {
  Table table{};
  table.edge[0] = area / density(start);
  table.edge[1] = start;
  for (int i = 2; i < layers; ++i) table.edge[i] = inverse(area / table.edge[i - 1] + density(table.edge[i - 1]));
  table.edge[layers] = 0;
  for (int i = 0; i < layers; ++i) table.scale[i] = table.edge[i] * 0x1p-53;
  return table;
}

double bell(double x) { return std::exp(-0.5 * x * x); }
double decay(double x) { return std::exp(-x); }

// Where 256 layers of one area cover the curve (the constants of the paper's method for this number of layers).
constexpr double normal_start = 3.6541528853610088, normal_area = 0.00492867323399;
constexpr double exponential_start = 7.69711747013104972, exponential_area = 0.0039496598225815571993;

const Table normal = table_of(normal_start, normal_area, bell, [](double y) { return std::sqrt(-2 * std::log(y)); });
const Table exponential = table_of(exponential_start, exponential_area, decay, [](double y) { return -std::log(y); });

/// The magnitude of a normal number, where the first word was not enough: it goes on with words of its place.
double normal_beyond(int layer, double x, FurtherWords words, std::uint64_t& sign) {
  for (;;) {
    if (layer == 0) {  // Marsaglia's tail
      for (;;) {
        const double along = -std::log(1 - words.uniform()) / normal_start;
        if (-2 * std::log(1 - words.uniform()) > along * along) return normal_start + along;
      }
    }
    const double low = bell(normal.edge[layer]), high = bell(normal.edge[layer + 1]);
    if (low + words.uniform() * (high - low) < bell(x)) return x;
    const std::uint64_t word = words.next();
    layer = static_cast<int>(word & 255), sign = word & 256;
    x = static_cast<double>(word >> 11) * normal.scale[layer];
    if (x < normal.edge[layer + 1]) return x;
  }
}

double exponential_beyond(int layer, double x, FurtherWords words) {
  for (;;) {
    if (layer == 0) return exponential_start - std::log(1 - words.uniform());  // it has no memory
    const double low = decay(exponential.edge[layer]), high = decay(exponential.edge[layer + 1]);
    if (low + words.uniform() * (high - low) < decay(x)) return x;
    const std::uint64_t word = words.next();
    layer = static_cast<int>(word & 255);
    x = static_cast<double>(word >> 11) * exponential.scale[layer];
    if (x < exponential.edge[layer + 1]) return x;
  }
}

}  // namespace

void standard_normal(const Stream& stream, std::uint64_t first, const std::uint64_t* words, std::int64_t n,
                     double* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint64_t sign = words[i] & 256;
    const auto layer = static_cast<int>(words[i] & 255);
    double x = static_cast<double>(static_cast<std::int64_t>(words[i] >> 11)) * normal.scale[layer];
    if (__builtin_expect(!(x < normal.edge[layer + 1]), 0))
      x = normal_beyond(layer, x, {stream, first + static_cast<std::uint64_t>(i)}, sign);
    to[i] = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) | sign << 55);  // bit 8 to bit 63: no branch
  }
}

void standard_exponential(const Stream& stream, std::uint64_t first, const std::uint64_t* words, std::int64_t n,
                          double* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto layer = static_cast<int>(words[i] & 255);
    double x = static_cast<double>(static_cast<std::int64_t>(words[i] >> 11)) * exponential.scale[layer];
    if (__builtin_expect(!(x < exponential.edge[layer + 1]), 0))
      x = exponential_beyond(layer, x, {stream, first + static_cast<std::uint64_t>(i)});
    to[i] = x;
  }
}

}  // namespace flagstone::kernel
