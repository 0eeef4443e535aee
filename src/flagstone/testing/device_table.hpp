#pragma once
// For tests: the kernels of each device that is here, the emulated one always, by what they promise: on tiles of any
// layout, with memory around them that nothing may touch, outputs poisoned, fresh random data (GTEST_RANDOM_SEED).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "flagstone/kernel/reference/reference.hpp"
#include "flagstone/runtime/graph/call.hpp"
#include "flagstone/runtime/spaces/cuda_loader.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"

namespace flagstone::test {

using kernel::reference::get;
using kernel::reference::set;
using kernel::reference::Wide;

inline std::shared_ptr<Device> opened(const std::string& kind) {
  static std::shared_ptr<Device> emulated, cuda;
  if (kind == "cuda") return cuda ? cuda : cuda = open_cuda(0, std::uint64_t{1} << 29);
  return emulated ? emulated : emulated = open_emulated({.memory = std::uint64_t{1} << 26});
}

inline std::vector<std::string> kinds() {
  std::vector<std::string> found{"emulated"};
  if (!cuda_devices().empty()) found.push_back("cuda");
  return found;
}

enum class Layout { rows, columns, strided };

/// A matrix in wide numbers, for what is promised of it.
struct Matrix {
  Index m = 0, n = 0;
  std::vector<Wide> x;
  Wide& at(Index i, Index j) { return x[i * n + j]; }
  Wide at(Index i, Index j) const { return x[i * n + j]; }
  double norm() const {
    double sum = 0;
    for (const Wide& v : x) sum += std::norm(v);
    return std::sqrt(sum);
  }
};
inline Matrix matrix(Index m, Index n) { return {m, n, std::vector<Wide>(static_cast<std::size_t>(m * n))}; }
inline Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c = matrix(a.m, b.n);
  for (Index i = 0; i < a.m; ++i)
    for (Index k = 0; k < a.n; ++k)
      for (Index j = 0; j < b.n; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}
inline Matrix sum(Wide alpha, const Matrix& a, Wide beta, const Matrix& b) {
  Matrix c = a;
  for (std::size_t i = 0; i < c.x.size(); ++i) c.x[i] = alpha * a.x[i] + beta * b.x[i];
  return c;
}
inline Matrix op(const Matrix& a, bool transpose, bool conjugate) {
  Matrix c = transpose ? matrix(a.n, a.m) : a;
  for (Index i = 0; i < c.m; ++i)
    for (Index j = 0; j < c.n; ++j) {
      const Wide x = transpose ? a.at(j, i) : a.at(i, j);
      c.at(i, j) = conjugate ? std::conj(x) : x;
    }
  return c;
}
inline Matrix triangle(const Matrix& a, bool lower, bool unit = false) {
  Matrix c = a;
  for (Index i = 0; i < a.m; ++i)
    for (Index j = 0; j < a.n; ++j) c.at(i, j) = i == j && unit ? 1 : (lower ? i >= j : i <= j) ? a.at(i, j) : 0;
  return c;
}
inline Matrix matrix(const Tile& t) {
  Matrix a = matrix(t.shape[0], t.shape[1]);
  for (Index i = 0; i < a.m; ++i)
    for (Index j = 0; j < a.n; ++j) a.at(i, j) = get(t, i, j);
  return a;
}
inline Matrix rows(const Matrix& a, Index first, Index end) {
  Matrix c = matrix(end - first, a.n);
  for (Index i = first; i < end; ++i)
    for (Index j = 0; j < a.n; ++j) c.at(i - first, j) = a.at(i, j);
  return c;
}

struct DeviceParam {
  std::string kind;
  Dtype dtype;
};

class DeviceFixture : public testing::TestWithParam<DeviceParam> {
 protected:
  /// A tile inside memory with something around it, here and on the device.
  struct Placed {
    std::vector<std::byte> memory, given;
    Tile here, there;
  };

  const bool cuda_ = GetParam().kind == "cuda";
  const Dtype dtype_ = GetParam().dtype;
  const bool complex_ = is_complex(dtype_);
  const double eps_ = real_part_of(dtype_) == Dtype::float32 ? 0x1p-23 : 0x1p-52;
  const Index n_ = cuda_ ? 150 : 21;  // where blocks of the vendor's kernels begin to matter
  std::shared_ptr<Device> device_ = opened(GetParam().kind);
  std::mt19937 random_{static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed())};
  std::vector<Placed> tiles_;

  std::vector<Layout> layouts() const {
    // The host's kernels want one unit stride.
    return cuda_ ? std::vector{Layout::rows, Layout::columns, Layout::strided}
                 : std::vector{Layout::rows, Layout::columns};
  }
  std::vector<bool> conjugations() const { return complex_ ? std::vector{false, true} : std::vector{false}; }

  std::uint32_t place(Dtype dtype, Index m, Index n, Layout layout) {
    const auto item = static_cast<Index>(size_of(dtype)), pad = 3 * item;
    const Index step = layout == Layout::strided ? 2 * item : item;
    Tile t{nullptr, dtype, {m, n}, {n * step + pad, step}, 0};
    if (layout == Layout::columns) t.strides = {item, m * item + pad};
    const Index bytes = 2 * pad + m * t.strides[0] + n * t.strides[1];
    Placed made;
    made.memory.resize(static_cast<std::size_t>(bytes));
    for (std::byte& b : made.memory) b = static_cast<std::byte>(random_());
    t.bytes = static_cast<std::size_t>(m * n * item);
    made.here = made.there = t;
    made.here.data = made.memory.data() + pad;
    std::normal_distribution<double> normal;
    const bool number = is_complex(dtype) || dtype == Dtype::float32 || dtype == Dtype::float64;
    for (Index i = 0; number && i < m; ++i)
      for (Index j = 0; j < n; ++j) set(made.here, i, j, {normal(random_), is_complex(dtype) ? normal(random_) : 0});
    tiles_.push_back(std::move(made));
    return static_cast<std::uint32_t>(tiles_.size() - 1);
  }
  Tile& here(std::uint32_t i) { return tiles_[i].here; }
  Matrix read(std::uint32_t i) { return matrix(here(i)); }
  std::uint32_t scratch(Index bytes) { return place(Dtype::uint8, 1, bytes + 64, Layout::rows); }

  void wait(const std::function<void(Device::Done)>& ask) {
    std::promise<std::exception_ptr> done;
    ask([&](std::exception_ptr error) { done.set_value(error); });
    if (const std::exception_ptr error = done.get_future().get()) std::rethrow_exception(error);
  }
  static Tile bytes_of(std::byte* data, std::size_t n) { return {data, Dtype::uint8, {static_cast<Index>(n)}, {1}, n}; }

  /// Runs it `works` times over on tiles of each work's own; tiles_ become those of the first. `changes`: which may.
  void run(const Call& call, const std::vector<std::uint32_t>& changes, std::size_t works = 1) {
    std::vector<Tile> shapes;
    for (Placed& p : tiles_) shapes.push_back(p.there);
    const std::vector<Call> calls{call};
    ASSERT_TRUE(device_->runs(call));
    const std::size_t workspace = device_->workspace_bytes(calls, shapes);
    std::byte* at = device_->memory();
    const auto take = [&](std::size_t bytes) { return std::exchange(at, at + (bytes + 255) / 256 * 256); };
    std::vector<std::vector<Tile>> there(works, shapes);
    std::vector<DeviceWork> batch;
    std::vector<std::byte> poison(workspace, std::byte{0xFF});
    for (Placed& p : tiles_) p.given = p.memory;
    for (std::size_t w = 0; w < works; ++w) {
      for (std::size_t i = 0; i < tiles_.size(); ++i) {
        std::byte* const base = take(tiles_[i].memory.size());
        const Tile to = bytes_of(base, tiles_[i].memory.size());
        wait([&](auto done) { device_->copy_in(bytes_of(tiles_[i].memory.data(), to.bytes), to, done); });
        there[w][i].data = base + (here(static_cast<std::uint32_t>(i)).data - tiles_[i].memory.data());
      }
      std::byte* const space = take(workspace);
      if (workspace > 0)
        wait(
            [&](auto done) { device_->copy_in(bytes_of(poison.data(), workspace), bytes_of(space, workspace), done); });
      batch.push_back({calls, there[w], space});
    }
    ASSERT_LE(static_cast<std::uint64_t>(at - device_->memory()), device_->properties().memory);
    wait([&](auto done) { device_->launch(batch, 1, done); });
    for (std::size_t w = works; w-- > 0;)
      for (std::size_t i = 0; i < tiles_.size(); ++i) {
        std::vector<std::byte> back(tiles_[i].memory.size());
        const Tile from = bytes_of(there[w][i].data - (tiles_[i].here.data - tiles_[i].memory.data()), back.size());
        wait([&](auto done) { device_->copy_out(from, bytes_of(back.data(), back.size()), done); });
        if (w + 1 < works) {
          ASSERT_EQ(back, tiles_[i].memory) << "works of one batch differ";
        }
        std::copy(back.begin(), back.end(), tiles_[i].memory.begin());
      }
    check_surroundings(changes);
  }

  /// What is not of a tile that may change has the bytes that it had.
  void check_surroundings(const std::vector<std::uint32_t>& changes) {
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      Placed& p = tiles_[i];
      if (p.here.dtype == Dtype::uint8) continue;
      std::vector<std::byte> masked = p.memory;
      if (std::find(changes.begin(), changes.end(), i) != changes.end()) {
        Tile from = p.here, to = p.here;
        from.data = p.given.data() + (p.here.data - p.memory.data());
        to.data = masked.data() + (p.here.data - p.memory.data());
        copy(from, to);
      }
      ASSERT_EQ(masked, p.given) << "tile " << i << " or what is around it was touched";
    }
  }

  void expect_near(const Matrix& got, const Matrix& want, double bound, const std::string& what) {
    const double error = sum(1, got, -1, want).norm();
    EXPECT_LE(error, bound * eps_) << what;
    EXPECT_TRUE(std::isfinite(error)) << what;
  }
  Wide scalar(double re, double im) const { return {re, complex_ ? im : 0}; }
};

inline std::vector<DeviceParam> every_device_and_dtype() {
  std::vector<DeviceParam> all;
  for (const std::string& kind : kinds())
    for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128})
      all.push_back({kind, dtype});
  return all;
}

inline std::string name_of_param(const testing::TestParamInfo<DeviceParam>& info) {
  return info.param.kind + "_" + std::string(name_of(info.param.dtype));
}

}  // namespace flagstone::test
