// leaf_folders_test.cc -- leaves that are saved apart from their item: their types in _METADATA,
// and where their files end.
#include <cairn/io/file.h>
#include <cairn/open.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;

std::string text_of(const std::string& file) {
  const Buffer text = read_text_file(file, 1 << 20);
  return std::string(as_text(text));
}

void write(const std::string& file, const std::string& text) {
  testing::put_file(file, as_bytes(text));
}

Array numbers() { return Array::allocate(DType::kFloat32, {3}); }

TEST(LeafFoldersTest, metadata_names_the_types_of_leaves_that_others_store) {
  const testing::TempDir dir;
  PyTreeCheckpointHandlerOptions options;
  options.pytree_metadata_options.support_rich_types = true;
  PyTreeCheckpointHandler handler(std::move(options));
  const auto type = [](const char* name) { return Tree(CustomLeaf::of(LeafType{name})); };
  const Tree tree(Tree::Dict{{"a", type("point")},
                             {"b", Tree(numbers())},
                             {"c", type("jax.Array")},  // no value belongs to it
                             {"d", Tree(Placeholder{})},
                             {"e", type("None")}});
  handler.save(dir.path(), {.item = tree});
  const std::string text = text_of(dir / "_METADATA");
  const auto entry = [](const char* name, const char* skips) {
    return std::string("{\"value_type\": \"") + name + "\", \"skip_deserialize\": " + skips;
  };
  EXPECT_THAT(text, HasSubstr(entry("point", "false") + "}"));
  EXPECT_THAT(text, HasSubstr(entry("jax.Array", "false") + "}"));  // without a write_shape
  EXPECT_THAT(text, HasSubstr(entry("placeholder", "false")));
  EXPECT_THAT(text, HasSubstr(entry("None", "true")));
  EXPECT_THAT(text, HasSubstr(R"(\"value_type\": \"point\")"));  // of the rich types
  EXPECT_THAT(text, HasSubstr(R"(\"value_type\": \"None\", \"skip_deserialize\": true)"));
}

TEST(LeafFoldersTest, a_database_stays_and_is_merged) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  const std::string folder = make_leaf_folder(dir.path(), true);
  EXPECT_EQ(folder, dir / "ocdbt.process_cairn0");
  EXPECT_EQ(make_leaf_folder(dir.path(), true), dir / "ocdbt.process_cairn1");
  fs::remove(dir / "ocdbt.process_cairn1");
  handler.save(folder, {.item = Tree(Tree::Dict{{"a", Tree(numbers())}})});
  place_leaf_folder(folder, dir.path());
  EXPECT_FALSE(fs::exists(folder + "/_METADATA"));  // that of the item has all leaves
  handler.save(dir.path(),
               {.item = Tree(Tree::Dict{{"a", Tree(CustomLeaf::of(LeafType{"np.ndarray"}))}})});
  handler.finalize(dir.path());
  EXPECT_EQ(open(dir.path())->read("a").bytes().size(), 12U);
}

TEST(LeafFoldersTest, arrays_without_a_database_move) {
  const testing::TempDir dir;
  const std::string folder = make_leaf_folder(dir.path(), false);
  EXPECT_EQ(folder, dir / "cairn.tmp_0");
  write(folder + "/a/.zarray", "new");
  write(folder + "/a/0", "1");
  write(dir / "a/.zarray", "old");
  write(dir / "a/1", "2");
  write(folder + "/_METADATA", "{}");
  place_leaf_folder(folder, dir.path());
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_FALSE(fs::exists(dir / "_METADATA"));
  EXPECT_EQ(text_of(dir / "a/.zarray") + text_of(dir / "a/0") + text_of(dir / "a/1"), "new12");
}

TEST(LeafFoldersTest, files_of_several_handlers_are_joined) {
  const testing::TempDir dir;
  const std::string folder = make_leaf_folder(dir.path(), false);
  write(dir / "_strings.json", R"({"a":"1","b":"2"})");
  write(folder + "/_strings.json", R"({"c":"ü","a":"3"})");
  write(folder + "/_sharding", R"({"YQ==":"{}"})");
  write(dir / "array_metadatas/process_0", R"({"array_metadatas": [{"n": 1, "more": null}]})");
  write(folder + "/array_metadatas/process_0", R"({"array_metadatas": [{"n": 2.5}]})");
  write(folder + "/array_metadatas/process_1", R"({"array_metadatas": []})");
  place_leaf_folder(folder, dir.path());
  EXPECT_EQ(text_of(dir / "_strings.json"), R"({"a": "3", "b": "2", "c": "\u00fc"})");
  EXPECT_EQ(text_of(dir / "_sharding"), R"({"YQ==":"{}"})");  // as it was written
  EXPECT_EQ(text_of(dir / "array_metadatas/process_0"),
            R"({"array_metadatas": [{"n": 1, "more": null}, {"n": 2.5}]})");
  EXPECT_EQ(text_of(dir / "array_metadatas/process_1"), R"({"array_metadatas": []})");
  EXPECT_FALSE(fs::exists(folder));
}

TEST(LeafFoldersTest, a_file_that_cannot_be_joined_is_named) {
  const testing::TempDir dir;
  const std::string folder = make_leaf_folder(dir.path(), false);
  write(dir / "_strings.json", "[]");
  write(folder + "/_strings.json", "{}");
  const Error error = error_of([&] { place_leaf_folder(folder, dir.path()); });
  EXPECT_EQ(error.code(), Code::kDataLoss);
  EXPECT_THAT(error.what(), HasSubstr((dir / "_strings.json") + ": expected an object"));
  EXPECT_TRUE(fs::exists(folder + "/_strings.json"));
}

TEST(LeafFoldersTest, no_file_is_moved_through_a_link) {
  const testing::TempDir dir, outside;
  const std::string folder = make_leaf_folder(dir.path(), false);
  write(folder + "/a/0", "1");
  fs::create_directory_symlink(outside.path(), dir / "a");
  const Error error = error_of([&] { place_leaf_folder(folder, dir.path()); });
  EXPECT_EQ(error.code(), Code::kAlreadyExists);
  EXPECT_THAT(error.what(), HasSubstr(dir / "a"));
  EXPECT_TRUE(fs::is_empty(outside.path()));
  EXPECT_EQ(text_of(folder + "/a/0"), "1");
}

TEST(LeafFoldersTest, ids_that_are_no_part_of_a_name_are_refused) {
  const testing::TempDir dir;
  for (const char* id : {"", ".", "..", "a/b", "/../../b"}) {
    const Error error = error_of([&] { make_shared_leaf_folder(dir.path(), id); });
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << id;
    EXPECT_THAT(error.what(), HasSubstr(std::string("the id '") + id + "'"));
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(LeafFoldersTest, several_processes_share_a_folder) {
  const testing::TempDir dir;
  const std::string folder = make_shared_leaf_folder(dir.path(), "ab12");
  EXPECT_EQ(make_shared_leaf_folder(dir.path(), "ab12"), folder);
  for (const char* process : {"0", "1"})
    write(folder + "/ocdbt.process_" + process + "/manifest.ocdbt", process);
  write(folder + "/_sharding", "{}");
  write(dir / "other/file", "");
  place_shared_leaf_folders(dir.path());
  EXPECT_EQ(text_of(dir / "ocdbt.process_cairnab12x0/manifest.ocdbt"), "0");
  EXPECT_EQ(text_of(dir / "ocdbt.process_cairnab12x1/manifest.ocdbt"), "1");
  EXPECT_EQ(text_of(dir / "_sharding"), "{}");
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(fs::exists(dir / "other/file"));
}

}  // namespace
}  // namespace cairn
