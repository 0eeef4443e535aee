#include "flagstone/storage/file/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

int error_of(const auto& call) {
  try {
    call();
  } catch (const StorageError& error) {
    return error.number;
  }
  return 0;
}

TEST(File, MissingAndExistingPathsAreNamed) {
  TemporaryDirectory directory;
  const std::string path = directory / "a.bin";
  try {
    File::open(path, File::Mode::read);
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.number, ENOENT);
    EXPECT_EQ(error.filename, path);
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
  }
  File::open(path, File::Mode::create);
  EXPECT_EQ(error_of([&] { File::open(path, File::Mode::create); }), EEXIST);
  EXPECT_EQ(error_of([&] { File::open(directory.path(), File::Mode::read); }), EISDIR);
}

TEST(File, PipesSocketsAndDevicesAreRefusedWithoutWaiting) {
  TemporaryDirectory directory;
  const std::string pipe = directory / "pipe", socket = directory / "socket";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int at = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(socket.size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, socket.c_str());
  ASSERT_EQ(::bind(at, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(at);
  for (const std::string& path : {pipe, socket, std::string("/dev/null")}) {
    for (const File::Mode mode : {File::Mode::read, File::Mode::update})
      EXPECT_THROW(File::open(path, mode), FormatError) << path;
    for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) EXPECT_THROW(open_regular(path, flags), FormatError) << path;
  }
  // A request to a file that is opened without waiting may fail with EAGAIN.
  const auto file = File::open(directory / "a.bin", File::Mode::create);
  EXPECT_FALSE(::fcntl(file->buffered(), F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(::fcntl(file->buffered(), F_GETFD) & FD_CLOEXEC);
}

TEST(File, BothDescriptorsSeeOneFileAndCloseOnExec) {
  TemporaryDirectory directory;
  const auto file = File::open(directory / "a.bin", File::Mode::create);
  Buffer buffer(page_bytes), again(page_bytes);
  std::memset(buffer.data(), 7, page_bytes);
  ASSERT_EQ(::pwrite(file->direct(), buffer.data(), page_bytes, 0), static_cast<ssize_t>(page_bytes));
  ASSERT_EQ(::pwrite(file->buffered(), "abc", 3, 10), 3);
  ASSERT_EQ(::pread(file->direct(), again.data(), page_bytes, 0), static_cast<ssize_t>(page_bytes));
  std::memcpy(buffer.data() + 10, "abc", 3);
  EXPECT_EQ(std::memcmp(buffer.data(), again.data(), page_bytes), 0);
  EXPECT_EQ(file->size(), page_bytes);
  for (int descriptor : {file->direct(), file->buffered()}) EXPECT_TRUE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
  EXPECT_EQ((::fcntl(file->direct(), F_GETFL) & O_DIRECT) != 0, file->has_direct());
}

TEST(File, ReadOnlyRefusesToWrite) {
  TemporaryDirectory directory;
  File::open(directory / "a.bin", File::Mode::create);
  const auto file = File::open(directory / "a.bin", File::Mode::read);
  EXPECT_EQ(::pwrite(file->buffered(), "abc", 3, 0), -1);
  EXPECT_NE(error_of([&] { file->truncate(10); }), 0);
}

TEST(File, TemporaryHasNoName) {
  TemporaryDirectory directory;
  const auto file = File::temporary(directory.path());
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  file->truncate(100);
  EXPECT_EQ(file->size(), 100u);
  EXPECT_EQ(error_of([&] { File::temporary(directory / "missing"); }), ENOENT);
}

TEST(File, AllocateReservesOrSaysNoWithoutFillingTheDisk) {
  TemporaryDirectory directory;
  const auto file = File::open(directory / "a.bin", File::Mode::create);
  file->allocate(1 * MiB);
  EXPECT_EQ(file->size(), 1 * MiB);
  struct stat status;
  ASSERT_EQ(::fstat(file->buffered(), &status), 0);
  EXPECT_GE(static_cast<std::uint64_t>(status.st_blocks) * 512, 1 * MiB);
  file->allocate(1 * KiB);  // never shrinks
  EXPECT_EQ(file->size(), 1 * MiB);
  EXPECT_EQ(error_of([&] { file->allocate(1024 * 1024 * GiB); }), ENOSPC);
  EXPECT_EQ(file->size(), 1 * MiB);
  file->sync();
  sync_directory(directory.path());
  EXPECT_EQ(error_of([&] { sync_directory(directory / "missing"); }), ENOENT);
}

}  // namespace
}  // namespace flagstone
