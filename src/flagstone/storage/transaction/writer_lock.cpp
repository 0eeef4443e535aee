#include "flagstone/storage/transaction/writer_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

/// Empty between the lock and its text, and after a holder that has gone.
std::string contents(int file) {
  char text[200];
  const ssize_t got = ::pread(file, text, sizeof text, 0);
  const std::string line(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  return line.empty() ? "another process, or another handle of this one" : line.substr(0, line.find('\n'));
}

std::string about_us() {
  char when[40] = "";
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (::localtime_r(&now, &local)) std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
  return "process " + std::to_string(::getpid()) + " (" + program_invocation_short_name + ") since " + when + "\n";
}

}  // namespace

WriterLock::WriterLock(const Directory& place) : process_(::getpid()) {
  const std::string& directory = place.path();
  const bool there = ::mkdirat(place.descriptor(), "__flagstone", 0777) == 0 || errno == EEXIST;
  if (there) file_ = ::openat(place.descriptor(), "__flagstone/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0 && errno == ENOENT)
    throw StorageError("write: the array was replaced or removed meanwhile; open it again", ESTALE, directory);
  if (file_ < 0) throw StorageError("write: cannot take the array's lock", errno, directory + "/__flagstone/lock");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int number = errno;
    std::string who = contents(file_);
    if (who.starts_with("process " + std::to_string(::getpid()) + " "))
      who = "another handle of this process" + who.substr(who.find(" ("));
    ::close(file_);
    file_ = -1;
    if (number == EWOULDBLOCK)
      throw StorageError("write: the array is being written by " + who + "; try again when it is done", EBUSY,
                         directory);
    throw StorageError("write: the file system has no locks, so the array cannot be changed in place; copy it", number,
                       directory);
  }
  char first;
  inherited_ = ::pread(file_, &first, 1, 0) == 1;
  const std::string text = about_us();
  if (::pwrite(file_, text.data(), text.size(), 0) < 0) {
  }  // the lock is what counts; the text is for messages
}

WriterLock::~WriterLock() {
  if (file_ < 0) return;
  if (process_ != ::getpid()) {  // forked: the lock is the parent's
    ::close(file_);
    return;
  }
  if (!inherited_ && ::ftruncate(file_, 0) != 0) {
  }                         // a name that has gone is only misleading
  ::flock(file_, LOCK_UN);  // closing does not give it back while a forked child has the descriptor
  ::close(file_);
}

}  // namespace flagstone
