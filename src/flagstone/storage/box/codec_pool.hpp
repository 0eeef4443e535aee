#pragma once
// What a pool of threads computes for one request (chunks unpacked, chunks packed) while the giver waits for the disk.
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
struct Workspace {
  Buffer tile, work;

  /// At least so many bytes of each; what was there is lost where it grows.
  void fit(std::size_t tile_bytes, std::size_t work_bytes);
};

class CodecPool {
 public:
  using Piece = std::function<void(Workspace&)>;
  struct Done {
    std::size_t number = 0;  // as given
    std::exception_ptr error;
  };

  /// At most `hands` pieces at once, each in a workspace of its own. Without a pool of threads, or with one hand,
  /// give() computes. `tell` is called on the pool's threads, once for every piece that finished() will name.
  CodecPool(ThreadPool* pool, std::size_t hands, std::function<void()> tell);
  ~CodecPool() { stop(); }
  CodecPool(const CodecPool&) = delete;
  CodecPool& operator=(const CodecPool&) = delete;

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
  void work(std::size_t workspace);
  Done computed(Given given, Workspace& workspace);

  ThreadPool* pool_;
  std::function<void()> tell_;
  std::vector<Workspace> workspaces_;
  std::mutex mutex_;
  std::condition_variable gone_;
  std::vector<std::size_t> free_;  // of workspaces_: as many of the pool may yet begin
  std::deque<Given> given_;
  std::vector<Done> done_;
  bool cancelled_ = false;
};

}  // namespace flagstone
