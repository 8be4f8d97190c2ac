// save_test.cc -- cairn::save chooses the format by the extension of the path; what it refuses.
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>
#include <tests/support/temp_dir.h>

#include <stop_token>
#include <string>

namespace cairn {
namespace {

using testing::FailsWith;
using testing::TempDir;

Tree small_tree() {
  return Tree(Tree::Dict{{"a", Tree(Array::from<float>({1, 2, 3}, {3}))},
                         {"b", Tree(Tree::List{Tree(std::int64_t{7}), Tree(2.5), Tree(true)})}});
}

TEST(Save, ChoosesTheFormatByTheExtension) {
  const TempDir dir;
  const std::pair<const char*, const char*> kRows[] = {
      {"a.safetensors", "safetensors"}, {"a.npz", "npz"},   {"a.MSGPACK", "msgpack"},
      {"checkpoint", "orbax"},          {"v1.5/", "orbax"},
  };
  for (const auto& [name, format] : kRows) {
    save(dir / name, small_tree());
    const auto opened = open(dir / name);
    EXPECT_EQ(opened->info().format, format) << name;
    EXPECT_NE(opened->load().find("a"), nullptr) << name;
    EXPECT_EQ(opened->tensors().size(), 4U) << name;
  }
  save("file://" + (dir / "b.npz"), small_tree());
  EXPECT_TRUE(file_exists(dir / "b.npz"));
}

TEST(Save, InAGivenFormatWhateverTheExtension) {
  const TempDir dir;
  save_as(TargetFormat::kOrbax, dir / "folder.npz", small_tree());
  EXPECT_EQ(open(dir / "folder.npz")->info().format, "orbax");
  save_as(TargetFormat::kNpz, dir / "archive", small_tree());
  EXPECT_EQ(open(dir / "archive")->info().format, "npz");
  save_as(TargetFormat::kOrbaxZarr3, dir / "v3", small_tree());
  EXPECT_EQ(open(dir / "v3")->zarr_metadata(0)->zarr_format, 3);
}

TEST(Save, RefusesWhatAFileCannotHold) {
  const TempDir dir;
  const auto refused = [&](const std::string& name, const SaveOptions& options,
                           const std::string& text) {
    EXPECT_THAT([&] { save(dir / name, small_tree(), options); },
                FailsWith(Code::kInvalidArgument, text));
    EXPECT_FALSE(file_exists(dir / name)) << name;
  };
  for (const char* name : {"a.safetensors", "a.npz", "a.msgpack", "a.pt"}) {
    refused(name, {.use_ocdbt = false}, "has no option use_ocdbt");
    refused(name, {.use_zarr3 = true}, "has no option use_zarr3");
    refused(name, {.item = "state"}, "has no option item");
    refused(name, {.compression = Compression(Compression::kNone)}, "has no option compression");
    refused(name, {.chunk_bytes = 1}, "has no option chunk_bytes");
    refused(name, {.target_file_bytes = 1}, "has no option target_file_bytes");
    refused(name, {.support_rich_types = true}, "has no option support_rich_types");
    refused(name, {.item_metadata = "1"}, "has no option item_metadata");
    refused(name, {.durability = Durability::kUnsynced}, "has no option durability");
    refused(name, {.reuse_from = "b"}, "has no option reuse");
  }
  refused("a.npz", {.custom_metadata = R"({"a": 1})"}, "npz has no option custom_metadata");
  refused("a.safetensors", {.custom_metadata = "[1]"}, "custom metadata");
  refused("a.h5", {}, "does not write .h5 files");
  EXPECT_THAT([&] { save(dir / "model.index", small_tree()); },
              FailsWith(Code::kUnimplemented, "convert() makes one"));
  EXPECT_THAT(
      [&] {
        save(dir / "b.npz", Tree(Tree::Dict{{"t", Tree(std::string("x"))}}));
      },
      FailsWith(Code::kInvalidArgument, "t: the format holds arrays and numbers"));
  EXPECT_THAT([&] { save("hf://owner/name/a.npz", small_tree()); },
              FailsWith(Code::kUnimplemented, "can only be read"));
}

TEST(Save, StoresMetadataInSafetensors) {
  const TempDir dir;
  save(dir / "a.safetensors", small_tree(),
       {.custom_metadata = R"({"format": "pt", "layers": [1, 2]})"});
  const Bytes file = read_file(dir / "a.safetensors");
  const std::string header(as_text(file));
  EXPECT_NE(header.find(R"("format":"pt")"), std::string::npos) << header;
  EXPECT_NE(header.find(R"("layers":"[1, 2]")"), std::string::npos) << header;
}

TEST(Save, OfAFileReportsItsProgressAndMayBeStopped) {
  const TempDir dir;
  for (const char* name : {"a.safetensors", "a.npz", "a.msgpack"}) {
    std::uint64_t done = 0, total = 0;
    const auto progress = [&](std::uint64_t now, std::uint64_t of) { done = now, total = of; };
    save(dir / name, small_tree(), {.progress = progress});
    EXPECT_GE(done, 12U) << name;
    EXPECT_EQ(done, total) << name;
    std::stop_source stop;
    stop.request_stop();
    EXPECT_THAT(
        [&] {
          save(dir / (std::string("stopped.") + name), small_tree(), {.cancel = stop.get_token()});
        },
        FailsWith(Code::kCancelled, "asked to stop"))
        << name;
    EXPECT_FALSE(file_exists(dir / (std::string("stopped.") + name)));
  }
}

}  // namespace
}  // namespace cairn
