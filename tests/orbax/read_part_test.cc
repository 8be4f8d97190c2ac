// read_part_test.cc -- parts of large arrays that Cairn stored as they are, with a checksum.
#include <cairn/array/box.h>
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::put_file;
using testing::TempDir;

constexpr std::int64_t kRows = 1500;
constexpr std::int64_t kColumns = 1024;

// Numbers that do not shrink: 6 MB, in one chunk.
Array random_array() {
  Array array = Array::allocate(DType::kUint32, {kRows, kColumns});
  std::mt19937 random(5);
  const auto view = array.mutable_view();
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    const auto value = static_cast<std::uint32_t>(random());
    std::memcpy(view.data + 4 * i, &value, 4);
  }
  return array;
}

Array part_of(const Checkpoint& checkpoint, const Box& box) {
  Array out = Array::allocate(DType::kUint32, box.shape);
  checkpoint.read("w", box, out.mutable_view());
  return out;
}

TEST(ReadPart, HoldsWhatWasStored) {
  const TempDir dir = TempDir::in_memory();
  const Array array = random_array();
  save(dir / "ckpt", Tree{{"w", array}});
  const auto checkpoint = open(dir / "ckpt");
  for (const Box& box :
       {Box{{0, 0}, {1, kColumns}}, Box{{0, 0}, {200, kColumns}}, Box{{131, 0}, {600, kColumns}},
        Box{{1499, 0}, {1, kColumns}}, Box{{0, 0}, {kRows, kColumns}}, Box{{7, 9}, {1, 100}},
        Box{{7, 1000}, {500, 20}}, Box{{0, 5}, {kRows, 1}}, Box{{3, 3}, {0, 4}}}) {
    Array expected = Array::allocate(DType::kUint32, box.shape);
    copy_elements(subview(array.view(), box), expected.mutable_view());
    EXPECT_TRUE(std::ranges::equal(part_of(*checkpoint, box).bytes(), expected.bytes()))
        << box_text(box);
  }
}

TEST(ReadPart, FailsIfAnyByteOfTheChunkIsDamaged) {
  const TempDir dir = TempDir::in_memory();
  save(dir / "ckpt", Tree{{"w", random_array()}});
  std::string file;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / "ckpt"))
    if (entry.is_regular_file() && entry.file_size() > 6'000'000) file = entry.path();
  ASSERT_NE(file, "");
  const Bytes good = read_file(file);
  const Box box{{700, 0}, {100, kColumns}};
  for (std::size_t i = 1000; i < 6'000'000; i += 499'979) {
    put_file(file, testing::with_bit_flipped(good, 8 * i));
    EXPECT_THAT([&] { part_of(*open(dir / "ckpt"), box); },
                FailsWith(Code::kDataLoss, "w: chunk 0.0"))
        << i;
  }
  put_file(file, good);
  EXPECT_NO_THROW(part_of(*open(dir / "ckpt"), box));
}

}  // namespace
}  // namespace cairn
