#include "flagstone/algorithms/cluster/centre_arrays.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/kernel/nearest/points.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::cluster {

Array first_rows(const Array& array, Index rows) {
  Shape shape = array.shape();
  shape[0] = rows;
  return memory_array(array.store().memory(), shape, array.dtype(), array.store().memory_strides(),
                      array.shared_store());
}

void write_rows(Graph& graph, const Array& held, const Array& out, Index col) {
  const Index step = out.chunks()[0], rows = out.shape()[0];
  const Array from = first_rows(held, rows);
  for (Index at = 0; at < rows; at += step) {
    Box box = whole(from.shape());
    box.start[0] = at, box.shape[0] = std::min(step, rows - at);
    Box to = box;
    if (to.start.size() > 1) to.start[1] = col;
    TaskSpec task;
    task.name = "written";
    task.accesses = {read({from, box}), write({out, to})};
    task.cost.bytes_touched = 2.0 * static_cast<double>(count(box.shape) * static_cast<Index>(size_of(out.dtype())));
    task.calls = {held.dtype() == out.dtype() ? call::copy(out.dtype(), {0}, {1})
                                              : call::convert(out.dtype(), {0}, {1})};
    graph.add(std::move(task));
  }
  graph.barrier();
}

void make_unit(double* centre, Index d) {
  const double square = kernel::row_loops().product(centre, centre, d);
  const double length = std::isnormal(square) ? std::sqrt(square) : 1;
  const double more = std::isnormal(square) ? 1 : kernel::inverse_length(centre, d, square);
  for (Index l = 0; l < d; ++l) centre[l] *= more, centre[l] /= length;
}

CentreArrays::CentreArrays(Graph& graph, Array exact)
    : exact_(std::move(exact)),
      rounded_(graph.allocate(exact_.shape(), Dtype::float32)),
      half_(graph.allocate({1, kernel::scores_width(exact_.shape()[0])}, Dtype::float32)),
      shift_(graph.allocate({1, d() + 1}, Dtype::float64)),
      k_(exact_.shape()[0]) {}

void CentreArrays::round(Graph& graph, Index k, bool about_mean) {
  k_ = k;
  if (graph.planning()) return;
  const double* centres = numbers(exact_);
  double* shift = numbers(shift_);
  std::fill_n(shift, d(), 0.0);
  for (Index j = 0; about_mean && j < k; ++j)
    for (Index l = 0; l < d(); ++l) shift[l] += centres[j * d() + l] / static_cast<double>(k);
  shift[d()] = kernel::round_centres(centres, k, d(), shift, reinterpret_cast<float*>(rounded_.store().memory()),
                                     reinterpret_cast<float*>(half_.store().memory()));
}

void CentreArrays::access(std::vector<Access>& accesses) const {
  for (const Array& array : {exact_, rounded_, half_, shift_}) accesses.push_back(read({array, whole(array.shape())}));
}

kernel::Centres CentreArrays::seen(std::span<const Tile> tiles, Index k, bool unit) {
  const Index d = tiles[0].shape[1];
  const double* shift = tiles[3].as<const double>();
  return {k,        d,   tiles[0].as<const double>(), tiles[1].as<const float>(), tiles[2].as<const float>(), shift,
          shift[d], unit};
}

}  // namespace flagstone::cluster
