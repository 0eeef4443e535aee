#pragma once
// The geometry of one superstep of a wavefront: which planes and rows of which level belong to whom, and where they
// lie.
#include <vector>

#include "flagstone/algorithms/stencil/field/problem.hpp"
#include "flagstone/algorithms/stencil/schedules/versions.hpp"
#include "flagstone/algorithms/stencil/schedules/wavefront.hpp"

namespace flagstone::stencil {

/// Levels 0 (what is read) to depth(): each a step, of several fields a stage of one; h: how far each reaches along the
/// axis in question.
class Levels {
 public:
  Levels(const Problem& problem, const WavefrontScheme& scheme, Index steps);

  Index depth() const { return depth_; }
  Index steps() const { return depth_ / versions_.stages(); }
  const Versions& versions() const { return versions_; }
  Index strips() const { return strips_; }
  Index groups() const { return ceil_div(depth_, levels_); }
  /// Levels [first, last] of a group.
  Index first_of(Index group) const { return group * levels_ + 1; }
  Index last_of(Index group) const { return std::min(depth_, (group + 1) * levels_); }

  // Planes. Level t computes plane z when the front is at z + h (t - 1); along a periodic axis beyond the edges too,
  // and into sleeves.
  Interval planes(Index level) const;
  Index front_of(Index level, Index plane) const { return plane + reach0_ * (level - 1); }
  Index plane_at(Index level, Index front) const { return front - reach0_ * (level - 1); }
  /// Batches: batch j makes planes [j q, (j + 1) q) of the result.
  Interval batches() const;
  Interval fronts(Index batch) const;
  Index planes_in_batch() const { return planes_; }

  // Rows of all strips, those of strip k.
  Interval rows(Index level) const;
  Interval computed(Index level, Index strip) const;  // level 0: what it takes of the operand
  Interval held(Index level, Index strip) const;      // with the face of the strip before
  Interval face(Index level, Index strip) const;      // what it gets from the strip before
  Index strip_of(Index level, Index row) const;

  // Memory of a strip's ring: planes of level t, then of level t + 1, ...
  std::uint64_t ring_bytes() const { return offsets_.back(); }
  std::uint64_t plane_bytes() const { return plane_bytes_; }
  std::uint64_t face_plane_bytes() const { return face_bytes_; }
  std::uint64_t face_bytes() const;  // of a batch
  /// Plane `plane` of a level in the ring of a strip, of a field that it replaces.
  kernel::Points in_ring(std::byte* ring, Index level, Index strip, Index plane, std::size_t field) const;
  /// A plane like those of the level, in memory of its own.
  kernel::Points like_ring(std::byte* memory, Index level, Index strip, Index plane) const;
  kernel::Points in_face(std::byte* face, Index batch, Index level, Index strip, Index plane, std::size_t field) const;
  /// All of a plane but for the strip's axis, which is `rows`.
  Range3 range(Index plane, const Interval& rows) const;

 private:
  std::uint64_t row_bytes(Index columns) const;
  kernel::Points points(std::byte* data, Index plane, Index first_row) const;

  const Problem& problem_;
  Versions versions_;
  std::size_t axis_;  // of strips
  Index depth_, planes_, strip_, levels_, reach0_, reach_, strips_;
  bool periodic0_;
  std::vector<Index> slots_;
  std::vector<std::uint64_t> offsets_;
  std::vector<Index> faces_;  // planes of faces before those of a level, of one front
  std::uint64_t plane_bytes_ = 0, face_bytes_ = 0;
  Index pitch_ = 0, face_pitch_ = 0;
};

}  // namespace flagstone::stencil
