// Products with decoded rows of a CSR matrix, on each device.
#include "flagstone/algorithms/kernels/sparse.hpp"

#include <cstring>

#include "flagstone/testing/device_table.hpp"

namespace flagstone {
namespace {

using namespace test;

class DeviceSparse : public DeviceFixture {
 protected:
  /// Rows of all lengths, one of them full, some empty, columns in any order; beyond the values there are no numbers.
  /// Returns them densely.
  Matrix place_rows(call::CsrProduct& product, Dtype column_dtype) {
    const Index m = product.rows, n = product.cols;
    std::vector<Index> pointers{0}, columns, order(static_cast<std::size_t>(n));
    for (Index j = 0; j < n; ++j) order[static_cast<std::size_t>(j)] = j;
    for (Index i = 0; i < m; ++i) {
      std::shuffle(order.begin(), order.end(), random_);
      const Index length = i == m / 2   ? n
                           : i % 5 == 3 ? 0
                                        : static_cast<Index>(random_() % static_cast<unsigned>(n / 2));
      columns.insert(columns.end(), order.begin(), order.begin() + length);
      pointers.push_back(static_cast<Index>(columns.size()));
    }
    const auto nnz = static_cast<Index>(columns.size());
    // Two stretches.
    pointers.insert(pointers.end(), {2, m / 3, m, 0});
    const auto flat = [&](Dtype dtype, Index count) {
      const std::uint32_t at = place(dtype, 1, count, Layout::rows);
      for (Tile* t : {&tiles_[at].here, &tiles_[at].there}) t->shape = {count}, t->strides = {t->strides[1]};
      return at;
    };
    const std::uint32_t v = flat(dtype_, nnz + 7), c = flat(column_dtype, nnz + 7),
                        p = flat(Dtype::int64, static_cast<Index>(pointers.size()));
    std::memcpy(here(p).data, pointers.data(), pointers.size() * sizeof(Index));
    const Tile values{here(v).data, dtype_, {1, nnz + 7}, {0, here(v).strides[0]}, 0};
    for (Index k = nnz; k < nnz + 7; ++k) set(values, 0, k, std::nan(""));
    Matrix dense = matrix(m, n);
    for (Index i = 0; i < m; ++i)
      for (Index k = pointers[static_cast<std::size_t>(i)]; k < pointers[static_cast<std::size_t>(i) + 1]; ++k) {
        const Index j = columns[static_cast<std::size_t>(k)];
        dense.at(i, j) = get(values, 0, k);
        std::byte* const to = here(c).data + k * here(c).strides[0];
        std::memcpy(to, &j, size_of(column_dtype));  // little-endian, as all of it
      }
    product.dtype = dtype_;
    product.values = static_cast<int>(v), product.columns = static_cast<int>(c), product.pointers = static_cast<int>(p);
    return dense;
  }

  int put(Dtype dtype, Index m, Index n) { return static_cast<int>(place(dtype, m, n, Layout::rows)); }
  Matrix of(int tile) { return read(static_cast<std::uint32_t>(tile)); }

  void run_product(call::CsrProduct product, const std::vector<int>& changes) {
    product.padded = product.width;
    product.sums_aside = product.sum >= 0 && real_part_of(dtype_) == Dtype::float32;
    product.rows_aside = product.kept >= 0 && here(static_cast<std::uint32_t>(product.kept)).dtype != dtype_;
    product.scratch = static_cast<int>(scratch(static_cast<Index>(call::csr_product_scratch(product))));
    Call call(product.kernel(), dtype_, {});
    call.value = std::make_shared<call::CsrProduct>(product);
    run(call, {changes.begin(), changes.end()});
  }

  const Dtype wide_ = complex_ ? Dtype::complex128 : Dtype::float64;
  /// What A - 1 muᵀ is.
  Matrix shifted(const Matrix& a, const Matrix& mu) {
    Matrix b = a;
    for (Index i = 0; i < a.m; ++i)
      for (Index j = 0; j < a.n; ++j) b.at(i, j) -= mu.at(0, j);
    return b;
  }
};

TEST_P(DeviceSparse, RowsTimesVectors) {
  for (const Index width : {1, 7, 64, 150})
    for (const Dtype columns : {Dtype::uint16, Dtype::uint32, Dtype::uint64})
      for (int form = 0; form < (complex_ ? 2 : 4); ++form) {  // new sums, on from others, shifted, another dtype
        tiles_.clear();
        call::CsrProduct p;
        p.rows = 90, p.cols = 150, p.width = width, p.ordered = form < 2, p.accumulates = form == 1;
        const Matrix a = place_rows(p, columns);
        const Dtype other = dtype_ == Dtype::float32 ? Dtype::float64 : Dtype::float32;
        p.x = put(dtype_, p.cols, width), p.kept = put(form == 3 ? other : dtype_, p.rows + 3, width);
        if (form == 2) p.shift = put(Dtype::float64, 1, p.cols);
        const Matrix x = of(p.x), before = of(p.kept);
        Matrix want = (form == 2 ? shifted(a, of(p.shift)) : a) * x;
        const double size = a.norm() * x.norm() * (form == 2 ? 20 : 1);
        if (form == 1) want = sum(1, want, 1, rows(before, 0, p.rows));
        run_product(p, {p.kept});
        const Matrix got = of(p.kept);
        const double coarse = form == 3 && dtype_ == Dtype::float64 ? 0x1p29 : 1;  // rounded to float32
        expect_near(rows(got, 0, p.rows), want, 8 * size * coarse,
                    std::to_string(width) + ", form " + std::to_string(form));
        EXPECT_EQ(rows(got, p.rows, p.rows + 3).x, rows(before, p.rows, p.rows + 3).x);
      }
}

TEST_P(DeviceSparse, SumsOverRows) {
  for (const Index width : {1, 33, 64})
    for (int form = 0; form < 4; ++form) {  // bit 0: T is made here; bit 1: shifted, or of complex ones kept
      tiles_.clear();
      call::CsrProduct p;
      p.rows = 140, p.cols = 60, p.width = width;
      const bool made = form & 1, more = form & 2;
      const Matrix a = place_rows(p, form == 0 ? Dtype::uint32 : Dtype::uint16);
      (made ? p.x : p.given) = put(dtype_, made ? p.cols : p.rows, width);
      p.sum = put(wide_, p.cols, width);
      if (more && !complex_) p.shift = put(Dtype::float64, 1, p.cols);
      if (more && made) p.kept = put(dtype_, p.rows, width);
      const Matrix b = p.shift >= 0 ? shifted(a, of(p.shift)) : a, before = of(p.sum);
      const Matrix t = made ? b * of(p.x) : of(p.given);
      const Matrix want = sum(1, before, 1, op(b, true, made && complex_) * t);
      const double size = b.norm() * t.norm() * (p.shift >= 0 ? 20 : 1) + before.norm();
      run_product(p, p.kept >= 0 ? std::vector{p.sum, p.kept} : std::vector{p.sum});
      expect_near(of(p.sum), want, 8 * size, std::to_string(width) + ", form " + std::to_string(form));
      if (p.kept >= 0) expect_near(of(p.kept), t, 160 * b.norm() * of(p.x).norm(), "T");
    }
}

/// Sums over rows have one order, whatever else the card does.
TEST_P(DeviceSparse, OneRunAsTheOther) {
  call::CsrProduct p;
  p.rows = 900, p.cols = 40, p.width = 64;
  place_rows(p, Dtype::uint16);
  p.x = put(dtype_, p.cols, p.width), p.sum = put(wide_, p.cols, p.width);
  const std::vector<Placed> given = tiles_;
  std::vector<std::byte> first;
  for (int again = 0; again < 3; ++again) {
    for (std::size_t i = 0; i < given.size(); ++i)
      std::copy(given[i].memory.begin(), given[i].memory.end(), tiles_[i].memory.begin());
    run_product(p, {p.sum});
    tiles_.pop_back();
    const std::vector<std::byte>& now = tiles_[static_cast<std::size_t>(p.sum)].memory;
    if (again == 0) first = now;
    EXPECT_EQ(now, first);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSparse, testing::ValuesIn(every_device_and_dtype()), name_of_param);

}  // namespace
}  // namespace flagstone
