#pragma once
// Centres in memory, as the tasks of a pass read them.
#include "flagstone/kernel/nearest/assign.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::cluster {

/// The elements of an array in memory.
inline double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }

/// The first rows of an array in memory, as an array of its own: phases have boxes of their own.
Array first_rows(const Array& array, Index rows);
/// Divides a centre by its length; one of zeros stays one.
void make_unit(double* centre, Index d);
/// out := array in memory, both in boxes of the chunks of `out` along their first dimension; of a matrix its columns
/// from `col` on, as many as are held.
void write_rows(Graph& graph, const Array& held, const Array& out, Index col = 0);

/// At most k centres of d coordinates; `round` after each change. 12 k d bytes.
class CentreArrays {
 public:
  CentreArrays(Graph& graph, Array exact);
  CentreArrays(Graph& graph, Index most, Index d) : CentreArrays(graph, graph.allocate({most, d}, Dtype::float64)) {}

  const Array& exact() const { return exact_; }
  Index k() const { return k_; }
  Index d() const { return exact_.shape()[1]; }
  /// The first `k` of them are in use, rounded about their mean, or about zero.
  void round(Graph& graph, Index k, bool about_mean);
  /// Appends what a task reads; tiles come back in this order.
  void access(std::vector<Access>& accesses) const;
  static kernel::Centres seen(std::span<const Tile> tiles, Index k, bool unit);

 private:
  Array exact_, rounded_, half_;
  Array shift_;  // 1 x (d + 1): the shift, the largest length
  Index k_ = 0;
};

}  // namespace flagstone::cluster
