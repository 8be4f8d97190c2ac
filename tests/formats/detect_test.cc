// detect_test.cc -- files are told apart by what is in them; their names matter only where damage
// may have eaten that.
#include <cairn/formats/detect.h>
#include "tests/formats/golden.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::golden;
using testing::put_file;
using testing::TempDir;

TEST(Detect, KnowsGoldenFilesUnderAnyName) {
  TempDir dir;
  const auto under_another_name = [&](const std::string& name) {
    std::filesystem::remove(dir / "file");
    testing::copy_tree(golden(name), dir / "file");
    return detect_file(FileTree(), dir / "file");
  };
  EXPECT_EQ(under_another_name("safetensors/safetensors-0.8.0/all.safetensors"),
            Format::kSafetensors);
  EXPECT_EQ(under_another_name("safetensors/safetensors-0.8.0/set/model.safetensors.index.json"),
            Format::kSafetensors);
  for (const std::string name : {"dtypes", "flax_chunked", "flax_chunked_root", "orbax_chunked"})
    EXPECT_EQ(under_another_name("msgpack/flax-0.12.8_orbax-0.12.8/" + name + ".msgpack"),
              Format::kMsgpack)
        << name;
  EXPECT_EQ(under_another_name("safetensors/safetensors-0.8.0/all.json"), std::nullopt);
  EXPECT_EQ(under_another_name("safetensors/safetensors-0.8.0/make_golden.py"), std::nullopt);
}

TEST(Detect, KnowsNothingElse) {
  TempDir dir;
  const auto of = [&](std::string_view bytes, const std::string& name = "file") {
    put_file(dir / name, bytes);
    return detect_file(FileTree(), dir / name);
  };
  EXPECT_EQ(of(""), std::nullopt);
  EXPECT_EQ(of("{}"), std::nullopt);
  EXPECT_EQ(of("{\"weight_map\": 1}"), std::nullopt);
  EXPECT_EQ(of("{\"weight_map\": {}}"), Format::kSafetensors);
  EXPECT_EQ(of("\x80"), Format::kMsgpack);      // the empty map
  EXPECT_EQ(of("\x80\x04\x95"), std::nullopt);  // a pickle
  // opening it says that it is cut off
  EXPECT_EQ(of("\x93NUMPY\1"), Format::kNpy);
  EXPECT_EQ(of("PK\3\4"), std::nullopt);  // a zip
  // nine pairs, but the first key is no text
  EXPECT_EQ(of("\x89HDF\r\n"), std::nullopt);
  EXPECT_EQ(of("\x81\xa1"), std::nullopt);                          // cut off in the first key
  EXPECT_EQ(of("garbage", "x.safetensors"), Format::kSafetensors);  // opening it says what is wrong
  EXPECT_EQ(of("garbage", "x.safetensors.index.json"), Format::kSafetensors);
  EXPECT_EQ(of("garbage", "x.msgpack"), Format::kMsgpack);
  EXPECT_EQ(detect_file(FileTree(), dir.path()), std::nullopt);
  EXPECT_THAT([&] { static_cast<void>(detect_file(FileTree(), dir / "none")); },
              FailsWith(Code::kNotFound));
}

TEST(Detect, NamesTheFormats) {
  EXPECT_EQ(format_name(Format::kSafetensors), "safetensors");
  EXPECT_EQ(format_name(Format::kMsgpack), "msgpack");
  EXPECT_EQ(format_name(Format::kOrbax), "orbax");
}

}  // namespace
}  // namespace cairn
