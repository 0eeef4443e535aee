#pragma once
// For tests: boxes of arrays read and written by plain system calls, and a naive array in memory to compare with.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/array/requests.hpp"

namespace flagstone::test {

/// What an error of class E says that `f` throws.
template <class E = FormatError, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another class: ") + error.what();
  }
  return "no error";
}

/// Moves the segments of a transfer; direct ones through O_DIRECT, so that wrong alignment fails.
inline void move(const Transfer& transfer, std::byte* base, bool write) {
  for (const Segment& segment : transfer.segments) {
    const int fd = segment.direct ? segment.file->direct() : segment.file->buffered();
    std::size_t done = 0;
    for (std::size_t row = 0; row < segment.rows; ++row) {
      std::byte* at = base + segment.at + row * segment.pitch;
      const auto offset = static_cast<off_t>(segment.offset + row * segment.row_bytes);
      const ssize_t n =
          write ? ::pwrite(fd, at, segment.row_bytes, offset) : ::pread(fd, at, segment.row_bytes, offset);
      ASSERT_GE(n, 0) << std::strerror(errno) << " at " << offset << ", " << segment.row_bytes << " bytes";
      done += static_cast<std::size_t>(n);
    }
    ASSERT_GE(done, segment.bytes() - (write ? 0 : segment.slack));
  }
}

/// A buffer full of rubbish, so that whatever is not filled shows.
inline Buffer dirty_buffer(std::size_t bytes) {
  Buffer buffer(bytes);
  std::memset(buffer.data(), 0xAB, buffer.size());
  return buffer;
}

/// The elements of a box in C order.
inline std::vector<std::byte> read_elements(const Array& array, const Box& box) {
  const Transfer transfer = array.store().read(box);
  EXPECT_EQ(transfer.buffer_bytes % 4096, 0u);
  Buffer buffer = dirty_buffer(transfer.buffer_bytes), staging = dirty_buffer(transfer.staging_bytes);
  move(transfer, transfer.staging_bytes ? staging.data() : buffer.data(), false);
  transfer.finish(buffer.data(), staging.data());
  const std::size_t item = size_of(array.dtype());
  std::vector<std::byte> elements(static_cast<std::size_t>(count(box.shape)) * item);
  copy({buffer.data() + transfer.origin, array.dtype(), box.shape, transfer.strides, 0},
       {elements.data(), array.dtype(), box.shape, c_strides(box.shape, item), 0});
  return elements;
}

inline void write_elements(const Array& array, const Box& box, const std::vector<std::byte>& elements) {
  Transfer transfer = array.store().write(box);
  const Transfer reading = array.store().read(box);
  EXPECT_EQ(transfer.buffer_bytes, reading.buffer_bytes);
  EXPECT_EQ(transfer.origin, reading.origin);
  EXPECT_EQ(transfer.strides, reading.strides);
  Buffer buffer = dirty_buffer(transfer.buffer_bytes), staging = dirty_buffer(transfer.staging_bytes);
  const std::size_t item = size_of(array.dtype());
  copy({const_cast<std::byte*>(elements.data()), array.dtype(), box.shape, c_strides(box.shape, item), 0},
       {buffer.data() + transfer.origin, array.dtype(), box.shape, transfer.strides, 0});
  make_ready(transfer, buffer.data(), staging.data());
  move(transfer, transfer.staging_bytes ? staging.data() : buffer.data(), true);
  array.store().written(box);
}

/// The naive reference: a dense array in memory.
struct Reference {
  Shape shape;
  Dtype dtype;
  std::vector<std::byte> data;

  Reference(Shape extents, Dtype type)
      : shape(std::move(extents)), dtype(type), data(static_cast<std::size_t>(count(shape)) * size_of(type)) {}

  Tile tile(const Box& box) { return subtile({data.data(), dtype, shape, c_strides(shape, size_of(dtype)), 0}, box); }
  std::vector<std::byte> elements(const Box& box) {
    std::vector<std::byte> part(static_cast<std::size_t>(count(box.shape)) * size_of(dtype));
    copy(tile(box), {part.data(), dtype, box.shape, c_strides(box.shape, size_of(dtype)), 0});
    return part;
  }
  void randomize(std::mt19937_64& random) {
    for (std::byte& value : data) value = static_cast<std::byte>(random() % 251);
  }
};

/// Elements that no chunk is all fill value of.
inline std::vector<std::byte> twos(const Shape& shape, Dtype dtype) {
  return std::vector<std::byte>(static_cast<std::size_t>(count(shape)) * size_of(dtype), std::byte{2});
}

inline Box random_box(const Shape& shape, std::mt19937_64& random) {
  Box box{shape, shape};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    box.start[d] = shape[d] ? static_cast<Index>(random() % static_cast<std::uint64_t>(shape[d])) : 0;
    box.shape[d] =
        shape[d] ? 1 + static_cast<Index>(random() % static_cast<std::uint64_t>(shape[d] - box.start[d])) : 0;
  }
  return box;
}

/// A box of whole chunks, clipped at the array's edge.
inline Box random_chunk_box(const Shape& shape, const Shape& chunks, std::mt19937_64& random) {
  Box box = random_box(shape, random);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Index end = box.start[d] + box.shape[d];
    box.start[d] -= box.start[d] % chunks[d];
    box.shape[d] = std::min(shape[d], ceil_div(end, chunks[d]) * chunks[d]) - box.start[d];
  }
  return box;
}

}  // namespace flagstone::test
