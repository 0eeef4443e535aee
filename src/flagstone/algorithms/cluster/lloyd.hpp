#pragma once
// Lloyd's iterations: one read of the points each.
#include <span>

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

/// Centres become the means of their points, block after block of them; clusters that lost all their points take those
/// that are farthest from their centres. One way of it, whether all centres are one block or lie on disk: blocks come
/// in their order, so that each sum over centres is the same.
class CentreMoves {
 public:
  /// Of k centres. The points, in whose panels sums round, may go before this does.
  CentreMoves(const Source& points, Index k, const LloydOptions& options);
  /// One cluster takes a point of another.
  struct Refill {
    Index row, from, to;
    double weight;
  };
  /// After a pass: its totals (1 x (k + 3)), and the points that it offers. NumericalError: there is no mean of these.
  void begin(const double* totals, std::span<const Far> offered);
  const std::vector<Refill>& refills() const { return refills_; }
  /// Of centres [first, first + rows): their sums as they were added, and where they stand.
  void note(Index first, Index rows, const double* sums, const double* centres);
  /// The sums after it, where its clusters are among these.
  void refill(const Refill& refill, const double* point, Index first, Index rows, double* sums) const;
  /// to := where they go; it may be `centres`.
  void move(Index first, Index rows, const double* sums, const double* centres, double* to);
  /// All have moved: whether that was the last time.
  void finish(Progress& progress) const;

 private:
  double least_move() const;

  Index k_, d_, panels_;
  bool shifts_;  // spreads are those about the mean of centres
  std::string who_;
  LloydOptions options_;
  std::vector<double> weights_;  // of clusters, once they are refilled
  std::vector<Refill> refills_;
  std::vector<double> mean_, shift_;  // Σ over points; Σ over centres
  double all_ = 0, spread_ = 0, square_ = 0;
  double change_ = 0, noise_ = 0;  // noise: Σ (‖c‖² + mean ‖x‖²), of which rounding² P is no move
};

/// Moves centres (k x d float64 in memory) until they stay or for so many iterations. Clusters that lost all their
/// points start anew at the points that are farthest from their centres. `name`: of what is saved; an operation that
/// does this twice has two.
Progress lloyd(Graph& graph, const Source& points, const Array& centres, const LloydOptions& options, Stages& stages,
               const std::string& name = "lloyd");
/// One more pass: labels (m int32; empty: not wanted) of these centres, and what belongs to them; an inertia beyond
/// float64 is infinite.
void label(Graph& graph, const Source& points, const Array& centres, bool unit, const Array& labels,
           Progress& progress);
/// Weights and inertia of a pass.
void take_totals(Progress& progress, const double* totals, Index k);
/// NumericalError where there are no means of points of such weights and Σ w ‖x - c‖².
void check_pass(const std::string& who, double weight, double inertia);
/// What is saved of it.
void list_progress(StateParts& parts, Progress& progress);
/// Iterations that a plan counts, of those that are allowed.
Index planned_iterations(const LloydOptions& options);

}  // namespace flagstone::cluster
