#pragma once
// Lloyd's iterations over centres that lie on disk.
#include <optional>

#include "flagstone/algorithms/centres/block_pass.hpp"
#include "flagstone/algorithms/centres/stored_kmeans.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::centres {

/// After each iteration the centres are another array: what the last save tells of stays as it is until the next one.
class StoredLloyd {
 public:
  /// `step`: rows of a box of centres, seeds and outputs; block_rows of the points where it is not given.
  StoredLloyd(Graph& graph, const cluster::PointsInput& x, Index k, const cluster::LloydOptions& options,
              Stages& stages, std::optional<Index> step = {});

  /// Iterations from the seeds, or from where a dead process left them; `name`: of what is saved. `progress` lives as
  /// long as this does.
  void run(cluster::Progress& progress, StoredCentres seeds, const std::string& name);
  void begin(const StoredCentres& seeds);
  /// One more pass, without an update.
  void label(cluster::Progress& progress, const Array& labels);
  /// out := the centres.
  void write(const Array& out);

  Index point_reads() const { return point_reads_; }
  /// Of an iteration.
  const std::string& order() const { return order_; }

 private:
  /// Panels of chosen rows are no tiles of a grid.
  bool chosen() const { return x_.sparse && x_.sparse->rows; }
  void make_sums();
  std::string name() const { return "centres" + std::to_string(generation_); }
  Shape tile() const { return {centres_.step(), centres_.d()}; }
  void list_parts(StateParts& parts, cluster::Progress& progress);
  void go_on();
  void iterate(cluster::Progress& progress, Index most);
  void open();
  void made();
  void forget();
  void remove(Index generation) const;
  void add_to_shift(const double* centre);
  void load(const StoredCentres& seeds, Index block);
  void check(const double* centre, Index j) const;
  void pass(cluster::Progress& progress);
  void move(cluster::Progress& progress);
  void move(const Array& before, Index block);

  Graph& graph_;
  cluster::PointsInput x_;
  Stages& stages_;
  std::unique_ptr<cluster::Source> source_;
  Charge kept_;  // weights of clusters, here, in moves_ and in results; vectors of d
  CentreBlocks centres_;
  cluster::CentreMoves moves_;
  cluster::LloydOptions options_;
  BlockArrays to_;
  std::vector<double> shift_;  // the mean of the centres
  std::string order_;
  Index generation_ = 0, saved_ = -1, point_reads_ = 0;
  bool crowded_ = false, leave_ = false;  // as BlockPass has it; of the generation that is made next
  std::unique_ptr<FinishedTiles> tiles_;
  std::unique_ptr<Stages::Kept> state_;
};

}  // namespace flagstone::centres
