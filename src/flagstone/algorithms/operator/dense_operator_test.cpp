// The kernels of centred dense panels against naive twins: every entry of the table that this room makes.
#include "flagstone/algorithms/operator/dense_operator.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/reference/reference.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::spectral {
namespace {

namespace reference = kernel::reference;

/// An in-memory array with room of its own.
struct Held {
  std::vector<double> wide;
  std::vector<float> narrow;
  Array array;
  Held(Index m, Index n, Dtype dtype, unsigned seed) : wide(static_cast<std::size_t>(m * n)), narrow(wide.size()) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(seed % 2 == 1 ? 3 : 0, 1);
    for (std::size_t i = 0; seed > 0 && i < wide.size(); ++i) wide[i] = narrow[i] = static_cast<float>(normal(random));
    auto* data = dtype == Dtype::float64 ? reinterpret_cast<std::byte*>(wide.data())
                                         : reinterpret_cast<std::byte*>(narrow.data());
    array = memory_array(data, {m, n}, dtype, {});
  }
  std::vector<double> get() const {
    return array.dtype() == Dtype::float64 ? wide : std::vector<double>(narrow.begin(), narrow.end());
  }
};

void expect_near(const std::vector<double>& got, const std::vector<double>& want, Dtype dtype, const char* what) {
  double scale = 1;
  for (const double value : want) scale = std::max(scale, std::abs(value));
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], scale * (dtype == Dtype::float32 ? 3e-5 : 1e-12)) << what << " " << i;
}

/// X, its panels (the last one shorter), and X with its means taken off, m x n.
struct Sample {
  Index m, n;
  Held stored;
  DensePanels panels;
  std::vector<double> shift, means, centred;

  Sample(Index m, Index n, Dtype stored_as, bool transpose, bool center)
      : m(m),
        n(n),
        stored(transpose ? n : m, transpose ? m : n, stored_as, 3),
        panels(stored.array, transpose),
        shift(static_cast<std::size_t>(n)),
        means(shift.size()),
        centred(static_cast<std::size_t>(m * n)) {
    panels.step = 16;
    const std::vector<double> values = stored.get();
    for (Index j = 0; j < n; ++j) shift[j] = 2.5 + 0.25 * static_cast<double>(j % 4);
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        centred[i * n + j] = values[transpose ? j * m + i : i * n + j];
        if (center) means[j] += centred[i * n + j] / static_cast<double>(m);
      }
    const std::vector<double>& off = panels.tall ? shift : means;
    for (Index i = 0; center && i < m; ++i)
      for (Index j = 0; j < n; ++j) centred[i * n + j] -= off[j];
  }
  Array shift_array() { return memory_array(reinterpret_cast<std::byte*>(shift.data()), {1, n}, Dtype::float64, {}); }
};

RuntimeOptions options() {
  RuntimeOptions made;
  made.workers = 2, made.memory = GiB;
  return made;
}

struct Collected {
  Held sums, squares;
  Collected(const Sample& s)
      : sums(1, s.n, Dtype::float64, 0), squares(1, s.panels.tall ? s.n : 1, Dtype::float64, 0) {}
  Moments moments() const { return {sums.array, squares.array}; }
  void check(const Sample& s) const {
    std::vector<double> sum(static_cast<std::size_t>(s.n)), square(static_cast<std::size_t>(s.panels.tall ? s.n : 1));
    for (Index i = 0; i < s.m; ++i)
      for (Index j = 0; j < s.n; ++j) {
        const double value = s.centred[i * s.n + j];
        sum[j] += value, square[s.panels.tall ? j : 0] += value * value;
      }
    expect_near(squares.wide, square, Dtype::float32, "squares");
    expect_near(sums.wide, s.panels.tall ? sum : s.means, Dtype::float32, s.panels.tall ? "sums" : "means");
  }
};

/// Runs what `add` adds, given how X is centred and where moments go.
template <class Add>
Statistics run(Sample& s, bool center, const Collected& collected, Add add) {
  Runtime runtime(options());
  return runtime.run([&](Graph& graph) {
    Centring centring{center, {}};
    if (center && s.panels.tall) centring.shift = s.shift_array();
    const Moments moments = collected.moments();
    add(graph, centring, moments);
  });
}

Statistics check_gram(Dtype compute, Index m, Index n, bool transpose, bool center) {
  Sample s(m, n, Dtype::float32, transpose, center);
  constexpr Index b = 5;
  const Index side = s.panels.side, extent = s.panels.extent;
  Held v(side, b, compute, 6), y(side, b, Dtype::float64, 7), kept(extent, b, Dtype::float32, 0);
  const Collected collected(s);
  const std::vector<double> before = y.get();
  const bool tall = s.panels.tall;
  const Statistics done =
      run(s, center, collected, [&](Graph& graph, const Centring& centring, const Moments& moments) {
        dense_gram_multiply(graph, s.panels, centring, v.array, y.array, &kept.array, &moments);
      });
  const std::vector<double> t = reference::multiply(s.centred, m, n, v.get(), b, !tall);
  std::vector<double> want = reference::multiply(s.centred, m, n, t, b, tall);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += before[i];
  expect_near(y.get(), want, compute, "Y");
  expect_near(kept.get(), t, Dtype::float32, "what stands between");
  collected.check(s);
  return done;
}

Statistics check_matrix(Index m, Index n, bool transpose, bool center) {
  Sample s(m, n, Dtype::float32, transpose, center);
  const Index side = s.panels.side;
  Held g(side, side, Dtype::float64, 0);
  const Collected collected(s);
  const bool tall = s.panels.tall;
  const Statistics done =
      run(s, center, collected, [&](Graph& graph, const Centring& centring, const Moments& moments) {
        dense_gram_matrix(graph, s.panels, centring, g.array, &moments);
      });
  for (Index i = 0; i < side; ++i)
    for (Index j = 0; j <= i; ++j) {
      double sum = 0;
      for (Index k = 0; k < s.panels.extent; ++k)
        sum += tall ? s.centred[k * n + i] * s.centred[k * n + j] : s.centred[i * n + k] * s.centred[j * n + k];
      EXPECT_NEAR(g.wide[i * side + j], sum, 1e-9) << i << " " << j;
    }
  collected.check(s);
  return done;
}

TEST(DenseOperator, EveryKernelOfThePanelsComputesWhatItsTwinDoes) {
  for (const Kernel kernel : {Kernel::center_gram, Kernel::center}) {
    int entries = 0;
    for (int d = 0; d <= static_cast<int>(Dtype::complex128); ++d) {
      const auto dtype = static_cast<Dtype>(d);
      if (host_kernels().find(kernel, dtype) == nullptr) continue;
      ++entries;
      for (const auto& [m, n] : {std::pair<Index, Index>{75, 21}, {21, 75}})
        for (const bool transpose : {false, true})
          for (const bool center : {false, true}) {
            const Statistics done = kernel == Kernel::center_gram ? check_gram(dtype, m, n, transpose, center)
                                                                  : check_matrix(m, n, transpose, center);
            EXPECT_EQ(done.of(kernel).calls, 5u) << name_of(kernel);  // 75 in steps of 16
          }
    }
    EXPECT_EQ(entries, kernel == Kernel::center_gram ? 2 : 1) << "each has a twin here";
  }
}

}  // namespace
}  // namespace flagstone::spectral
