#pragma once
// Points as clustering sees them: passes that read each of them once.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/algorithms/cluster/centre_arrays.hpp"
#include "flagstone/algorithms/cluster/subspace.hpp"
#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/kernel/random/philox.hpp"

namespace flagstone::cluster {

/// Who asks, and what the caller calls the points: for messages.
struct Asked {
  std::string who = "kmeans", points = "X";
};

/// The points, one a row.
struct PointsInput {
  std::optional<Array> dense;  // m x d, any real dtype
  bool transpose = false;      // use denseᵀ
  std::optional<sparse::CsrOperand> sparse;
  std::optional<Array> weights;  // m real numbers of 0 or more
  bool unit = false;             // each divided by its length
  Asked asked;
  std::optional<Subspace> onto = {};  // sparse points: distances are those of their projections
  Index rows() const;
  Index cols() const;
};

/// What a pass over all points against some centres leaves; what is empty is not wanted.
struct Assignment {
  const CentreArrays* centres = nullptr;
  bool backwards = false;
  std::vector<Index> panels;  // these alone; empty: all
  Array sums;                 // k x d float64 += weighted sums of the points of each
  Array totals;               // 1 x (k + 3) float64 += weights of each, and the three of Total
  Array farthest;             // panels x (4 few) float64 := those of each panel that are farthest from their centres
  Array labels;               // m int32 := the nearest centre
};
enum class Total : std::uint8_t { inertia, spread, decided };  // spread: Σ w ‖x - shift‖²

/// One of `farthest`; row -1: none.
struct Far {
  double square, row, label, weight;
};
inline constexpr Index most_far = 8;  // of a panel

/// A pass that draws rows without replacement: those with the least keys E / (weight · D²), E exponential, so that each
/// is drawn in proportion to weight · D² (Efraimidis and Spirakis 2006).
struct Drawing {
  const CentreArrays* fresh = nullptr;  // candidates of the pass before; null: there are none yet, D² is 1
  Index base = 0;                       // the number of the first of them among all candidates
  Array state;                          // m x 2 float64: D², the nearest candidate; updated
  Array pool;                           // most x (2 + d) float64: key, row, point; updated; empty: nothing is drawn
  Array counts;                         // 1 x candidates float64 += weights of those that are nearest; or empty
  kernel::Stream stream;
};

/// The panels of a pass, in its order.
std::vector<Index> order_of(const Assignment& pass, Index panels);

class Source {
 public:
  virtual ~Source() = default;
  Index rows = 0, cols = 0, panels = 0;
  Index step = 1;  // rows of a panel
  Asked asked;
  std::optional<Subspace> onto;  // centres stay in it

  /// One read of the points, 2 m d k flops.
  virtual void assign(Graph& graph, const Assignment& pass) const = 0;
  /// Reads some panels, which the next pass will want, so that they are there.
  virtual void fetch(Graph& graph, const std::vector<Index>& panels) const = 0;
  /// One read of the points, 2 m d c flops for c fresh candidates.
  virtual void draw(Graph& graph, const Drawing& pass) const = 0;
  /// Room for D² and the nearest candidate of each point, m x 2 float64: boxes are those of panels.
  virtual Array state(Graph& graph) const { return graph.temporary({rows, 2}, Dtype::float64, {step, 2}); }
  /// Centres are rounded about their mean: points are dense.
  virtual bool shifts() const { return false; }
  /// Row i, divided by its length where rows are.
  virtual std::vector<double> row(Graph& graph, Index i) const = 0;
};

std::unique_ptr<Source> make_source(const PointsInput& x);
/// The same in panels of which mini-batches are made: whole chunks, about a 64th of all points, not much below 1,024.
std::unique_ptr<Source> make_batches(const PointsInput& x);
/// Adds a task that only waits until these are there.
void add_fetch(Graph& graph, std::vector<Access> accesses);
/// Adds the task that joins one panel's draws with those of others.
void merge_offers(Graph& graph, const Array& offers, const Array& pool);

}  // namespace flagstone::cluster
