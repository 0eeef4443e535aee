// Random damage to metadata and shards: an error or other numbers, never a crash (run it under the asan preset).
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/sparse/csr.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::random_box;
using test::read_elements;
using test::Reference;
using test::write_elements;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string damaged(std::string text, std::mt19937_64& random) {
  for (int flips = 1 + static_cast<int>(random() % 3); flips > 0 && !text.empty(); --flips)
    text[random() % text.size()] = static_cast<char>(random() % 4 ? 32 + random() % 95 : random());
  if (random() % 5 == 0) text.resize(random() % (text.size() + 1));
  return text;
}

/// Opens and reads what it can; true when the damage was noticed.
bool refused(const std::string& path, std::mt19937_64& random) {
  try {
    const Array array = open_zarr_array(path);
    if (array.nbytes() > 50'000'000 || chunk_bytes(array) > 50'000'000) return false;
    read_elements(array, whole(array.shape()));
    read_elements(array, random_box(array.shape(), random));
  } catch (const Error&) {
    return true;
  }
  return false;
}

TEST(Damage, MetadataOfAnyBytesIsReadOrRefused) {
  std::mt19937_64 random(20);
  TemporaryDirectory directory;
  int noticed = 0;
  for (const std::string codec : {"raw", "blosc-lz4"}) {
    const std::string path = directory / codec;
    Array array = create_zarr_array(path, {40, 30}, Dtype::float32, {{16, 8}, codec});
    write_elements(array, whole(array.shape()), test::twos(array.shape(), array.dtype()));
    array.store().flush();
    const std::string good = contents(path + "/zarr.json");
    for (int i = 0; i < 400; ++i) {
      put(path + "/zarr.json", damaged(good, random));
      noticed += refused(path, random);
    }
  }
  EXPECT_GT(noticed, 250);
}

TEST(Damage, ShardsOfAnyBytesAreReadOrRefused) {
  std::mt19937_64 random(21);
  TemporaryDirectory directory;
  for (const std::string codec : {"raw", "blosc-lz4"}) {
    const std::string path = directory / codec, shard = path + "/c/0/0";
    Reference reference({40, 30}, Dtype::float32);
    for (std::size_t i = 0; i < reference.data.size(); ++i) reference.data[i] = static_cast<std::byte>(i / 16);
    Array array = create_zarr_array(path, reference.shape, reference.dtype, {{16, 8}, codec});
    write_elements(array, whole(array.shape()), reference.data);
    array.store().flush();
    const std::string good = contents(shard);
    const std::size_t index = 12 * 16 + 4;
    int noticed = 0;
    for (int i = 0; i < 300; ++i) {
      std::string text = good;
      if (i % 2) {  // an index whose checksum is right: every entry must be checked
        for (int flips = 0; flips < 2; ++flips)
          text[text.size() - index + random() % (index - 4)] = static_cast<char>(random());
        const std::uint32_t sum = crc32c(text.data() + text.size() - index, index - 4);
        std::memcpy(text.data() + text.size() - 4, &sum, 4);
      } else {
        for (int flips = 0; flips < 50; ++flips) text[random() % text.size()] = static_cast<char>(random());
        if (random() % 4 == 0) text.resize(random() % text.size());
      }
      put(shard, text);
      noticed += refused(path, random);
    }
    EXPECT_GT(noticed, 75) << codec;
  }
}

TEST(Damage, CsrGroupsOfAnyBytesAreOpenedOrRefused) {
  std::mt19937_64 random(22);
  TemporaryDirectory directory;
  const std::string path = directory / "g";
  CsrWriter writer(path, 9, Dtype::float32);
  const Index pointers[] = {0, 2, 2, 5};
  const Index columns[] = {1, 3, 0, 4, 8};
  const float values[] = {1, 2, 3, 4, 5};
  writer.append(3, pointers, columns, values);
  writer.finish();
  for (const std::string name : {"zarr.json", "indptr/zarr.json", "data/zarr.json", "data/__flagstone/panels.bin",
                                 "data/__flagstone/statistics.bin"}) {
    const std::string good = contents(path + "/" + name);
    for (int i = 0; i < 150; ++i) {
      put(path + "/" + name, damaged(good, random));
      try {
        const CsrMatrix matrix = open_csr(path);
        if (matrix.indptr.nbytes() > 1'000'000) continue;
        const auto panels = csr_panels(matrix);
        if (!panels.empty()) {
          EXPECT_EQ(panels.back().last, matrix.nnz);
        }
        csr_statistics(matrix);
      } catch (const Error&) {
      }
    }
    put(path + "/" + name, good);
  }
}

}  // namespace
}  // namespace flagstone
