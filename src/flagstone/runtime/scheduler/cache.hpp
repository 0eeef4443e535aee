#pragma once
// Tiles in memory: who is where, who needs it next, who goes first when room is needed. No threads and no I/O here:
// the same code runs under the real machine and under the planner's clock.
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/scheduler/buffer_pool.hpp"
#include "flagstone/runtime/scheduler/tiles_near.hpp"
#include "flagstone/runtime/spaces/copies.hpp"
#include "flagstone/storage/array/file_extent.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone {

struct TaskState;
struct ArrayState;
struct FileState;

/// What a buffer of `bytes` occupies: few sizes, so that a freed buffer fits the next tile (encoded chunks all differ).
std::size_t size_class(std::size_t bytes);
/// What a tile of such a buffer is charged with: of a small one also what is known of it, of its uses and of its
/// request on the way. Of longer ones that is under a hundredth.
inline constexpr std::size_t known_of_a_tile = 896, small_tile = 64 * KiB;
constexpr std::size_t charged(std::size_t buffer_bytes) {
  return buffer_bytes + (buffer_bytes < small_tile ? known_of_a_tile : 0);
}

/// Tasks that use a tile, in program order. Taken from the front as a rule: a vector whose front moves.
class Uses {
 public:
  struct Use {
    TaskState* task;
    TaskId id;
    bool overwrites;  // without reading it
    bool modifies;
  };
  bool empty() const { return first_ == uses_.size(); }
  std::size_t size() const { return uses_.size() - first_; }
  const Use& front() const { return uses_[first_]; }
  const Use* begin() const { return uses_.data() + first_; }
  const Use* end() const { return uses_.data() + uses_.size(); }
  void push_back(const Use& use) { uses_.push_back(use); }
  void erase(TaskId id);

 private:
  std::vector<Use> uses_;
  std::size_t first_ = 0;
};

/// One box of an array and its life in memory.
struct TileState {
  enum class Where : std::uint8_t { absent, loading, resident };

  Array array;
  Box box;
  ArrayState* owner = nullptr;
  // Geometry, fixed by the layout.
  std::size_t bytes = 0;  // charged while not absent: buffer + what writing it back needs
  std::size_t buffer_bytes = 0, read_staging = 0, write_staging = 0, origin = 0, tile_bytes = 0;
  Shape strides;
  // Residency.
  Where where = Where::absent;
  bool dirty = false;    // newer than the disk
  bool again = false;    // since the last change: a task that is yet to be added needs it
  bool once = false;     // since the last change: no task that is yet to be added needs it
  bool storing = false;  // a write of it is in flight: readers may look, writers wait
  bool leaving = false;  // the write is for its room
  bool open = false;     // admitted for modification and not yet written back: a product in progress
  bool measured_read = false, measured_write = false;
  Written when = Written::always;
  bool on_grid = false;  // of its array: it overlaps no other tile that is
  bool checked = false;  // known not to overlap another tile of its array or file
  int pins = 0;
  int wanted = 0;                   // startable tasks of untrusted order that use it
  int changes = 0;                  // uses that modify it, or after which nobody needs it
  std::uint64_t number = 0;         // in the order in which tiles were named: breaks ties, in plan and run alike
  std::unique_ptr<Copies> copies;   // in devices' memories; null in a run without
  PooledBuffer buffer;              // empty under the planner and for in-memory arrays
  std::vector<TaskState*> waiters;  // admitted tasks that wait for a load or a store of this tile
  // Program order.
  Uses uses;  // of tasks that were added and are not finished
  TaskState* last_writer = nullptr;
  std::vector<TaskState*> readers;  // since last_writer
  // Place in the cache's orders of eviction (meaningful while resident and unpinned).
  bool queued = false, queued_dirty = false;
  TaskId queued_at = 0;
  std::list<TileState*>::iterator idle_place;

  bool in_memory_array() const { return array.in_memory(); }
  /// Changed, and nobody in sight changes it again: on its way to the disk, while others may read it. What nobody needs
  /// there waits until its room is needed.
  bool settled() const { return dirty && complete(); }
  /// Nobody in sight changes it again.
  bool complete() const { return !again && (when == Written::streamed || (changes == 0 && when == Written::always)); }
  /// It is on its way to the disk, where who reads it waits for it.
  bool leaves_first() const { return open && when == Written::streamed; }
  bool overwritten_next() const { return !uses.empty() && uses.front().overwrites; }
  bool evictable() const { return where == Where::resident && pins == 0 && !storing && !in_memory_array(); }
  void view(Tile& tile) const;
};

/// Tiles of one array; `idle` are resident, unpinned and without a known next use, least recently used first.
struct ArrayState {
  /// By the box; the key lies in the tile.
  struct Hash {
    std::size_t operator()(const Box* box) const noexcept;
  };
  struct Equal {
    bool operator()(const Box* a, const Box* b) const noexcept { return *a == *b; }
  };
  std::uint64_t number = 0;  // in the order in which arrays were named: breaks ties, in plan and run alike
  std::uint64_t pending_uses = 0;
  std::unordered_map<const Box*, std::unique_ptr<TileState>, Hash, Equal> tiles;
  std::list<TileState*> idle;
  bool written = false;
  // Boxes of one grid, clipped at the array's edge, are disjoint: no need to compare them.
  Shape grid;                       // of the first tile that could be on one
  std::size_t off_grid = 0;         // tiles that are not
  std::unique_ptr<TilesNear> near;  // all of them, since one was compared
  // Of an array in a file that others may name too.
  FileState* file = nullptr;
  FileExtent place;
  ByteRuns bytes;  // of all of it
};

/// Arrays of one file: handles of one array, or arrays of one flat file.
struct FileState {
  FileExtent place;
  bool written = false;
  std::multimap<std::uint64_t, ArrayState*> by_first;  // byte
  std::uint64_t longest = 0;                           // from an array's first byte to its end
};

class Cache {
 public:
  explicit Cache(std::uint64_t capacity) : capacity_(capacity) {}

  /// Finds or makes the state of a region. ShapeError when it overlaps another one that a task uses (another box of the
  /// array, or through another handle or array of its file) and one of them is written.
  TileState& tile(const Region& region, bool read, bool written);
  /// What overlapped tiles that tile() gave and is used by nobody: to be dropped before anything is written.
  std::vector<TileState*> take_outdated() { return std::exchange(outdated_, {}); }
  /// Forgets tiles that nobody uses, holds or keeps in memory.
  void forget(TileState& tile);

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t peak() const { return peak_; }
  std::uint64_t free() const { return capacity_ > used_ ? capacity_ - used_ : 0; }
  void take(std::uint64_t bytes) {
    used_ += bytes;
    if (used_ > peak_) peak_ = used_;
  }
  void give(std::uint64_t bytes) { used_ -= bytes; }

  /// To be called whenever pins, uses, residency or storing of a tile changed: keeps the orders of eviction true.
  void requeue(TileState& tile);
  /// The clean tile that costs nothing to drop (no known next use), or null. Arrays without any pending use go first;
  /// then the array named last; within one the most recently used tile goes first: passes over an array are cyclic
  /// scans.
  TileState* free_victim() const;
  /// The tile whose next use is farthest; dirty ones (they cost a write and a read) only when asked.
  TileState* costly_victim(bool dirty_too) const;
  /// Bytes of tiles that free_victim would give, all together.
  std::uint64_t idle_clean_bytes() const { return idle_clean_bytes_; }
  std::size_t idle_clean_tiles() const { return idle_clean_tiles_; }
  /// Bytes of tiles that are open for modification.
  std::uint64_t open_bytes() const { return open_bytes_[0] + open_bytes_[1] + open_bytes_[2] + open_bytes_[3]; }
  std::uint64_t open_bytes(Written when) const { return open_bytes_[static_cast<std::size_t>(when)]; }
  void set_open(TileState& tile, bool open);

  template <class F>
  void for_each_tile(F&& f) {
    for (auto& [id, array] : arrays_)
      for (auto& [key, tile] : array->tiles) f(*tile);
  }

 private:
  struct Later {
    bool operator()(const TileState* a, const TileState* b) const;
  };
  void dequeue(TileState& tile);
  void measure(TileState& tile, bool read, bool written);
  static void take_geometry(TileState& tile, const Transfer& geometry);
  TileState& make(ArrayState& owner, const Region& region);
  void join_file(ArrayState& owner, const Array& array);
  void leave_file(ArrayState& owner);
  void check_overlap(ArrayState& owner, TileState& tile);
  void check_file(const ArrayState& owner, const TileState& tile);
  bool outdated(TileState& other);
  void look_through(const Array& array);
  void check_not_looked_at(const Array& written) const;

  std::uint64_t capacity_, used_ = 0, peak_ = 0;
  std::uint64_t idle_clean_bytes_ = 0;
  std::size_t idle_clean_tiles_ = 0;
  std::uint64_t open_bytes_[4] = {};  // by when they are written
  std::uint64_t named_ = 0;           // arrays and tiles so far
  std::unordered_map<const void*, std::unique_ptr<ArrayState>> arrays_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, FileState> files_;  // by device and inode
  std::vector<TileState*> outdated_;
  std::unordered_set<const void*> lazy_;  // arrays that are computed where they are loaded
  std::vector<Array> looked_at_;          // what they are computed from
  using ByNextUse = std::set<TileState*, Later>;
  ByNextUse& queue_of(const TileState& tile) { return tile.queued_dirty ? dirty_ : clean_; }
  ByNextUse clean_, dirty_;  // by next use; what the next task overwrites is as good as clean
};

}  // namespace flagstone
