#pragma once
// How a request proceeds, one system call at a time: the place where short transfers, EINTR and EAGAIN are handled.
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {

/// A request on its way. A backend calls step(), transfers what it names, and gives the result to finished().
class RequestProgress {
 public:
  explicit RequestProgress(const Request& request = {});

  /// One contiguous piece of the file and the memory for it: up to IOV_MAX vectors, none for an empty request.
  struct Step {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
    std::vector<iovec>* vectors = nullptr;
    bool single() const { return vectors->size() == 1; }
  };
  /// The next piece, at most `most` bytes of it.
  Step step(std::size_t most = most_step_bytes);
  /// Takes the result of the last step (bytes or -errno); true when the request is complete.
  bool finished(std::int64_t result);

  const Request& request() const { return request_; }
  Completion completion() const { return {request_.tag, result_}; }

  /// The kernel moves less than 2 GiB a call; a multiple of every page and block size.
  static constexpr std::size_t most_step_bytes = std::size_t{1} << 30;

 private:
  Request request_;
  std::size_t done_ = 0;  // bytes that are certainly moved
  std::size_t at_ = 0;    // where the present step begins
  int refusals_ = 0;      // EINTR and EAGAIN since the last progress
  std::int64_t result_ = 0;
  std::vector<iovec> vectors_;
};

/// The whole step by one system call on this thread: bytes, or -errno.
std::int64_t transfer_now(const Request& request, const RequestProgress::Step& step);

/// Null where io_uring cannot be had; `why_not` says why.
std::unique_ptr<Ring> make_uring_ring(unsigned depth, std::string& why_not);
/// `note` is added to describe().
std::unique_ptr<Ring> make_thread_ring(unsigned threads, const std::string& note);

}  // namespace flagstone
