#pragma once
// Arrays of tiles in a scratch file: nameless ones, and those that a successor goes on with.
#include <cstdint>
#include <string>
#include <vector>

#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/scratch/quota.hpp"

namespace flagstone {

/// When a run that changed tiles of an array writes them: all of them, in the end; where their room is needed or a
/// checkpoint speaks of them; only where their room is needed, because nobody reads them after the run; or each as soon
/// as nobody in sight adds to it (`again`), after which it leaves memory and who reads it loads it: what travels then
/// is no question of when.
enum class Written : std::uint8_t { always, with_checkpoints, for_room, streamed };
Written when_written(const Array& array, const Box& tile);
/// Tiles of a temporary array inside `box` are written as soon as they are done (Written::always): whoever knows that
/// they leave memory before they are read for the last time. Before tasks name them.
void write_early(const Array& array, const Box& box);

/// Tiles without a name that may spill: `box`-shaped slots in a nameless file of `directory`, made and reserved whole
/// at the first write (or by reserve()). Every access must use boxes of the grid `box` (clipped at the edge).
Array temporary_array(const Shape& shape, Dtype dtype, const Shape& box, const std::string& directory);
/// The same in scratch: before the file is made its bytes are promised, for as long as the array lives. ScratchError
/// (EDQUOT) where the quota does not hold them.
Array temporary_array(const Shape& shape, Dtype dtype, const Shape& box, const ScratchSpace& space,
                      Written written = Written::always);
/// Bytes of scratch that the array takes once a tile of it is written; 0: it is none of these.
std::uint64_t scratch_bytes(const Array& array);
/// The same in a file at `path`, which stays: for what a dead process's successor goes on with. `tiles`: which of them,
/// in C order of the grid, the file there is known to hold; stored() tells which it holds. Where there is no such file,
/// or a shorter one, it is made anew and holds none.
Array kept_array(const Shape& shape, Dtype dtype, const Shape& box, const std::string& path,
                 const std::vector<std::uint8_t>& tiles, Written written = Written::always);

}  // namespace flagstone
