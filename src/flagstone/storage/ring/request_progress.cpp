#include "flagstone/storage/ring/request_progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "flagstone/base/bytes.hpp"

namespace flagstone {
namespace {

/// The alignment that the caller kept: 512, 1024, ... a page.
std::uint64_t alignment_of(std::uint64_t offset) {
  return std::min<std::uint64_t>(page_bytes, offset == 0 ? page_bytes : offset & (~offset + 1));
}

}  // namespace

RequestProgress::RequestProgress(const Request& request) : request_(request) {
  if (request_.rows > 1 && request_.pitch == request_.row_bytes) request_.row_bytes *= request_.rows, request_.rows = 1;
}

RequestProgress::Step RequestProgress::step(std::size_t most) {
  vectors_.clear();
  std::size_t length = 0;
  const std::size_t total = request_.bytes();
  for (std::size_t at = at_; at < total && length < most && vectors_.size() < IOV_MAX;) {
    const std::size_t row = at / request_.row_bytes, column = at % request_.row_bytes;
    const std::size_t bytes = std::min(request_.row_bytes - column, most - length);
    vectors_.push_back({request_.memory + row * request_.pitch + column, bytes});
    at += bytes;
    length += bytes;
  }
  return {request_.offset + at_, length, &vectors_};
}

bool RequestProgress::finished(std::int64_t result) {
  // ECANCELED: the kernel drops what a thread handed to its helpers when that thread ends; nothing was moved.
  if (result == -EINTR || result == -EAGAIN || result == -ECANCELED) {
    result_ = result;
    return ++refusals_ > 1000;  // a descriptor that will never be ready, a pipe for example
  }
  // O_DIRECT goes on at a block only: the part of a block that has arrived is moved once more.
  if (result == -EINVAL && at_ % alignment_of(request_.offset) != 0) {
    at_ = align_down(at_, alignment_of(request_.offset));
    return false;
  }
  if (result < 0) {
    result_ = result;
    return true;
  }
  const std::size_t reached = at_ + static_cast<std::size_t>(result);
  const bool progress = reached > done_;
  if (progress) done_ = reached, refusals_ = 0;
  if (done_ == request_.bytes() || !progress) {
    // No progress: the end of the file for a read; for a write a device that takes nothing and does not say why.
    result_ = done_ < request_.bytes() && request_.write ? -EIO : static_cast<std::int64_t>(done_);
    return true;
  }
  at_ = done_;
  return false;
}

std::int64_t transfer_now(const Request& request, const RequestProgress::Step& step) {
  const auto offset = static_cast<off_t>(step.offset);
  const auto& vectors = *step.vectors;
  const int count = static_cast<int>(vectors.size());
  ssize_t moved = 0;
  if (vectors.empty()) return 0;
  if (step.single())
    moved = request.write ? ::pwrite(request.fd, vectors[0].iov_base, vectors[0].iov_len, offset)
                          : ::pread(request.fd, vectors[0].iov_base, vectors[0].iov_len, offset);
  else
    moved = request.write ? ::pwritev(request.fd, vectors.data(), count, offset)
                          : ::preadv(request.fd, vectors.data(), count, offset);
  return moved < 0 ? -errno : moved;
}

}  // namespace flagstone
