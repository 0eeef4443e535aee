#pragma once
// Lloyd's iterations: one read of the points each.
#include "flagstone/algorithms/cluster/source.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::cluster {

struct LloydOptions {
  Index iterations = 300;
  double tol = 1e-4;  // Σ ‖Δc‖² that stops, relative to the mean variance of the columns; 0: until moves are rounding
  bool unit = false;  // centres become unit vectors after each update
};

/// Where it stands; of what was assigned last: weights of clusters, Σ w ‖x - c‖², points that float64 decided.
struct Progress {
  Index iteration = 0;
  double inertia = 0, decided = 0;
  double least_move = -1;  // Σ ‖Δc‖² that stops; not known before the first pass
  std::vector<double> weights;
  bool converged = false;
};

/// Moves centres (k x d float64 in memory) until they stay or for so many iterations. Clusters that lost all their
/// points start anew at the points that are farthest from their centres.
Progress lloyd(Graph& graph, const Source& points, const Array& centres, const LloydOptions& options, Stages& stages);
/// One more pass: labels (m int32; empty: not wanted) of these centres, and what belongs to them.
void label(Graph& graph, const Source& points, const Array& centres, bool unit, const Array& labels,
           Progress& progress);
/// What is saved of it.
void list_progress(StateParts& parts, Progress& progress);
/// Iterations that a plan counts, of those that are allowed.
Index planned_iterations(const LloydOptions& options);

}  // namespace flagstone::cluster
