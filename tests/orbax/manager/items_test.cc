// items_test.cc -- items that the comparison with Orbax (tests/interop/orbax/test_items.py) cannot
// see: what is refused, damage, and files of the caller's own.
#include <cairn/checkpoint_manager.h>
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/open.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/sharding.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::put_file;
using cairn::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Array kNumbers = Array::from<float>({1, 2, 3}, {3});
const Array kKey = Array::from<std::uint32_t>({7, 9}, {2});

Tree numpy_state() { return Tree::Tuple{{Tree("MT19937"), kKey, Tree(624), Tree(0), Tree(0.5)}}; }

CheckpointItems all_kinds() {
  return {{"tree", PyTreeSaveArgs{Tree{{"w", kNumbers}, {"name", "adam"}}}},
          {"standard", StandardItem{Tree{{"w", kNumbers}, {"step", 7}}}},
          {"array", ArrayItem{kNumbers}},
          {"number", ArrayItem{Tree(3)}},
          {"json", JsonItem{R"({"layers":12})"}},
          {"proto", ProtoItem{"name: \"x\"\n"}},
          {"jax", JaxRandomKeyItem{.key = kKey, .typed = false}},
          {"numpy", NumpyRandomKeyItem{numpy_state()}}};
}

TEST(Items, EveryKindComesBack) {
  const TempDir dir = TempDir::in_memory();
  Checkpointer checkpointer;
  checkpointer.save_items(dir / "a", all_kinds());
  const RestoredItems items = checkpointer.restore_items(dir / "a");
  EXPECT_EQ(items.size(), 8U);
  EXPECT_EQ(std::get<Tree>(items.at("tree")), (Tree{{"w", kNumbers}, {"name", "adam"}}));
  EXPECT_EQ(std::get<Tree>(items.at("standard")), (Tree{{"w", kNumbers}, {"step", 7}}));
  EXPECT_EQ(std::get<Tree>(items.at("array")), Tree(kNumbers));
  EXPECT_EQ(std::get<Tree>(items.at("number")), Tree(3));
  EXPECT_EQ(std::get<JsonItem>(items.at("json")).text, R"({"layers": 12})");
  EXPECT_EQ(std::get<ProtoItem>(items.at("proto")).text, "name: \"x\"\n");
  EXPECT_EQ(std::get<JaxRandomKeyItem>(items.at("jax")).key, Tree(kKey));
  EXPECT_FALSE(std::get<JaxRandomKeyItem>(items.at("jax")).typed);
  EXPECT_EQ(std::get<NumpyRandomKeyItem>(items.at("numpy")).state, numpy_state());
}

// Orbax gives these names a meaning inside an item, and still takes them as names of items.
TEST(Items, NamesOfFilesInsideAnItemAreNamesLikeOthers) {
  for (const char* name : {"ocdbt.process_0", "ocdbt.process_x", "manifest.ocdbt", "_METADATA",
                           "_sharding", "_strings.json", "array_metadatas", "d", "checkpoint",
                           "metadata", ".zarray", "zarr.json", "0", "c", "jax_random_key", "a b"}) {
    const TempDir dir = TempDir::in_memory();
    const Tree tree{{"w", kNumbers}, {"name", name}};
    for (const bool is_tree : {true, false}) {
      const CheckpointItem item =
          is_tree ? CheckpointItem(PyTreeSaveArgs{tree}) : CheckpointItem(JsonItem{R"({"w": 1})"});
      Checkpointer checkpointer;
      for (int i = 0; i < 2; ++i)  // the second one replaces the first one
        checkpointer.save_items(dir / "a", {{name, item}, {"also", PyTreeSaveArgs{tree}}},
                                {.if_exists = IfExists::kReplace});
      const RestoredItems items = checkpointer.restore_items(dir / "a");
      EXPECT_EQ(items.size(), 2U) << name;
      EXPECT_EQ(std::get<Tree>(items.at("also")), tree) << name;
      if (is_tree)
        EXPECT_EQ(std::get<Tree>(items.at(name)), tree) << name;
      else
        EXPECT_EQ(std::get<JsonItem>(items.at(name)).text, R"({"w": 1})") << name;
      const VerifyReport report = verify(dir / "a");
      EXPECT_EQ(report.verdict(true), Verdict::kGood) << name << verify_json(report);
      const auto opened = open(dir / "a", {.item = "also"});
      EXPECT_EQ(opened->tensors().size(), 2U) << name;
    }
  }
}

TEST(Items, NamesThatCannotBeFoldersOfACheckpointAreRefused) {
  const TempDir dir = TempDir::in_memory();
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("/a"),
        std::string("a\0b", 3), std::string("a\\b"), std::string("a.__lock"),
        std::string("a.orbax-checkpoint-tmp"), std::string("commit_success.txt"),
        std::string("_CHECKPOINT_METADATA"), std::string("orbax.checkpoint"),
        std::string("_CHECKPOINT_DELETION")}) {
    EXPECT_THAT(
        [&] {
          Checkpointer().save_items(dir / "a", {{name, JsonItem{"1"}}});
        },
        FailsWith(Code::kInvalidArgument, "name"))
        << name;
    EXPECT_THAT(list_directory(dir.path()).folders, ::testing::IsEmpty());
  }
}

TEST(Items, OnlySomeAreRestored) {
  const TempDir dir = TempDir::in_memory();
  AsyncCheckpointer checkpointer;
  checkpointer.save_items(dir / "a", all_kinds());
  const PyTreeRestoreArgs only_w{.item = Tree{{"w", Tree(kNumbers)}}, .partial_restore = true};
  const RestoredItems items =
      checkpointer.restore_items(dir / "a", {{"json", {}}, {"tree", only_w}});
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(std::get<Tree>(items.at("tree")), (Tree{{"w", kNumbers}}));
  EXPECT_THAT(
      [&] {
        (void)checkpointer.restore_items(dir / "a", {{"no", {}}});
      },
      FailsWith(Code::kNotFound, "no item 'no'; its items are 'array', 'jax'"));
  EXPECT_THAT([&] { (void)checkpointer.restore_items(dir / "b"); },
              FailsWith(Code::kNotFound, "/b"));
  checkpointer.save(dir / "one", PyTreeSaveArgs{Tree{{"x", 1}}});
  EXPECT_THAT([&] { (void)checkpointer.restore_items(dir / "one"); },
              FailsWith(Code::kInvalidArgument, "restore it as a tree"));
}

TEST(Items, WhatAnItemCannotBe) {
  const TempDir dir = TempDir::in_memory();
  Checkpointer checkpointer;
  const auto refuses = [&](CheckpointItem item, Code code, const char* why) {
    EXPECT_THAT([&] { checkpointer.save_items(dir / "a", {{"x", item}}); }, FailsWith(code, why));
    EXPECT_THAT(
        [&] {
          checkpointer.save_items(dir / "a", {{"x", item}});
        },
        FailsWith(code, "the item 'x'"));
  };
  refuses(StandardItem{Tree(kNumbers)}, Code::kInvalidArgument, "ArrayItem");
  refuses(StandardItem{Tree{{"a", Tree{{"b", "text"}}}}}, Code::kInvalidArgument, "['a']['b']");
  refuses(ArrayItem{Tree{{"a", kNumbers}}}, Code::kInvalidArgument, "save it as a tree");
  refuses(JsonItem{"{"}, Code::kDataLoss, "");
  refuses(JaxRandomKeyItem{Tree(7)}, Code::kInvalidArgument, "array of uint32");
  refuses(NumpyRandomKeyItem{Tree(7)}, Code::kInvalidArgument, "tuple nor a dict");
  refuses(FilesItem{}, Code::kInvalidArgument, "handler");
  refuses(FilesItem{.handler = "mine.Handler"}, Code::kInvalidArgument, "function");
  const auto save = [&](CheckpointItems items, CheckpointerSaveOptions options = {}) {
    return [&checkpointer, items = std::move(items), options = std::move(options), &dir] {
      checkpointer.save_items(dir / "a", items, options);
    };
  };
  EXPECT_THAT(save({}), FailsWith(Code::kInvalidArgument, "no items"));
  EXPECT_THAT(save({{"a/b", JsonItem{"1"}}}), FailsWith(Code::kInvalidArgument, "a/b"));
  EXPECT_THAT(save({{"..", JsonItem{"1"}}}), FailsWith(Code::kInvalidArgument, ".."));
  EXPECT_THAT(save({{"a", JsonItem{"1"}}, {"a", JsonItem{"1"}}}),
              FailsWith(Code::kInvalidArgument, "'a'"));
  for (const char* name :
       {"commit_success.txt", "_CHECKPOINT_METADATA", "orbax.checkpoint", "_CHECKPOINT_DELETION"})
    EXPECT_THAT(save({{name, JsonItem{"1"}}}), FailsWith(Code::kInvalidArgument, name));
  EXPECT_THAT(save({{"a", JsonItem{"1"}}}, {.item = "b"}),
              FailsWith(Code::kInvalidArgument, "'item'"));
  EXPECT_THAT(list_directory(dir.path()).folders, IsEmpty());
}

TEST(Items, DamageIsNamed) {
  const TempDir dir = TempDir::in_memory();
  Checkpointer checkpointer;
  checkpointer.save_items(dir / "a", all_kinds());
  const auto fails = [&](const char* item, Code code, const char* why) {
    EXPECT_THAT(
        [&] {
          (void)checkpointer.restore_items(dir / "a", {{item, {}}});
        },
        FailsWith(code, why));
  };
  const std::string flags = dir / "a/jax/jax_random_key_metadata/metadata";
  put_file(flags, "{}");
  fails("jax", Code::kDataLoss, "no member 'typed'");
  put_file(flags, R"({"typed": 1})");
  fails("jax", Code::kDataLoss, "jax_random_key_metadata/metadata");
  std::filesystem::remove(flags);
  fails("jax", Code::kNotFound, "jax_random_key_metadata/metadata");
  put_file(dir / "a/json/metadata", "[1,");
  fails("json", Code::kDataLoss, "json/metadata");
  std::filesystem::remove(dir / "a/array/checkpoint/.zarray");
  fails("array", Code::kNotFound, "no array of this name");
  std::filesystem::remove_all(dir / "a/proto");
  fails("proto", Code::kNotFound, "no item 'proto'");
}

FilesItem iterator_state(std::string text) {
  return {.handler = "grain.CheckpointHandler", .write = [text](const std::string& directory) {
            make_directories(directory + "/shards");
            put_file(directory + "/process_0-of-1.json", text);
            put_file(directory + "/shards/0", text);
          }};
}

// Steps with such items are kept and removed like others.
TEST(Items, FilesOfYourOwn) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run", {.max_to_keep = 1});
  for (const std::int64_t step : {1, 2})
    manager.save(step, CheckpointItems{{"tree", PyTreeSaveArgs{Tree{{"x", step}}}},
                                       {"data", iterator_state(std::to_string(step))}});
  manager.wait_until_finished();
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("2"));
  EXPECT_EQ(as_text(read_file(dir / "run/2/data/shards/0")), "2");
  EXPECT_THAT([&] { (void)manager.restore_items(); },
              FailsWith(Code::kUnimplemented, "grain.CheckpointHandler"));
  EXPECT_EQ(manager.restore_items({}, {{"tree", {}}}).size(), 1U);
  // A link leads somewhere else, and does not belong to the step.
  std::filesystem::create_symlink("/", dir / "run/2/data/link");
  EXPECT_THAT([&] { manager.remove(2); }, FailsWith(Code::kAlreadyExists, "link"));
}

std::string text_of(const RestoredItems& items, const char* name) {
  return std::any_cast<std::string>(std::get<CustomItem>(items.at(name)).value);
}

// covers: items.args.register_with_handler
// note: C++ needs no registry to save: the type of the item says how.
TEST(Items, FilesOfYourOwnAreReadByYourReaders) {
  const TempDir dir = TempDir::in_memory();
  std::vector<std::string> events;
  PyTreeCheckpointHandlerOptions options;
  options.observer = [&](const Event& event) { events.push_back(event_text(event)); };
  Checkpointer checkpointer(options);
  checkpointer.save_items(dir / "a", {{"tree", PyTreeSaveArgs{Tree{{"x", 1}}}},
                                      {"data", iterator_state("one")},
                                      {"more", iterator_state("two")}});
  const FilesReader read = [](const std::string& directory) {
    return std::any(std::string(as_text(read_file(directory + "/shards/0"))));
  };
  const FilesReaders readers{.by_handler = {{"grain.CheckpointHandler", read}}};
  const RestoredItems all = checkpointer.restore_items(dir / "a", {}, readers);
  EXPECT_EQ(std::get<Tree>(all.at("tree")), (Tree{{"x", 1}}));
  EXPECT_EQ(text_of(all, "data"), "one");
  EXPECT_EQ(text_of(all, "more"), "two");
  EXPECT_EQ(std::get<CustomItem>(all.at("data")).handler, "grain.CheckpointHandler");
  // The reader of an item goes before that of a handler, and before Cairn's own way.
  const FilesReader other = [](const std::string&) { return std::any(std::string("other")); };
  const FilesReaders both{.by_item = {{"more", other}, {"tree", other}},
                          .by_handler = readers.by_handler};
  const RestoredItems mixed = AsyncCheckpointer(options).restore_items(dir / "a", {}, both);
  EXPECT_EQ(text_of(mixed, "data"), "one");
  EXPECT_EQ(text_of(mixed, "more"), "other");
  EXPECT_EQ(text_of(mixed, "tree"), "other");
  events.clear();
  EXPECT_THAT(
      [&] {
        (void)checkpointer.restore_items(dir / "a", {{"data", {}}}, {.by_item = {{"more", read}}});
      },
      FailsWith(Code::kUnimplemented, "give a reader for it"));
  EXPECT_THAT(events, ElementsAre("warning restore.item_without_handler path=\"" + (dir / "a") +
                                  "/data\" handler=\"grain.CheckpointHandler\""));
  const FilesReaders failing{.by_item = {{"data", [](const std::string&) -> std::any {
                                            throw std::runtime_error("not mine");
                                          }}}};
  EXPECT_THROW((void)checkpointer.restore_items(dir / "a", {}, failing), std::runtime_error);
  CheckpointManager manager(dir / "run");
  manager.save(7, CheckpointItems{{"data", iterator_state("seven")}});
  EXPECT_EQ(text_of(manager.restore_items(7, {}, readers), "data"), "seven");
}

TEST(Items, AnUnfinishedSaveOfSuchFilesIsReplaced) {
  const TempDir dir = TempDir::in_memory();
  Checkpointer checkpointer;
  FilesItem failing = iterator_state("1");
  failing.write = [write = failing.write, &dir](const std::string& directory) {
    write(directory);
    // As a crash would leave it.
    std::filesystem::copy(dir / "a.orbax-checkpoint-tmp", dir / "copy",
                          std::filesystem::copy_options::recursive);
    throw Error(Code::kIo, "no more");
  };
  EXPECT_THAT(
      [&] {
        checkpointer.save_items(dir / "a", {{"data", failing}});
      },
      FailsWith(Code::kIo, "no more"));
  std::filesystem::rename(dir / "copy", dir / "a.orbax-checkpoint-tmp");
  checkpointer.save_items(dir / "a", {{"data", iterator_state("2")}});
  EXPECT_EQ(as_text(read_file(dir / "a/data/process_0-of-1.json")), "2");
}

}  // namespace
}  // namespace cairn::orbax
