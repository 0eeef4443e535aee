#include "flagstone/storage/file/stamp.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "flagstone/storage/file/blake2b.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

std::string hash(std::size_t digest_bytes, const std::string& text, std::size_t step) {
  Blake2b hash(digest_bytes);
  for (std::size_t at = 0; at < text.size(); at += step) hash.update(std::string_view(text).substr(at, step));
  return hash.digest();
}

TEST(Blake2b, AgreesWithTheStandard) {
  // RFC 7693, appendix A; the others from Python's hashlib
  EXPECT_EQ(hash(64, "abc", 3),
            "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
            "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923");
  EXPECT_EQ(hash(16, "", 1), "cae66941d9efbd404e4d88758ea67670");
  for (std::size_t step : {1, 7, 128, 1000}) {
    EXPECT_EQ(hash(16, std::string(128, 'x'), step), "874acca82a22239ec64a3e70c3ae494e");
    EXPECT_EQ(hash(16, std::string(1000, 'x'), step), "c9b2bd4ff487864c29fb41fab3e8187e");
  }
}

TEST(StoredStamp, TellsAFileFromALaterVersion) {
  TemporaryDirectory top;
  std::ofstream(top / "a") << "one";
  const std::string before = stored_stamp(top / "a");
  EXPECT_EQ(before.size(), 32u);
  EXPECT_EQ(stored_stamp(top / "a"), before);
  EXPECT_EQ(stored_stamp(top / "a/member/of/it"), before);
  struct stat status;
  ASSERT_EQ(::stat((top / "a").c_str(), &status), 0);
  std::ofstream(top / "a") << "two";
  const timespec times[] = {status.st_atim, status.st_mtim};  // another version with the same size and time
  ASSERT_EQ(::utimensat(AT_FDCWD, (top / "a").c_str(), times, 0), 0);
  EXPECT_NE(stored_stamp(top / "a"), before);
}

TEST(StoredStamp, OfADirectoryIsOfAllItsFilesButLocksAndJournals) {
  TemporaryDirectory top;
  for (const char* folder : {"x/c", "x/__flagstone", "x/deep/er"}) std::filesystem::create_directories(top / folder);
  for (const char* file : {"x/zarr.json", "x/c/0", "x/deep/er/1", "x/__flagstone/lock"})
    std::ofstream(top / file) << "text";
  const std::string before = stored_stamp(top / "x");
  std::ofstream(top / "x/__flagstone/lock") << "another text";
  EXPECT_EQ(stored_stamp(top / "x"), before);
  std::ofstream(top / "x/deep/er/1") << "another text";
  EXPECT_NE(stored_stamp(top / "x"), before);
  // With checksums the time of the inode's last change does not matter.
  std::ofstream(top / "x/__flagstone/chunks.bin") << "sums";
  const std::string verified = stored_stamp(top / "x");
  std::filesystem::permissions(top / "x/c/0", std::filesystem::perms::owner_read);
  EXPECT_EQ(stored_stamp(top / "x"), verified);
}

}  // namespace
}  // namespace flagstone
