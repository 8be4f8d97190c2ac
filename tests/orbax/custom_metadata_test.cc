// custom_metadata_test.cc -- arrays whose metadata is called neither .zarray nor zarr.json.
#include <gmock/gmock.h>

#include "tests/orbax/golden_copy.h"
#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"

namespace cairn {
namespace {

using testing::fact;
using testing::FailsWith;
using testing::GoldenCopy;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

constexpr const char* kGolden = "tiny_files_raw";

// The golden checkpoint with one array's metadata called otherwise.
void call_metadata(const GoldenCopy& copy, const std::string& name, const std::string& key) {
  fs::create_directories(fs::path(copy / (name + "/" + key)).parent_path());
  fs::rename(copy / (name + "/.zarray"), copy / (name + "/" + key));
}

std::unique_ptr<Checkpoint> open_with_key(const std::string& path, const std::string& key) {
  OpenOptions options;
  options.metadata_key = key;
  return open_orbax(path, options);
}

void expect_same(const Checkpoint& have, const Checkpoint& want) {
  ASSERT_EQ(have.tensors().size(), want.tensors().size());
  for (std::size_t i = 0; i < want.tensors().size(); ++i) {
    const TensorInfo& t = want.tensors()[i];
    SCOPED_TRACE(t.name);
    EXPECT_EQ(have.tensors()[i].error, "");
    EXPECT_EQ(have.tensors()[i].dtype_name, t.dtype_name);
    EXPECT_EQ(have.tensors()[i].stored_nbytes, t.stored_nbytes);
    if (!t.is_array()) continue;
    EXPECT_TRUE(testing::same_bytes(have.read(t.name).bytes(), want.read(t.name).bytes()));
  }
}

TEST(CustomMetadata, IsFoundByLooking) {
  const auto want = open_orbax(testing::golden(kGolden));
  for (const char* key : {"meta.json", ".zmeta", "x/y", "~", "zarray"}) {
    SCOPED_TRACE(key);
    const GoldenCopy copy(kGolden);
    call_metadata(copy, "w", key);
    call_metadata(copy, "n", key);
    copy.put("w/notes.txt", "not metadata");
    copy.put("w/other.json", R"({"zarr": 2})");
    const auto checkpoint = open_orbax(copy.path());
    expect_same(*checkpoint, *want);
    EXPECT_EQ(fact(*checkpoint, "array metadata key"),
              "'" + std::string(key) + "' instead of .zarray, of 2 arrays");
    expect_same(*open_with_key(copy.path(), key), *want);
    copy.remove("w/notes.txt");
    copy.remove("w/other.json");
    EXPECT_THAT(checkpoint->verify({}).findings, IsEmpty());
  }
}

TEST(CustomMetadata, SeveralCandidatesMustBeChosenBetween) {
  const GoldenCopy copy(kGolden);
  call_metadata(copy, "w", "b.json");
  std::string text = copy.text("w/b.json");
  copy.put("w/a.json", text.replace(text.find("<f4"), 3, "<i4"));
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_THAT(checkpoint->info("w").error,
              HasSubstr("'a.json' or 'b.json'; choose one with --metadata-key"));
  EXPECT_EQ(checkpoint->info("big").error, "");
  EXPECT_EQ(open_with_key(copy.path(), "b.json")->info("w").dtype, DType::kFloat32);
  EXPECT_EQ(open_with_key(copy.path(), "a.json")->info("w").dtype, DType::kInt32);
}

TEST(CustomMetadata, TheUsualNameCountsUnlessAnotherIsAskedFor) {
  const GoldenCopy copy(kGolden);
  std::string text = copy.text("w/.zarray");
  copy.put("w/meta.json", text.replace(text.find("<f4"), 3, "<i4"));
  EXPECT_EQ(open_orbax(copy.path())->info("w").dtype, DType::kFloat32);
  EXPECT_EQ(open_with_key(copy.path(), "meta.json")->info("w").dtype, DType::kInt32);
  copy.put("w/.zarray", "{");
  EXPECT_THAT(open_orbax(copy.path())->info("w").error, HasSubstr("w/.zarray"));
  EXPECT_EQ(open_with_key(copy.path(), "meta.json")->info("w").dtype, DType::kInt32);
}

TEST(CustomMetadata, DamageIsNamedWithItsPlace) {
  const GoldenCopy copy(kGolden);
  call_metadata(copy, "w", "meta.json");
  copy.edit("w/meta.json", "<f4", "?f4");
  EXPECT_THAT(open_orbax(copy.path())->info("w").error, HasSubstr("w/meta.json: "));
  copy.put("w/meta.json", "{");
  EXPECT_EQ(open_orbax(copy.path())->info("w").error, "no array is stored under this name");
  EXPECT_THAT(open_with_key(copy.path(), "meta.json")->info("w").error,
              HasSubstr("meta.json: no Zarr metadata"));
  EXPECT_EQ(open_with_key(copy.path(), "absent")->info("w").error,
            "no array is stored under this name");
}

TEST(CustomMetadata, AnotherLeafsIsNotTaken) {
  // "w" has no metadata; below its folder lies the array of the leaf "w/x".
  const GoldenCopy copy(kGolden);
  fs::copy(copy / "n", copy / "w/x", fs::copy_options::recursive);
  copy.edit(
      "_METADATA", R"j({"('big',)")j",
      R"j({"('w/x',)": {"key_metadata": [{"key": "w/x", "key_type": 2}], )j"
      R"j("value_metadata": {"value_type": "scalar", "skip_deserialize": false}}, "('big',)")j");
  call_metadata(copy, "w/x", "meta.json");
  copy.remove("w/.zarray");
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_EQ(checkpoint->info("w/x").error, "");
  EXPECT_EQ(checkpoint->info("w").error, "no array is stored under this name");
}

TEST(CustomMetadata, TellsTheNamesWhereNothingElseDoes) {
  const GoldenCopy copy(kGolden);
  for (const char* name : {"_METADATA", "_CHECKPOINT_METADATA", "_sharding", "_strings.json",
                           "commit_success.txt", "array_metadatas"})
    copy.remove(name);
  for (const char* name : {"big", "n", "w"}) call_metadata(copy, name, "meta.json");
  EXPECT_THAT([&] { open_orbax(copy.path()); },
              FailsWith(Code::kInvalidArgument, "is not a checkpoint"));
  const auto all = open_with_key(copy.path(), "meta.json");
  ASSERT_EQ(all->tensors().size(), 3U);
  EXPECT_EQ(all->info("w").shape, (Shape{2, 3}));
  EXPECT_THAT(all->verify({}).findings, IsEmpty());
  EXPECT_EQ(open_with_key(copy / "w", "meta.json")->info("").shape, (Shape{2, 3}));
}

}  // namespace
}  // namespace cairn
