#include "flagstone/storage/array/requests.hpp"

#include <gtest/gtest.h>

#include <random>

#include "flagstone/base/bytes.hpp"

namespace flagstone {
namespace {

/// Where every 512-byte block of the file goes in memory, and how much of it may be missing.
struct Blocks {
  std::vector<std::pair<std::uint64_t, std::size_t>> places;
  std::size_t slack = 0;

  explicit Blocks(const Transfer& transfer) {
    for (const Segment& segment : transfer.segments) {
      slack += segment.slack;
      for (std::size_t row = 0; row < segment.rows; ++row)
        for (std::size_t byte = 0; byte < segment.row_bytes; byte += 512)
          places.push_back({segment.offset + row * segment.row_bytes + byte, segment.at + row * segment.pitch + byte});
    }
  }
};

TEST(Transfer, PiecesMoveTheSameBytes) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    Segment segment;
    segment.offset = page_bytes * (random() % 100);
    segment.rows = round % 3 == 0 ? 1 : 1 + random() % 3000;
    segment.row_bytes = 512 * (1 + random() % (segment.rows == 1 ? 20000 : 24));
    segment.pitch = segment.row_bytes + 512 * (random() % 4);
    segment.slack = random() % 4 == 0 ? random() % segment.bytes() : 0;
    Transfer transfer;
    transfer.segments = {segment};
    const Transfer pieces = in_pieces(transfer);
    const Blocks before(transfer), after(pieces);
    EXPECT_EQ(before.places, after.places);
    EXPECT_EQ(before.slack, after.slack);
    for (const Segment& piece : pieces.segments) {
      EXPECT_LE(piece.bytes(), most_request_bytes);
      EXPECT_EQ(piece.offset % page_bytes, 0u);
      EXPECT_LE(piece.slack, piece.bytes());
    }
  }
}

}  // namespace
}  // namespace flagstone
