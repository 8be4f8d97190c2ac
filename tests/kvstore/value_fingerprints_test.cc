// value_fingerprints_test.cc -- what is remembered of stored values, and when it no longer counts.
#include <cairn/io/file.h>
#include <cairn/kvstore/value_fingerprints.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::put_file;
using testing::TempDir;

ValueFingerprints::Range range_of(const std::string& path) {
  const File file = File::open(path);
  return {file.state(), 0, file.size()};
}

void save(ValueFingerprints& known, const TempDir& dir, const std::string& text) {
  SavedFingerprints saved(known);
  put_file(dir / "a", text);
  saved.note("a", fingerprint(as_bytes(text)));
  saved.note("absent", fingerprint({}));
  EXPECT_TRUE(saved.has("a"));
  EXPECT_FALSE(saved.has("b"));
  saved.finish(*open_file_store(dir.path()));
}

TEST(Fingerprint, DependsOnEveryByte) {
  Bytes bytes(1000);
  const Fingerprint before = fingerprint(bytes);
  EXPECT_EQ(fingerprint(Bytes(1000)), before);
  EXPECT_NE(fingerprint(Bytes(999)), before);
  for (std::byte& byte : bytes) {
    byte = std::byte{1};
    EXPECT_NE(fingerprint(bytes), before);
    byte = std::byte{0};
  }
}

TEST(ValueFingerprints, CountWhileNobodyWritesToTheFile) {
  const TempDir dir;
  ValueFingerprints known;
  // Without the stamp, a write within the same tick of the kernel's clock would go unnoticed.
  for (int i = 0; i < 50; ++i) {
    save(known, dir, "abcd");
    EXPECT_EQ(known.find(range_of(dir / "a")), fingerprint(as_bytes("abcd")));
    put_file(dir / "a", "abcx");
    EXPECT_EQ(known.find(range_of(dir / "a")), std::nullopt);
  }
}

TEST(ValueFingerprints, ThoseOfTheOldestSaveAreForgotten) {
  const TempDir dir;
  ValueFingerprints known;
  save(known, dir, "abcd");
  const auto first = range_of(dir / "a");
  for (int i = 0; i < 15; ++i) known.add({});
  EXPECT_TRUE(known.find(first));
  SavedFingerprints again(known);
  again.note_stored(first, *known.find(first));
  again.finish(*make_memory_store());
  EXPECT_TRUE(known.find(first));
  for (int i = 0; i < 16; ++i) known.add({});
  EXPECT_FALSE(known.find(first));
}

// A file that was written a moment ago, by somebody else, may be written to again in the same tick
// of the clock.
TEST(ValueFingerprints, OfAFileThatIsNotStampedCountOnlyIfItIsOld) {
  const TempDir dir;
  put_file(dir / "a", "abcd");
  for (const bool is_old : {false, true}) {
    if (is_old)
      std::filesystem::last_write_time(
          dir / "a", std::filesystem::file_time_type::clock::now() - std::chrono::seconds(10));
    ValueFingerprints known;
    SavedFingerprints saved(known);
    saved.note_stored(range_of(dir / "a"), fingerprint(as_bytes("abcd")));
    saved.finish(*make_memory_store());
    EXPECT_EQ(known.find(range_of(dir / "a")).has_value(), is_old);
  }
}

}  // namespace
}  // namespace cairn
