#pragma once
// What a crew computes for one request (chunks unpacked, chunks packed) while the giver waits for the disk.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "flagstone/base/memory.hpp"
#include "flagstone/storage/box/thread_pool.hpp"

namespace flagstone {

/// Memory in which one piece is computed; the next one finds it as it was left.
struct Desk {
  Buffer tile, work;

  /// At least so many bytes of each; what was there is lost where it grows.
  void fit(std::size_t tile_bytes, std::size_t work_bytes);
};

class CrewWork {
 public:
  using Piece = std::function<void(Desk&)>;
  struct Done {
    std::size_t number = 0;  // as given
    std::exception_ptr error;
  };

  /// At most `hands` pieces at once, each at a desk of its own. Without a crew, or with one hand, give() computes.
  /// `tell` is called on the crew's threads, once for every piece that finished() will name.
  CrewWork(Crew* crew, std::size_t hands, std::function<void()> tell);
  ~CrewWork() { stop(); }
  CrewWork(const CrewWork&) = delete;
  CrewWork& operator=(const CrewWork&) = delete;

  /// `here`: by the calling thread, which has nothing else to do; only when nothing else is under way.
  void give(std::size_t number, Piece piece, bool here = false);
  /// Those that are done since it was last asked.
  std::vector<Done> finished();
  /// What was given and not begun finishes without being computed.
  void cancel();
  /// Begins nothing more and waits for what is being computed; finished() does not name what was not begun.
  void stop();

 private:
  struct Given {
    std::size_t number = 0;
    Piece piece;
  };
  void work(std::size_t desk);
  Done computed(Given given, Desk& desk);

  Crew* crew_;
  std::function<void()> tell_;
  std::vector<Desk> desks_;
  std::mutex mutex_;
  std::condition_variable gone_;
  std::vector<std::size_t> free_;  // of desks_: as many of the crew may yet begin
  std::deque<Given> given_;
  std::vector<Done> done_;
  bool cancelled_ = false;
};

}  // namespace flagstone
