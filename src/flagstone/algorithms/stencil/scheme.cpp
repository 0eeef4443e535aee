#include "flagstone/algorithms/stencil/scheme.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/processor_cache.hpp"
#include "flagstone/algorithms/stencil/schedules/block_step.hpp"
#include "flagstone/algorithms/stencil/schedules/counts.hpp"
#include "flagstone/algorithms/stencil/scheme_price.hpp"
#include "flagstone/algorithms/stencil/skewed/tile_memory.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

constexpr Index most_depth = 64;                        // beyond it nothing is gained: the disk has long been hidden
constexpr Index batch_planes = 16;                      // of a wavefront's task
constexpr Index least_bytes = 256 * KiB;                // of a block: a smaller one is not worth a task
constexpr Index band_bytes = 4 * MiB;                   // of a band of a skewed tile: a task takes a millisecond
constexpr Index request_bytes = 64 * KiB;               // a request costs a disk about as much as so many bytes
constexpr double budget_share = 0.85;                   // of tasks' tiles: they are counted by size class
constexpr Index runs_in_cache[] = {2, 3, 4, 6, 8, 12};  // steps of a run of al2, of which one is chosen
constexpr int pieces_of_largest = 4;  // blocks smaller than the largest leave more of the field in memory

/// The steps of the longest superstep for each possible number of supersteps: at most 2 sqrt(steps) values.
std::vector<Index> depths(Index steps, Index most) {
  std::vector<Index> found;
  for (Index depth = std::max<Index>(1, std::min(steps, most)); depth >= 1;) {
    const Index number = std::max<Index>(1, ceil_div(steps, depth));
    const Index balanced = std::max<Index>(1, ceil_div(steps, number));
    if (found.empty() || found.back() != balanced) found.push_back(balanced);
    depth = balanced - 1;
  }
  return found;
}

/// What the caller fixed, no longer than the field and no deeper than there are steps.
Wishes clamped(const Problem& problem, Wishes wishes) {
  const Axes& n = problem.space.shape;
  const Index steps = std::max<Index>(1, problem.left());
  for (std::size_t d = 0; d < 3; ++d) wishes.block[d] = std::min(wishes.block[d], n[d]);
  if (wishes.depth > 0) wishes.depth = Supersteps(steps, wishes.depth)[0];  // of balanced supersteps
  wishes.levels = std::min(wishes.levels, steps);
  wishes.planes = std::min(wishes.planes, n[0]), wishes.strip = std::min(wishes.strip, n[strip_axis(problem)]);
  return wishes;
}

class Chooser {
 public:
  Chooser(const Problem& problem, const Wishes& wishes, std::uint64_t budget, int workers)
      : problem_(problem),
        wishes_(clamped(problem, wishes)),
        budget_(budget),
        workers_(std::max(1, workers)),
        units_(result_units(problem)),
        prices_(problem, wishes_, units_) {
    if (wishes_.cache == 0) wishes_.cache = worker_cache();
  }

  Scheme chosen() {
    const std::string& method = wishes_.method;
    if (method == "auto" || method == "al4") wavefronts();
    if (method == "auto" || method == "al1") blocks(Method::al1, most_depth);
    // Ghosts of a level are made once, and two steps would read them.
    const bool skews = problem_.left() > 0 && (problem_.stages.size() < 2 || !problem_.edges_change());
    if ((method == "auto" || method == "al3") && skews) blocks(Method::al3, most_depth);
    if (method == "auto" || method == "al2") blocks(Method::al2, most_depth);
    if (method == "sweep") blocks(Method::sweep, 1);
    Scheme scheme = best_ ? *best_ : smallest();
    scheme.fits = best_.has_value(), scheme.seconds = prices_.seconds(scheme);
    const Supersteps each(problem_.left(), scheme.depth);
    if (scheme.method == Method::al4)
      scheme.face_elements = static_cast<double>(each.longer()) * wavefront_faces(problem_, scheme.wavefront, each[0]) +
                             static_cast<double>(each.number() - each.longer()) *
                                 wavefront_faces(problem_, scheme.wavefront, each[each.number() - 1]);
    return scheme;
  }

 private:
  bool fits(std::uint64_t bytes) const {
    return static_cast<double>(bytes) <= budget_share * static_cast<double>(budget_);
  }

  /// Planes of the places between supersteps that stay in memory beside tasks of so many bytes: whole cells, or all.
  Index held(std::uint64_t bytes, Index depth, Index cell) const {
    const Supersteps each(problem_.left(), depth);
    const std::uint64_t plane = held_bytes(problem_, each.number());
    const Index n = problem_.space.shape[first_axis(problem_)];
    if (plane == 0 || !fits(bytes)) return 0;
    const auto room =
        static_cast<std::uint64_t>(static_cast<double>(budget_) - static_cast<double>(bytes) / budget_share);
    const auto planes = static_cast<Index>(std::min<std::uint64_t>(room / plane, static_cast<std::uint64_t>(n)));
    return planes == n ? n : planes / cell * cell;
  }

  void wavefronts() {
    if (problem_.left() == 0 || problem_.axes.size() == 1) return;
    // Ghosts of a level are made once, and two steps would read them.
    if (problem_.stages.size() > 1 && problem_.edges_change()) return;
    for (const Index depth : wishes_.depth > 0 ? std::vector<Index>{std::min(wishes_.depth, problem_.left())}
                                               : depths(problem_.left(), most_depth))
      for (Index planes = most_planes(); planes >= units_[0]; planes -= std::max(units_[0], planes / 8)) {
        WavefrontScheme scheme = wavefront(depth, planes);
        const std::uint64_t bytes = wavefront_bytes(problem_, scheme, workers_);
        scheme.held = held(bytes, depth, wavefront_cell(problem_, scheme));
        consider(Method::al4, {}, scheme, bytes);
      }
  }

  /// Of a batch: short planes come in more of them.
  Index most_planes() const { return std::max({batch_planes, units_[0], least_planes(1 * MiB)}); }
  Index least_planes(Index bytes) const {
    const Axes& n = problem_.space.shape;
    const Index plane = std::max<Index>(1, n[1] * n[2] * problem_.item());
    return ceil_div(std::min(n[0], ceil_div(bytes, plane)), units_[0]) * units_[0];
  }

  WavefrontScheme wavefront(Index depth, Index planes) const {
    WavefrontScheme scheme;
    scheme.depth = depth;
    scheme.planes =
        wishes_.planes > 0 ? ceil_div(wishes_.planes, units_[0]) * units_[0] : ceil_div(planes, units_[0]) * units_[0];
    scheme.levels = wishes_.levels > 0 ? wishes_.levels : std::min<Index>(depth, 8);
    const Axes& n = problem_.space.shape;
    const std::size_t d = strip_axis(problem_);
    scheme.strip = n[d];
    if (!can_cut(problem_)) return scheme;
    const Index least = std::max<Index>(1, face_rows(problem_));
    scheme.strip = std::min(n[d], d == 1 ? Index{64} : Index{64} << 10);
    while (scheme.strip / 2 >= std::max<Index>(least, 8) && group_bytes(problem_, scheme) > wishes_.cache)
      scheme.strip /= 2;
    if (wishes_.strip > 0) scheme.strip = wishes_.strip;
    scheme.strip = std::max(scheme.strip, least);
    return scheme;
  }

  /// Slabs of whole planes first, then rows are cut; of each the most planes that fit.
  void blocks(Method method, Index most) {
    const Axes& n = problem_.space.shape;
    // None of them is faster than its updates, none of which are saved.
    const auto points = static_cast<double>(problem_.space.whole().count()) * static_cast<double>(problem_.left());
    const double update = method == Method::al2 ? least_nested() : prices_.seconds_an_update(1);
    if (best_ && points * update > prices_.seconds(*best_)) return;
    for (const Index depth : method == Method::sweep ? std::vector<Index>{1}
                             : wishes_.depth > 0
                                 ? std::vector<Index>{std::min(wishes_.depth, std::max<Index>(1, problem_.left()))}
                                 : depths(problem_.left(), most)) {
      if (wishes_.block[2] > 0) {
        consider_block(method, wishes_.block, depth);
        continue;
      }
      const std::size_t cut = problem_.axes.size() == 3 ? 1 : 2;
      for (Index pieces = 1; pieces <= n[cut]; pieces = pieces < 4 ? pieces + 1 : pieces * 3 / 2) {
        Axes block = n;
        if (pieces > 1) block[cut] = in_cells(cut, ceil_div(n[cut], pieces), depth);
        largest_planes(method, block, depth);
        // Of a row no shorter pieces than are worth a request: there would be millions to count.
        if (block[cut] <= std::max(units_[cut], cut == 2 ? request_bytes / problem_.item() : 1)) break;
      }
    }
  }

  Index rounded(std::size_t d, Index extent) const {
    return std::min(problem_.space.shape[d], ceil_div(extent, units_[d]) * units_[d]);
  }

  /// The next extent that is made of halos, or of requests that are worth one: such as has divisors for cells.
  Index in_cells(std::size_t d, Index extent, Index depth) const {
    const Index row = d == 2 ? problem_.item() : problem_.space.shape[2] * problem_.item();
    const Index grain = std::lcm(units_[d], std::max(problem_.space.radius[d] * depth, ceil_div(request_bytes, row)));
    return rounded(d, grain < extent ? ceil_div(extent, grain) * grain : extent);
  }

  std::uint64_t bytes_of(const BlockScheme& scheme) const {
    return block_bytes(problem_, scheme) * static_cast<std::uint64_t>(workers_ + 1);
  }

  std::uint64_t bytes_of(Method method, const Axes& block, Index depth) const {
    if (method == Method::al3) return skewed_bytes(problem_, skewed(block, depth), units_, workers_);
    return bytes_of(in_cache(method, block, depth));
  }

  SkewedScheme skewed(const Axes& block, Index depth) const {
    SkewedScheme scheme{block, depth};
    const Axes& n = problem_.space.shape;
    scheme.rows = wishes_.strip > 0 && n[1] > 1 ? wishes_.strip : rows_in_cache(problem_, n[2], wishes_.cache);
    const Index plane = std::max<Index>(1, block[1] * block[2] * problem_.item());
    const Index most = ceil_div(std::min(n[0], block[0]), Index{2} * workers_);  // so that all have one
    scheme.planes = wishes_.planes > 0 ? wishes_.planes : std::clamp(ceil_div(band_bytes, plane), Index{1}, most);
    return scheme;
  }

  /// A scheme of blocks with what it does in the cache.
  BlockScheme in_cache(Method method, const Axes& block, Index depth) const {
    BlockScheme scheme{block, depth};
    const Axes& n = problem_.space.shape;
    if (method == Method::al2)
      scheme.cache = cache_blocks(block, depth);
    else if (method == Method::al1 || method == Method::sweep)
      scheme.rows = wishes_.strip > 0 && n[1] > 1 ? wishes_.strip : rows_in_cache(problem_, n[2], wishes_.cache);
    return scheme;
  }

  /// Cache blocks of al2: rows whole where that leaves room for halos, planes and rows alike long; as many steps as the
  /// least work an update.
  CacheBlocks cache_blocks(const Axes& block, Index depth) const {
    if (wishes_.levels > 0) {
      CacheBlocks cache{cache_edges(block, wishes_.levels), wishes_.levels};
      if (wishes_.planes > 0) cache.block[0] = wishes_.planes;
      if (wishes_.strip > 0) cache.block[strip_axis(problem_)] = wishes_.strip;
      return cache;
    }
    CacheBlocks best;
    double least = 0;
    for (const Index steps : runs_in_cache) {
      const CacheBlocks cache{cache_edges(block, steps), std::min(std::max<Index>(1, depth), steps)};
      const double each = nested_work(block, cache) * prices_.seconds_an_update(cache.depth);
      if (best.depth == 0 || each < least) best = cache, least = each;
    }
    return best;
  }

  /// Updates of a run of cache blocks ÷ those of the block: on average half of the run's halo is computed beside each
  /// inner edge.
  double nested_work(const Axes& block, const CacheBlocks& cache) const {
    double work = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      const Index inner = ceil_div(block[d], cache.block[d]) - 1, halo = problem_.space.radius[d] * (cache.depth - 1);
      work *= 1 + static_cast<double>(inner * halo) / static_cast<double>(block[d]);
    }
    return work;
  }

  /// An update of al2, at least: in cache blocks twice as long as whole fields would have them.
  double least_nested() const {
    double least = prices_.seconds_an_update(1);
    for (const Index steps : runs_in_cache) {
      CacheBlocks cache{cache_edges(problem_.space.shape, steps), std::min(steps, std::max<Index>(1, problem_.left()))};
      for (Index& edge : cache.block) edge *= 2;
      least = std::min(least, nested_work(problem_.space.shape, cache) * prices_.seconds_an_update(cache.depth));
    }
    return least;
  }

  /// Of a cache block of so many steps, two of which lie in the cache with their halos.
  Axes cache_edges(const Axes& block, Index steps) const {
    Axes edges = block, halo;
    for (std::size_t d = 0; d < 3; ++d) halo[d] = 2 * problem_.space.radius[d] * (steps + 1);
    const auto bytes = [&] {
      double all =
          2 * static_cast<double>(problem_.item()) * static_cast<double>(problem_.fields() ? problem_.order() : 1);
      for (std::size_t d = 0; d < 3; ++d) all *= static_cast<double>(edges[d] + halo[d]);
      return all;
    };
    while (bytes() > static_cast<double>(wishes_.cache)) {
      // Whichever is longest beside its halo; rows last.
      std::size_t longest = 3;
      for (const std::size_t d : {0, 1, 2}) {
        if (edges[d] <= std::max<Index>(1, halo[d] / 2) || (d == 2 && longest < 3)) continue;
        if (longest == 3 || edges[d] * (halo[longest] + 1) > edges[longest] * (halo[d] + 1)) longest = d;
      }
      if (longest == 3) break;
      edges[longest] = ceil_div(edges[longest], Index{2});
    }
    return edges;
  }

  void largest_planes(Method method, Axes block, Index depth) {
    Index low = 0, high = ceil_div(problem_.space.shape[0], units_[0]);
    // All workers have a block to do where there is more than one plane.
    high = std::max<Index>(1, std::min(high, ceil_div(high, 2)));
    while (low < high) {
      const Index middle = (low + high + 1) / 2;
      block[0] = rounded(0, middle * units_[0]);
      if (fits(bytes_of(method, block, depth)))
        low = middle;
      else
        high = middle - 1;
    }
    for (Index pieces = 1; pieces <= std::min<Index>(low, pieces_of_largest); ++pieces) {
      block[0] = rounded(0, ceil_div(low, pieces) * units_[0]);
      consider_block(method, block, depth);
    }
  }

  void consider_block(Method method, Axes block, Index depth) {
    for (std::size_t d = 0; d < 3; ++d) block[d] = rounded(d, std::max<Index>(1, block[d]));
    const std::uint64_t bytes = bytes_of(method, block, depth);
    if (method == Method::al3) return consider_skewed(skewed(block, depth), bytes);
    BlockScheme scheme = in_cache(method, block, depth);
    scheme.held = held(bytes, depth, block_cell(problem_, scheme)[first_axis(problem_)]);
    consider(method, scheme, {}, bytes);
  }

  void consider_skewed(SkewedScheme scheme, std::uint64_t bytes) {
    if (!fits(bytes)) return;
    const Index n = problem_.space.shape[first_axis(problem_)];
    const auto room =
        static_cast<std::uint64_t>(static_cast<double>(budget_) - static_cast<double>(bytes) / budget_share);
    const auto planes =
        static_cast<Index>(std::min<std::uint64_t>(room / working_bytes(problem_), static_cast<std::uint64_t>(n)));
    const Index grain = std::max(scheme.planes, ceil_div(n, Index{16}));  // a budget that is a little less: as many
    scheme.held = planes == n ? n : planes / grain * grain;
    const Scheme found = prices_.of(scheme, bytes);
    if (!prices_.too_long(found)) keep(found);
  }

  void consider(Method method, const BlockScheme& blocks, const WavefrontScheme& wavefront, std::uint64_t bytes) {
    if (!fits(bytes)) return;
    const Scheme scheme = prices_.of(method, blocks, wavefront, bytes);
    if (!prices_.too_long(scheme)) keep(scheme);
  }

  void keep(const Scheme& scheme) {
    if (!best_ || prices_.seconds(scheme) < prices_.seconds(*best_)) best_ = scheme;
  }

  Scheme smallest() const {
    if (wishes_.method == "al4" && problem_.left() > 0) {
      WavefrontScheme scheme;
      scheme.depth = wishes_.depth > 0 ? std::min(wishes_.depth, problem_.left()) : 1;
      scheme.planes = wishes_.planes > 0 ? ceil_div(wishes_.planes, units_[0]) * units_[0] : least_planes(least_bytes);
      scheme.levels = wishes_.levels > 0 ? wishes_.levels : scheme.depth;
      const std::size_t d = strip_axis(problem_);
      scheme.strip = problem_.space.shape[d];
      if (wishes_.strip > 0 && can_cut(problem_))
        scheme.strip = std::max({wishes_.strip, Index{1}, face_rows(problem_)});
      return prices_.of(Method::al4, {}, scheme, wavefront_bytes(problem_, scheme, workers_));
    }
    if (wishes_.method == "al3" && problem_.left() > 0) {
      Axes block = wishes_.block[2] > 0 ? wishes_.block : least_block();
      for (std::size_t d = 0; d < 3; ++d) block[d] = rounded(d, std::max(block[d], problem_.space.radius[d]));
      const SkewedScheme scheme = skewed(block, wishes_.depth > 0 ? std::min(wishes_.depth, problem_.left()) : 1);
      return prices_.of(scheme, skewed_bytes(problem_, scheme, units_, workers_));
    }
    const Method method = wishes_.method == "sweep" ? Method::sweep
                          : wishes_.method == "al2" ? Method::al2
                                                    : Method::al1;
    Axes block = wishes_.block[2] > 0 ? wishes_.block : least_block();
    for (std::size_t d = 0; d < 3; ++d) block[d] = rounded(d, block[d]);
    const bool deep = method != Method::sweep && wishes_.depth > 0;
    const BlockScheme scheme =
        in_cache(method, block, deep ? std::min(wishes_.depth, std::max<Index>(1, problem_.left())) : 1);
    return prices_.of(method, scheme, {}, bytes_of(scheme));
  }

  /// One unit of the results, and as many as take what a task should have at least.
  Axes least_block() const {
    Axes block = units_;
    for (std::size_t d = 3; d-- > 0;) {
      const Index bytes = block[0] * block[1] * block[2] * problem_.item();
      block[d] = rounded(d, block[d] * std::max<Index>(1, least_bytes / bytes));
    }
    return block;
  }

  const Problem& problem_;
  Wishes wishes_;
  std::uint64_t budget_;
  int workers_;
  Axes units_;
  Prices prices_;
  std::optional<Scheme> best_;
};

}  // namespace

std::string_view name_of(Method method) {
  constexpr std::string_view names[] = {"sweep", "al1", "al2", "al3", "al4"};
  return names[static_cast<std::size_t>(method)];
}

Scheme choose(const Problem& problem, const Wishes& wishes, std::uint64_t budget, int workers) {
  return Chooser(problem, wishes, budget, workers).chosen();
}

}  // namespace flagstone::stencil
