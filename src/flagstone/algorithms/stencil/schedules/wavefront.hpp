#pragma once
// AL4: planes stream by once a superstep; every level follows the one before it at a distance of the radius, in strips
// that stay in the cache and hand faces to each other.
#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

struct WavefrontScheme {
  Index depth = 1;   // most steps of a superstep
  Index planes = 1;  // of one task: a batch; whole chunks of the results
  Index strip = 1;  // rows of one task (elements where a field has no rows): the cache's tile; as long as the axis: one
  Index levels = 1;  // that are computed together, while what they need lies in the second-level cache
  Index held = 0;    // planes of the places between supersteps that stay in memory: whole cells, or all
};

/// One read and one write of the field a superstep, no work twice. A task: the rows of one strip, some planes, all
/// levels, group by group. Its ring holds 2h + 1 planes of every level (of a group's last level a batch more), and of
/// each plane the strip's rows and 4h around; the strip before hands on the last 2h rows of every plane (a face). Of
/// several fields each stage of a step is a level, which keeps what it replaces for the step after (`Versions`). Cost:
/// (order + coefficients) reads, order writes. Memory: wavefront_bytes().
///
/// Returns the steps that were done.
Index run_wavefront(Graph& graph, std::shared_ptr<const Problem> problem, const WavefrontScheme& scheme);

/// The rows that strips hand on, and no strip is narrower: 2h, of several fields as many as a step's stages reach.
Index face_rows(const Problem& problem);
/// Whether strips are possible along the rows: there is room for two faces, and the axis is not periodic.
bool can_cut(const Problem& problem);
/// The axis along which strips lie: 1, of fields without rows 2.
std::size_t strip_axis(const Problem& problem);

/// Bytes of rings and faces, for so many workers, and of the planes that are under way.
std::uint64_t wavefront_bytes(const Problem& problem, const WavefrontScheme& scheme, int workers);
/// Planes of a box of what lies between supersteps.
Index wavefront_cell(const Problem& problem, const WavefrontScheme& scheme);
/// What one strip's ring takes for one group of levels: what should fit into the second-level cache.
std::uint64_t group_bytes(const Problem& problem, const WavefrontScheme& scheme);

}  // namespace flagstone::stencil
