#include "flagstone/algorithms/subspace/pair_product.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "flagstone/base/thread.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::subspace {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <class T>
void mirror_lower_of(T* block, Index n) {
  for (Index a = 0; a < n; ++a)
    for (Index b = a + 1; b < n; ++b) block[a * n + b] = block[b * n + a];
}
void mirror_lower(const Tile& block) {
  if (block.dtype == Dtype::float32)
    mirror_lower_of(block.as<float>(), block.shape[0]);
  else
    mirror_lower_of(block.as<double>(), block.shape[0]);
}

}  // namespace

const Tile& PairProduct::matrix(Tile& tile, const std::byte* data, Index rows, Index cols, Dtype dtype) {
  const auto item = static_cast<Index>(size_of(dtype));
  tile.data = const_cast<std::byte*>(data), tile.dtype = dtype;
  tile.shape[0] = rows, tile.shape[1] = cols;
  tile.strides[0] = cols * item, tile.strides[1] = item;
  return tile;
}

PairWork PairProduct::work(const Side& i, const Side& j) {
  return pair_work(estimate_->of(i.group, j.group), i.rows, i.columns, j.rows, j.columns);
}

PairProduct::Took PairProduct::operator()(const Side& i, const Side& j, bool right, Dtype dtype, std::byte* product,
                                          std::byte* to) {
  const auto start = Clock::now();
  maker_->make(i.group, j.group, block_);
  const double making = since(start);
  matrix(result_, to, i.columns, j.columns, dtype);
  if (right) {
    kernel::multiply(block_, dtype, j.z, j.columns, product);
    matrix(left_, i.z, i.rows, i.columns, dtype), matrix(right_, product, i.rows, j.columns, dtype);
  } else {
    kernel::multiply_transposed(block_, dtype, i.z, i.columns, product);
    matrix(left_, product, j.rows, i.columns, dtype), matrix(right_, j.z, j.rows, j.columns, dtype);
  }
  kernel::gemm(1, left_, {.transpose = true}, right_, {}, 0, result_, nullptr);
  if (i.group == j.group) mirror_lower(result_);
  return {making, since(start) - making, block_.nonzeros()};
}

namespace {

/// What one worker does: every `workers`-th of the runs.
Rehearsal rehearse_alone(const BlockSource& h, const BlockLayout& z, const Runs& runs, Dtype dtype, double seconds,
                         int worker, int workers) {
  Rehearsal made;
  PairProduct product(h);
  const auto item = static_cast<Index>(size_of(dtype));
  std::vector<std::byte> ones, between, to;
  const auto side = [&](Index g) {
    const auto group = static_cast<std::size_t>(g);
    const auto count = static_cast<std::size_t>(z.rows[group] * z.columns[group]);
    if (const std::size_t known = ones.size() / static_cast<std::size_t>(item); known < count) {
      ones.resize(count * static_cast<std::size_t>(item));
      if (dtype == Dtype::float32)
        std::fill_n(reinterpret_cast<float*>(ones.data()), count, 1.0F);
      else
        std::fill_n(reinterpret_cast<double*>(ones.data()), count, 1.0);
    }
    return PairProduct::Side{g, z.rows[group], z.columns[group], nullptr};
  };
  const auto count = static_cast<double>(runs.runs.size());
  const double golden = (std::sqrt(5.0) - 1) / 2;  // its multiples are spread evenly, however many there are
  const auto start = Clock::now();
  for (double turn = worker; turn < count && since(start) < seconds; turn += workers) {
    const double at = turn * golden;
    const Run& run = runs.runs[static_cast<std::size_t>((at - std::floor(at)) * count)];
    between.resize(std::max(between.size(), run.scratch));
    for (Index b = run.blocks; b < run.blocks + run.count && since(start) < seconds; ++b) {
      const BlockPlace& place = runs.places[static_cast<std::size_t>(b)];
      PairProduct::Side i = side(z.stripes[static_cast<std::size_t>(run.row)] + place.i),
                        j = side(z.stripes[static_cast<std::size_t>(run.col)] + place.j);
      i.z = j.z = ones.data();
      to.resize(std::max(to.size(), static_cast<std::size_t>(i.columns * j.columns * item)));
      const PairWork work = product.work(i, j);
      const auto took = product(i, j, work.right, dtype, between.data(), to.data());
      made.work += work, made.seconds += took.making + took.multiplying;
    }
  }
  return made;
}

}  // namespace

Rehearsal rehearse(const BlockSource& h, const BlockLayout& z, const Runs& runs, Dtype dtype, double seconds,
                   int workers) {
  kernel::set_blas_threads(1);  // as in runs of one worker a task
  std::vector<Rehearsal> each(static_cast<std::size_t>(workers));
  const auto part = [&](int w) {
    each[static_cast<std::size_t>(w)] = rehearse_alone(h, z, runs, dtype, seconds, w, workers);
  };
  {
    std::vector<std::jthread> others;
    for (int w = 1; w < workers; ++w) others.push_back(start_thread<std::jthread>([&part, w] { part(w); }));
    part(0);
  }
  Rehearsal made;
  for (const Rehearsal& one : each) made.work += one.work, made.seconds += one.seconds;
  return made;
}

}  // namespace flagstone::subspace
