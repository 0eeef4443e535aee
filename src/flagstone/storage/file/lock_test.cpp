#include "flagstone/storage/file/lock.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

TEST(FileLock, WaitsForTheLockOfAFileThatIsThereAndMakesNone) {
  TemporaryDirectory directory;
  const std::string path = directory / "file";
  EXPECT_FALSE(FileLock::wait(path));
  struct stat status;
  EXPECT_NE(::stat(path.c_str(), &status), 0);

  std::ofstream(path) << "text";
  ::chmod(path.c_str(), 0400);
  FileLock other = FileLock::wait(path);
  ASSERT_TRUE(other);
  EXPECT_TRUE(file_locked(path));
  std::atomic<bool> had = false;
  std::thread waiting([&] {
    const FileLock lock = FileLock::wait(path);
    had = static_cast<bool>(lock);
    EXPECT_TRUE(lock.is_at(path));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(had);
  other.close();
  waiting.join();
  EXPECT_TRUE(had);
}

}  // namespace
}  // namespace flagstone
