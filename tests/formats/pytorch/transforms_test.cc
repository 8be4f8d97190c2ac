// transforms_test.cc -- entries of Distributed Checkpoints that PyTorch compressed: which names of
// transforms are known, and an entry that is cut, damaged or a bomb.
#include <cairn/codec/decompress.h>
#include <cairn/formats/pytorch/distributed/encoded_archive.h>
#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using pytorch::Entry;
using ::testing::AnyOf;
using testing::FailsWith;
using testing::golden;
using testing::put_file;
using testing::TempDir;

const std::string kZstdGolden = "pytorch/torch-2.13.0/distributed_zstd/";
constexpr std::uint64_t kDecodedRoom = std::uint64_t{1} << 20U;

// The bytes of the entry of the tensor "model.copies", which one process stored whole.
Bytes zstd_entry() {
  const Bytes file = read_file(golden(kZstdGolden + ".metadata"));
  const auto metadata = pytorch::parse_distributed_metadata(pickle::parse_pickle(file));
  const auto value = std::ranges::find(metadata.values, "model.copies", &pytorch::SavedValue::name);
  const Entry& entry = value->chunks.front().entry.value();
  EXPECT_EQ(entry.transforms, pytorch::Transforms{"stream.zstd/1"});
  const Bytes data = read_file(golden(kZstdGolden + metadata.files[entry.file]));
  const auto begin = data.begin() + static_cast<std::ptrdiff_t>(entry.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(entry.length)};
}

// The only storage of an entry, after one read of all of it and one of its second half.
Bytes storage_of(const TempDir& dir, ByteView encoded, std::size_t times = 1,
                 std::uint64_t room = kDecodedRoom) {
  put_file(dir / "entry", encoded);
  std::vector<File> files;
  files.push_back(File::open(dir / "entry"));
  Entry entry{.length = encoded.size()};
  entry.transforms.assign(times, "stream.zstd/1");
  const auto pool = std::make_shared<pytorch::DecoderPool>();
  const auto torch = pytorch::read_encoded_archive(files.front(), entry, room, pool);
  const RawArray& array = torch.storages.at("0");
  Bytes whole(array.stored_bytes()), half(whole.size() / 2);
  array.stream->read(files, whole.size() - half.size(), half);
  array.stream->read(files, 0, whole);
  array.stream->check_whole(files);
  EXPECT_TRUE(std::equal(half.rbegin(), half.rend(), whole.rbegin()));
  return whole;
}

Bytes zero_to_three() {
  Bytes bytes(4 * sizeof(std::int64_t));
  for (std::size_t i = 0; i < 4; ++i) bytes[8 * i] = static_cast<std::byte>(i);
  return bytes;
}

TEST(Transforms, KnowsZstdByItsName) {
  for (const char* name : {"stream.zstd/1", "stream.zstd/1.5"})
    EXPECT_NO_THROW(pytorch::check_transforms({name}));
  for (const char* name : {"", "/", "stream.zstd", "stream.zstd/", "stream.zstd/2",
                           "stream.zstd/10", "stream.zstd@a/1", "stream.gzip/1", "zstd/1"})
    EXPECT_THAT(
        [&] {
          pytorch::check_transforms({"stream.zstd/1", name});
        },
        FailsWith(Code::kUnimplemented, "its bytes are transformed"));
  EXPECT_THAT([] { pytorch::check_transforms(pytorch::Transforms(5, "stream.zstd/1")); },
              FailsWith(Code::kUnimplemented, "went through 5 transforms"));
}

TEST(Transforms, ReadsStoragesOfAnEntry) {
  const TempDir dir;
  Bytes entry = zstd_entry();
  EXPECT_EQ(storage_of(dir, entry), zero_to_three());
  for (std::size_t times = 2; times <= 4; ++times) {
    entry = compress_zstd(entry, 1, times % 2 == 0);
    EXPECT_EQ(storage_of(dir, entry, times), zero_to_three());
  }
}

TEST(Transforms, AnEntryThatIsCutIsRefused) {
  const TempDir dir;
  testing::for_each_truncation(zstd_entry(), [&](ByteView bad, const std::string& what) {
    EXPECT_THROW(storage_of(dir, bad), Error) << what;
  });
}

// zstd frames of PyTorch have no checksum. The archive has one of its pickle and of its storage;
// what is left only fills gaps, or is said twice.
TEST(Transforms, AFlippedBitIsNoticedOrChangesNothing) {
  const TempDir dir;
  constexpr int kEach = 5;
  int flip = 0, noticed = 0;
  testing::for_each_bit_flip(zstd_entry(), [&](ByteView bad, const std::string& what) {
    if (++flip % (kEach * testing::kFewer) != 0) return;
    try {
      const Bytes found = storage_of(dir, bad);
      if (found.size() == zero_to_three().size())
        EXPECT_EQ(found, zero_to_three()) << what;
      else
        ++noticed;  // by the tensor, which is not of this size
    } catch (const Error& e) {
      EXPECT_THAT(e.code(), AnyOf(Code::kDataLoss, Code::kUnimplemented, Code::kInvalidArgument));
      ++noticed;
    } catch (const std::out_of_range&) {
      ++noticed;  // the storage has another name
    }
  });
  EXPECT_GT(noticed, flip / 2 / kEach / testing::kFewer);
}

TEST(Transforms, DecodesNoMoreThanItMay) {
  const TempDir dir;
  const Bytes bomb = compress_zstd(Bytes(std::size_t{64} << 20U), 1, false);
  EXPECT_THAT([&] { storage_of(dir, bomb); },
              FailsWith(Code::kDataLoss, "it decodes to too many bytes"));
  EXPECT_THAT([&] { storage_of(dir, zstd_entry(), 1, 1000); },
              FailsWith(Code::kDataLoss, "it decodes to too many bytes"));
}

TEST(Transforms, APoolForgetsDecoders) {
  const TempDir dir;
  put_file(dir / "entry", zstd_entry());
  const File file = File::open(dir / "entry");
  Entry entry{.length = file.size()};
  entry.transforms = {"stream.zstd/1"};
  pytorch::DecoderPool pool;
  int a = 0, b = 0;
  const auto decoder_at = [&](std::uint64_t position) {
    auto decoder = std::make_unique<pytorch::EntryDecoder>(file, entry);
    decoder->skip_to(position);
    return decoder;
  };
  for (const std::uint64_t position : {10U, 30U, 20U}) pool.give(&a, decoder_at(position));
  EXPECT_EQ(pool.take(&b, 100), nullptr);
  EXPECT_EQ(pool.take(&a, 9), nullptr);
  EXPECT_EQ(pool.take(&a, 25)->position(), 20U);
  pool.forget(&a);
  EXPECT_EQ(pool.take(&a, 100), nullptr);
  for (int i = 0; i < 200; ++i) pool.give(&a, decoder_at(5));  // more than the memory of a pool
  int kept = 0;
  while (pool.take(&a, 100) != nullptr) ++kept;
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 200);
}

}  // namespace
}  // namespace cairn
