#pragma once
// The task of a wavefront: one strip, one batch of planes, all levels.
#include "flagstone/algorithms/stencil/field/observers.hpp"
#include "flagstone/algorithms/stencil/schedules/levels.hpp"

namespace flagstone::stencil {

/// Which of the task's tiles holds plane `plane` of an array, and where there.
struct PlanePlace {
  std::uint32_t access = 0;
  Range3 cell;  // of the tile
};

/// Planes of one array, in order from `first` on.
struct PlaneList {
  Index first = 0;
  std::vector<PlanePlace> places;
  const PlanePlace& at(Index plane) const { return places[static_cast<std::size_t>(plane - first)]; }
  bool has(Index plane) const { return plane >= first && plane < first + static_cast<Index>(places.size()); }
};

struct StripWork final : CallValue {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Levels> levels;
  Index strip = 0, batch = 0, first_step = 0;
  std::vector<PlaneList> now;           // of each field, beyond the edges of a periodic axis too
  PlaneList before;                     // of order 2
  std::vector<PlaneList> coefficients;  // planes of the field
  std::vector<PlaneList> results;       // of each state
  std::uint32_t ring = 0, face_in = 0, face_out = 0, scratch = 0;
  struct Trace {
    std::uint32_t access = 0;
    Axes point{};
    Index step = 0, at = 0;  // of the superstep; element of the access's tile
    std::size_t field = 0;
  };
  std::vector<Trace> traces;
  Observed observed;

  /// What a task needs beside its tiles: planes beyond fixed edges, and the kernel's own.
  static std::uint64_t scratch_bytes(const Problem& problem, const Levels& levels);
};

}  // namespace flagstone::stencil
