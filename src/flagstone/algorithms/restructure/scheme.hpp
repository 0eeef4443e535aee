#pragma once
// How an array is restructured: in one pass or two, in which boxes, and why. Pure arithmetic on shapes.
#include <algorithm>
#include <optional>
#include <string>

#include "flagstone/algorithms/restructure/source.hpp"

namespace flagstone::restructure {

/// One look at a source: boxes of the result one after the other; of each the pieces of the source that it needs are
/// held while its tiles are written.
struct Pass {
  Shape box;                       // of the result: whole tiles
  Shape tile;                      // of the result: whole chunks, what one task writes
  Shape piece;                     // of the source: what is read at once
  bool parts = false;              // pieces end with the box; else they are shared by boxes that meet in them
  std::vector<std::size_t> loops;  // dimensions in the order in which boxes follow one another, slowest first
  std::uint64_t pieces = 1;        // under one box, at most
  std::uint64_t held = 0;          // bytes of the source under one box, and of what a graph knows of its tasks
  std::uint64_t run = 0;           // contiguous bytes of one request
  double times_read = 1;           // bytes read ÷ bytes of the source
  double cost = 0;                 // bytes read, with what requests cost
};

/// What a graph knows of one task, and of each piece that it reads: those of two boxes are in sight, and of one tile
/// more. Measured: 420 bytes of a tile of one piece; 710 of each of 1,024 pieces.
inline constexpr std::uint64_t known_of_task = 512, known_of_piece = 768;

/// Tiles of one box.
inline double tiles_of(const Shape& box, const Shape& tile, const Shape& shape) {
  double tiles = 1;
  for (std::size_t d = 0; d < box.size(); ++d)
    tiles *= static_cast<double>(ceil_div(std::min(box[d], shape[d]), tile[d]));
  return tiles;
}

/// Bytes of the tasks in sight; nothing for a single one.
inline std::uint64_t known_bytes(double tiles, double pieces) {
  const auto beyond_one = [](double n) { return static_cast<std::uint64_t>(std::clamp(n - 1, 0.0, 1e12)); };
  return 2 * known_of_task * beyond_one(tiles) +
         known_of_piece * (2 * beyond_one(pieces) + beyond_one(pieces / std::max(1.0, tiles)));
}

struct Scheme {
  Pass first;
  std::optional<Pass> second;  // from pieces of the shape first.tile in scratch
  std::string why;
  std::uint64_t budget = 0, needs = 0;  // what it was chosen for; what it takes of that
  int workers = 0;

  int passes() const { return second ? 2 : 1; }
};

/// What the result takes for each tile that is under way.
struct Target {
  Shape shape;
  Shape tile;  // what must be written at once
  std::size_t item = 1;
  std::uint64_t staging = 0;  // beside a tile that is written
  bool groups = true;         // several tiles may be written at once
};

/// A function of its arguments alone. budget 0: the scheme that takes the least memory.
Scheme choose(const Lie& source, const Target& target, std::uint64_t budget, int workers);

/// The cheapest single pass that fits; none where nothing does.
std::optional<Pass> one_pass(const Lie& source, const Target& target, std::uint64_t budget, int workers);

}  // namespace flagstone::restructure
