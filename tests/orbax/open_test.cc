// open_test.cc -- which directory is what: roots, steps, items, unfinished ones; and every reason
// not to open.
#include <cairn/cairn.h>
#include <cairn/orbax/open.h>
#include <gmock/gmock.h>

#include <cstring>

#include "tests/orbax/golden_copy.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::fact;
using testing::FailsWith;
using testing::golden;
using testing::GoldenCopy;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::open_item;
using testing::open_step;
using testing::open_uncommitted;
using testing::put_file;
using testing::scalar;
using testing::TempDir;
namespace fs = std::filesystem;

std::vector<std::string> names(const Checkpoint& checkpoint) {
  std::vector<std::string> all;
  for (const auto& tensor : checkpoint.tensors())
    all.push_back(tensor.item ? *tensor.item + "/" + tensor.name : tensor.name);
  return all;
}

// AddressSanitizer notices a list that the destroyed checkpoint took along.
TEST(Open, LoopsOverATemporaryCheckpointAreSafe) {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  save(path, Tree{{"a name that does not fit into the string itself", 1}, {"b", 2}});
  std::vector<std::string> found;
  for (const TensorInfo& tensor : open(path)->tensors()) found.push_back(tensor.name);
  EXPECT_THAT(found, ElementsAre("a name that does not fit into the string itself", "b"));
  std::vector<std::string> labels;
  for (const auto& [label, value] : open(path)->info().facts) labels.push_back(label);
  EXPECT_THAT(labels, ::testing::Contains("committed"));
  const auto& leaf = open(path)->info("b");
  EXPECT_EQ(leaf.name, "b");
}

TEST(Open, RefusesFoldersThatAreNotCheckpoints) {
  const TempDir dir;
  EXPECT_THAT([&] { open_orbax(dir / "nothing"); }, FailsWith(Code::kNotFound, "does not exist"));
  EXPECT_FALSE(is_orbax(dir / "nothing"));
  put_file(dir / "file", "x");
  EXPECT_THAT([&] { open_orbax(dir / "file"); }, FailsWith(Code::kInvalidArgument, "is a file"));
  EXPECT_FALSE(is_orbax(dir / "file"));
  EXPECT_THAT([&] { open_orbax(dir.path()); },
              FailsWith(Code::kInvalidArgument, "is not a checkpoint: looked for _METADATA"));
  EXPECT_FALSE(is_orbax(dir.path()));
  // TensorFlow's folders have a text file named `checkpoint`.
  put_file(dir / "tf/checkpoint", "model_checkpoint_path: \"model.ckpt-1\"\n");
  put_file(dir / "tf/model.ckpt-1.index", "x");
  EXPECT_FALSE(is_orbax(dir / "tf"));
  EXPECT_THAT([&] { open_orbax(dir / "tf"); },
              FailsWith(Code::kInvalidArgument, "is not a checkpoint"));
}

TEST(Open, ADirectCheckpointHasNoStepsAndNoItems) {
  const auto checkpoint = open_orbax(golden("tiny_ocdbt_zarr2") + "/");
  EXPECT_EQ(checkpoint->info().format, "orbax");
  EXPECT_EQ(checkpoint->info().layout, "direct, OCDBT, Zarr v2");
  EXPECT_EQ(checkpoint->info().path,
            fs::path(golden("tiny_ocdbt_zarr2")).lexically_normal().string());
  EXPECT_THAT(checkpoint->info().items, ElementsAre());
  EXPECT_EQ(checkpoint->info().step, std::nullopt);
  EXPECT_THAT([] { open_step(golden("tiny_ocdbt_zarr2"), 4); },
              FailsWith(Code::kInvalidArgument, "not a root of steps"));
  EXPECT_THAT([] { open_item(golden("tiny_ocdbt_zarr2"), "x"); },
              FailsWith(Code::kInvalidArgument, "a single tree without items"));
}

TEST(Open, PathsThroughSymbolicLinks) {
  const TempDir dir;
  fs::create_directories(dir / "far/away");
  testing::copy_tree(golden("tiny_ocdbt_zarr2"), dir / "far/ckpt");
  fs::create_directory_symlink(dir / "far/away", dir / "link");
  EXPECT_EQ(open_orbax(dir / "link/../ckpt")->tensors().size(), 5U);
  fs::create_directory_symlink(dir / "far/ckpt", dir / "latest");
  EXPECT_EQ(open_orbax(dir / "latest")->info().path, dir / "latest");
  // A link that leads back to its own folder ends the search.
  fs::create_directories(dir / "loop/a");
  fs::create_directory_symlink(dir / "loop", dir / "loop/a/again");
  EXPECT_THAT([&] { open_orbax(dir / "loop"); },
              FailsWith(Code::kInvalidArgument, "is not a checkpoint"));
}

TEST(Open, ARootOpensAtItsLatestStep) {
  const auto latest = open_orbax(golden("manager"));
  EXPECT_EQ(latest->info().step, 10);
  EXPECT_EQ(latest->info().layout,
            "step 10 of a root of 3 steps, composite, item 'default', OCDBT, Zarr v2");
  EXPECT_EQ(latest->info().path, fs::path(golden("manager/10")).lexically_normal().string());
  EXPECT_THAT(latest->info().items, ElementsAre("default", "metrics"));
  EXPECT_EQ(fact(*latest, "item metrics"), R"({"acc":1.0})");
  EXPECT_EQ(fact(*latest, "root metadata"), R"({"lang":"en"})");
  EXPECT_EQ(scalar<std::int64_t>(*latest, "step"), 10);
  EXPECT_EQ(open_step(golden("manager"), 2)->info().step, 2);
  EXPECT_EQ(scalar<std::int64_t>(*open_step(golden("manager/2"), 2), "step"), 2);
  EXPECT_THAT([] { open_step(golden("manager"), 3); },
              FailsWith(Code::kNotFound, "complete steps are 1, 2, 10"));
  EXPECT_THAT([] { open_step(golden("manager/2"), 3); },
              FailsWith(Code::kInvalidArgument, "step 3 was requested"));
}

TEST(Open, IncompleteStepsArePassedOver) {
  const GoldenCopy copy("manager");
  fs::create_directories(copy / "11");          // created and nothing more
  fs::create_directories(copy / "12/default");  // an item that has nothing
  // written in place, never committed
  fs::copy(copy / "10", copy / "13", fs::copy_options::recursive);
  copy.remove("13/commit_success.txt");
  std::string metadata = copy.text("13/_CHECKPOINT_METADATA");
  const auto at = metadata.find("\"commit_timestamp_nsecs\": ") + 26;
  metadata.replace(at, metadata.find(',', at) - at, "null");
  const auto handlers = metadata.find("\"item_handlers\": ") + 17;
  metadata.replace(handlers, metadata.find('}', handlers) + 1 - handlers, "null");
  copy.put("13/_CHECKPOINT_METADATA", metadata);
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_EQ(checkpoint->info().step, 10);
  EXPECT_EQ(fact(*checkpoint, "newer steps that are not complete"), "13, 12, 11");
  EXPECT_THAT([&] { open_step(copy.path(), 13); },
              FailsWith(Code::kFailedPrecondition, "never committed"));
  EXPECT_THAT([&] { open_step(copy.path(), 11); },
              FailsWith(Code::kFailedPrecondition, "is not a checkpoint"));
  EXPECT_THAT([&] { open_step(copy.path(), 14); },
              FailsWith(Code::kNotFound, "complete steps are 1, 2, 10"));
  EXPECT_THAT([&] { open_orbax(copy / "13"); },
              FailsWith(Code::kFailedPrecondition, "--allow-uncommitted"));
  const auto forced = open_uncommitted(copy / "13");
  EXPECT_THAT(forced->info().layout, HasSubstr("UNCOMMITTED"));
  EXPECT_EQ(scalar<std::int64_t>(*forced, "step"), 10);
  for (const char* step : {"1", "2", "10"}) copy.remove(step);
  EXPECT_THAT([&] { open_orbax(copy.path()); },
              FailsWith(Code::kFailedPrecondition, "none of the 3 steps"));
  EXPECT_TRUE(is_orbax(copy.path()));
}

TEST(Open, StepNames) {
  const GoldenCopy copy("manager_prefix");
  EXPECT_EQ(open_orbax(copy.path())->info().step, 123);
  EXPECT_EQ(scalar<std::int64_t>(*open_step(copy.path(), 7), "step"), 7);
  fs::copy(copy / "run_00007", copy / "7", fs::copy_options::recursive);
  EXPECT_THAT([&] { open_step(copy.path(), 7); },
              FailsWith(Code::kInvalidArgument, "is in two folders, '7' and 'run_00007'"));
  // Names that are no steps do not count.
  for (const char* name : {"999.orbax-checkpoint-tmp-1", "_999", "x999", "99999999999999999999",
                           "run_", "998.partial_save"})
    fs::copy(copy / "7", copy / name, fs::copy_options::recursive);
  EXPECT_EQ(open_orbax(copy.path())->info().step, 123);
}

TEST(Open, AManyStepRootListsTheLast) {
  const GoldenCopy copy("tiny_manager");
  for (int step = 100; step < 130; ++step)
    fs::copy(copy / "4", copy / std::to_string(step), fs::copy_options::recursive);
  EXPECT_THAT([&] { open_step(copy.path(), 5); },
              FailsWith(Code::kNotFound, "complete steps are ..., 110, 111"));
}

TEST(Open, CompositeWithSeveralTrees) {
  const auto checkpoint = open_orbax(golden("composite"));
  EXPECT_THAT(checkpoint->info().items,
              ElementsAre("array", "config", "jax_key", "np_key", "params", "state"));
  EXPECT_EQ(fact(*checkpoint, "item config"), R"({"layers":2,"name":"ü"})");
  EXPECT_EQ(fact(*checkpoint, "jax_key: item"), "JAX random key");
  EXPECT_EQ(fact(*checkpoint, "np_key: item"), "NumPy random state");
  EXPECT_THAT(names(*checkpoint),
              ElementsAre("array/checkpoint", "jax_key/checkpoint", "np_key/0", "np_key/1",
                          "np_key/2", "np_key/3", "np_key/4", "params/only.here", "params/w",
                          "state/b", "state/step", "state/w"));
  EXPECT_EQ(checkpoint->read_string(checkpoint->index("np_key/0")), "MT19937");
  EXPECT_EQ(checkpoint->read("np_key/1").bytes().size(), 624U * 4);
  EXPECT_THAT([&] { (void)checkpoint->index("w"); },
              FailsWith(Code::kInvalidArgument, "'params/w', 'state/w'"));
  EXPECT_EQ(checkpoint->read("params/w").dtype(), DType::kFloat64);
  EXPECT_EQ(checkpoint->read("state/w").dtype(), DType::kFloat32);
  EXPECT_THAT([] { open_item(golden("composite"), "nope"); },
              FailsWith(Code::kNotFound, "its items are 'array', 'config', 'jax_key'"));
  EXPECT_THAT(
      [] { open_item(golden("composite"), "config"); },
      FailsWith(Code::kInvalidArgument, "holds no arrays; items with arrays: 'array', 'jax_key'"));
  const Tree tree = checkpoint->load();
  ASSERT_NE(tree.find("state"), nullptr);
  EXPECT_EQ(std::get<std::int64_t>(tree.find("state")->find("step")->value()), 3);
  EXPECT_FALSE(checkpoint->verify({}).damaged());
}

TEST(Open, ACompositeWithoutTreesHasNoTensors) {
  const GoldenCopy copy("composite_one_item");
  copy.remove("state");
  const auto lost = open_orbax(copy.path());
  EXPECT_TRUE(lost->tensors().empty());
  EXPECT_THAT(lost->info().layout, HasSubstr("without a pytree item"));
  EXPECT_THAT([&] { (void)lost->load(); }, FailsWith(Code::kDataLoss, "item 'state' is recorded"));
  // By its own records, it never had one.
  copy.put("_CHECKPOINT_METADATA",
           R"({"item_handlers": {"config":
               "orbax.checkpoint._src.handlers.json_checkpoint_handler.JsonCheckpointHandler"}})");
  EXPECT_EQ(open_orbax(copy.path())->load().dict()->size(), 0U);
}

TEST(Open, ACompositeOfOldTimesIsKnownByItsItems) {
  const GoldenCopy copy("composite_one_item");
  copy.remove("_CHECKPOINT_METADATA");
  copy.remove("commit_success.txt");
  EXPECT_THAT(names(*open_orbax(copy.path())), ElementsAre("b", "step", "w"));
}

TEST(Open, TemporaryDirectoriesAreRefused) {
  const std::string name = "ckpt.orbax-checkpoint-tmp-17";
  const GoldenCopy copy("tiny_ocdbt_zarr2", name);
  EXPECT_THAT([&] { open_orbax(copy.path()); },
              FailsWith(Code::kFailedPrecondition, "has the mark of a temporary directory"));
  EXPECT_THAT([&] { open_orbax(copy / "ocdbt.process_0"); },
              FailsWith(Code::kFailedPrecondition, "temporary"));
  EXPECT_EQ(scalar<std::int64_t>(*open_uncommitted(copy.path()), "n"), 3);
  EXPECT_THAT([&] { open_orbax(fs::path(copy.path()).parent_path().string()); },
              FailsWith(Code::kFailedPrecondition, "only unfinished checkpoints: '" + name));
}

TEST(Open, DatabasesThatWereNeverMergedAreReadAsOne) {
  const std::string path = golden("uncommitted_direct/ckpt.orbax-checkpoint-tmp");
  EXPECT_THAT([&] { open_orbax(path); }, FailsWith(Code::kFailedPrecondition, "temporary"));
  const auto checkpoint = open_uncommitted(path);
  EXPECT_THAT(names(*checkpoint), ElementsAre("w"));
  double w[4];
  std::memcpy(w, checkpoint->read("w").bytes().data(), sizeof(w));
  EXPECT_THAT(w, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(checkpoint->info().layout, HasSubstr("1 unmerged OCDBT database"));
  EXPECT_FALSE(checkpoint->verify({}).damaged());
}

TEST(Open, TwoProcessesBeforeTheMerge) {
  const auto merged = open_orbax(golden("two_process_ocdbt_zarr2"));
  const GoldenCopy copy("two_process_ocdbt_zarr2");
  for (const char* name : {"manifest.ocdbt", "d", "commit_success.txt"}) copy.remove(name);
  EXPECT_THAT([&] { open_orbax(copy.path()); },
              FailsWith(Code::kFailedPrecondition, "were not merged"));
  const auto unmerged = open_uncommitted(copy.path());
  ASSERT_EQ(names(*unmerged), names(*merged));
  for (const auto& tensor : merged->tensors()) {
    if (!tensor.is_array()) continue;
    const Array expected = merged->read(tensor.name);
    const Array found = unmerged->read(tensor.name);
    EXPECT_EQ(as_text(found.bytes()), as_text(expected.bytes())) << tensor.name;
    EXPECT_EQ(unmerged->info(tensor.name).stored_nbytes, tensor.stored_nbytes);
  }
}

TEST(Open, PartialSaves) {
  const TempDir dir;
  const std::string pending =
      dir / "x.partial_save/x.partial_save.pending_123_0123456789abcdef0123456789abcdef";
  testing::copy_tree(golden("tiny_v1"), pending);
  fs::remove_all(pending + "/state/manifest.ocdbt");
  fs::remove_all(pending + "/state/d");
  EXPECT_THAT([&] { open_orbax(dir / "x.partial_save"); },
              FailsWith(Code::kFailedPrecondition, "a partial save that was not finalized"));
  EXPECT_TRUE(is_orbax(dir / "x.partial_save"));
  EXPECT_EQ(scalar<std::int64_t>(*open_uncommitted(dir / "x.partial_save"), "n"), 3);
  testing::copy_tree(
      pending, dir / "x.partial_save/x.partial_save.pending_124_0123456789abcdef0123456789abcdef");
  EXPECT_THAT([&] { open_uncommitted(dir / "x.partial_save"); },
              FailsWith(Code::kFailedPrecondition, "holds 2 partial saves"));
}

TEST(Open, OneProcessOfManyIsADatabaseOfItsOwn) {
  const auto checkpoint = open_orbax(golden("tiny_ocdbt_zarr2/ocdbt.process_0"));
  EXPECT_THAT(names(*checkpoint), ElementsAre("big", "n", "w"));
  EXPECT_THAT(checkpoint->info().layout,
              HasSubstr("no _METADATA: names from the database's keys, types unknown"));
}

TEST(Open, ATreeThatHasLostItsStructureComesWithAWarning) {
  for (const char* layout : {"tiny_ocdbt_zarr2", "tiny_files_zarr2", "tiny_files_zarr3"}) {
    const GoldenCopy copy(layout);
    EXPECT_THAT(open_orbax(copy.path())->info().warnings, ElementsAre());
    copy.remove("_METADATA");
    EXPECT_THAT(open_orbax(copy.path())->info().warnings,
                ElementsAre(HasSubstr(copy / "_METADATA" + " is missing: only the arrays")));
  }
  // The database of one process never had such a file.
  EXPECT_THAT(open_orbax(golden("tiny_ocdbt_zarr2/ocdbt.process_0"))->info().warnings,
              ElementsAre());
}

TEST(Open, NamesWithoutMetadataBecomeATreeIfTheyCan) {
  const auto checkpoint = open_orbax(golden("no_metadata_files"));
  EXPECT_EQ(path_text(checkpoint->info("a.b").path), "['a']['b']");
  const GoldenCopy copy("no_metadata_files");
  fs::copy(copy / "a.b", copy / "a", fs::copy_options::recursive);
  const auto flat = open_orbax(copy.path());
  EXPECT_EQ(path_text(flat->info("a.b").path), "['a.b']");
  EXPECT_EQ(flat->load().dict()->size(), 4U);
}

TEST(Open, BareZarrArraysAndFoldersOfThem) {
  const TempDir dir;
  testing::copy_tree(golden("tiny_files_zarr2/w"), dir / "group/sub/w");
  testing::copy_tree(golden("tiny_files_zarr3/n"), dir / "group/n");
  put_file(dir / "group/sub/zarr.json", R"({"zarr_format":3,"node_type":"group"})");
  put_file(dir / "group/.zgroup", R"({"zarr_format":2})");
  const auto group = open_orbax(dir / "group");
  EXPECT_EQ(group->info().format, "zarr");
  EXPECT_THAT(names(*group), ElementsAre("n", "sub/w"));
  EXPECT_EQ(path_text(group->info("sub/w").path), "['sub']['w']");
  EXPECT_EQ(scalar<std::int64_t>(*group, "n"), 3);
  EXPECT_FALSE(group->verify({}).damaged());
  const auto array = open_orbax(dir / "group/sub/w");
  EXPECT_EQ(array->info().format, "zarr");
  EXPECT_THAT(names(*array), ElementsAre(""));
  EXPECT_EQ(array->read("").shape(), (Shape{2, 3}));
  EXPECT_GT(array->info("").stored_nbytes, 0U);
}

// ---- what is broken inside must not keep the rest from opening ----

TEST(Open, AMissingArrayIsListedWithItsReason) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.remove("w");
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_THAT(names(*checkpoint), ElementsAre("big", "e", "n", "s", "w"));
  const TensorInfo& w = checkpoint->info("w");
  EXPECT_EQ(w.kind, LeafKind::kUnknown);
  EXPECT_EQ(w.typestr, "jax.Array");
  EXPECT_TRUE(w.is_array());
  EXPECT_EQ(w.error, "no array is stored under this name");
  EXPECT_THAT([&] { (void)checkpoint->read("w"); },
              FailsWith(Code::kDataLoss, "w: no array is stored"));
  EXPECT_THAT([&] { (void)checkpoint->load(); },
              FailsWith(Code::kDataLoss, "w: no array is stored"));
  EXPECT_EQ(scalar<std::int64_t>(*checkpoint, "n"), 3);
  EXPECT_THAT(fact(*checkpoint, "leaves"), HasSubstr("1 of them UNREADABLE"));
}

TEST(Open, ADamagedArrayIsListedWithItsReason) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.put("w/.zarray", "{");
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_THAT(checkpoint->info("w").error, HasSubstr("w/.zarray"));
  EXPECT_EQ(scalar<std::int64_t>(*checkpoint, "n"), 3);
}

TEST(Open, ADamagedDatabaseLeavesTheTree) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("manifest.ocdbt", "junk");
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_EQ(checkpoint->tensors().size(), 5U);
  EXPECT_THAT([&] { (void)checkpoint->read("w"); }, FailsWith(Code::kDataLoss, "manifest.ocdbt"));
  EXPECT_EQ(checkpoint->read_string(checkpoint->index("s")), "text");
  copy.remove("manifest.ocdbt");
  EXPECT_THAT(open_orbax(copy.path())->info("w").error, HasSubstr("manifest is missing"));
  copy.remove("_METADATA");
  copy.put("manifest.ocdbt", "junk");
  EXPECT_THAT([&] { open_orbax(copy.path()); }, FailsWith(Code::kDataLoss, "manifest.ocdbt"));
}

TEST(Open, ADamagedStructureIsNamed) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.edit("_METADATA", "\"key_type\": 2", "\"key_type\": 7");
  EXPECT_THAT([&] { open_orbax(copy.path()); },
              FailsWith(Code::kDataLoss, copy / "_METADATA: ('big',): key_type 7"));
}

TEST(Open, DamagedSideFilesAreFacts) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("_sharding", "{");
  copy.put("_strings.json", "[1]");
  copy.put("_CHECKPOINT_METADATA", "null");
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_THAT(fact(*checkpoint, "checkpoint metadata"), HasSubstr("unreadable"));
  EXPECT_THAT(fact(*checkpoint, "UNREADABLE"), HasSubstr("_sharding"));
  EXPECT_EQ(checkpoint->info("w").sharding, "");
  EXPECT_THAT([&] { (void)checkpoint->read_string(checkpoint->index("s")); },
              FailsWith(Code::kDataLoss, "_strings.json"));
  EXPECT_EQ(scalar<std::int64_t>(*checkpoint, "n"), 3);
  copy.remove("_strings.json");
  EXPECT_THAT(open_orbax(copy.path())->info("s").error, HasSubstr("_strings.json is missing"));
  copy.put("_strings.json", "{}");
  EXPECT_THAT(open_orbax(copy.path())->info("s").error, HasSubstr("not in _strings.json"));
}

TEST(Open, NamesCannotLeaveTheCheckpoint) {
  const GoldenCopy copy("tiny_files_zarr2", "inner/ckpt");
  testing::copy_tree(golden("tiny_files_zarr2/w"), copy.outside("inner/secret"));
  for (const char* name : {"../secret", "..", ".", "x/../../secret", "/etc", ""}) {
    const GoldenCopy fresh("tiny_files_zarr2", "ckpt");
    testing::copy_tree(golden("tiny_files_zarr2/w"), fresh.outside("secret"));
    fresh.edit("_METADATA", R"("key": "w")", std::string(R"("key": ")") + name + "\"");
    const auto checkpoint = open_orbax(fresh.path());
    EXPECT_NE(checkpoint->info(name).error, "") << name;
    EXPECT_THAT([&] { (void)checkpoint->read(name); }, FailsWith(Code::kDataLoss, "")) << name;
  }
}

TEST(Open, AMissingChunkIsAnErrorUnlessFillIsRecorded) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.remove("w/0.0");
  EXPECT_THAT([&] { (void)open_orbax(copy.path())->read("w"); }, FailsWith(Code::kDataLoss, "w"));
  copy.edit("_METADATA", "\"store_array_data_equal_to_fill_value\": true",
            "\"store_array_data_equal_to_fill_value\": false");
  const Array filled = open_orbax(copy.path())->read("w");
  EXPECT_EQ(as_text(filled.bytes()), std::string(24, '\0'));
}

TEST(Open, BytesInTheAggregateAreBytes) {
  const TempDir dir;
  put_file(dir / "ckpt/checkpoint", std::string_view("\x81\xa1"
                                                     "b\xc4\x02\x00\xff",
                                                     7));
  const auto checkpoint = open_orbax(dir / "ckpt");
  EXPECT_EQ(checkpoint->info("b").typestr, "bytes");
  EXPECT_EQ(checkpoint->info("b").shape, Shape{2});
  EXPECT_EQ(std::to_integer<int>(checkpoint->read("b").bytes()[1]), 0xff);
}

TEST(Open, AnOlderVersionOfTheDatabaseMayBeChosen) {
  OpenOptions options;
  options.version.generation = 1;
  EXPECT_EQ(scalar<std::int64_t>(*open_orbax(golden("tiny_ocdbt_zarr2"), options), "n"), 3);
  options.version.generation = 99;
  const std::string manifest = "tiny_ocdbt_zarr2/manifest.ocdbt: there is no ";
  EXPECT_THAT([&] { open_orbax(golden("tiny_ocdbt_zarr2"), options); },
              FailsWith(Code::kNotFound, manifest + "generation 99"));
  options.version = {.generation = std::nullopt, .commit_time_ns = 1};
  EXPECT_THAT([&] { open_orbax(golden("tiny_ocdbt_zarr2"), options); },
              FailsWith(Code::kNotFound, manifest));
  // Of several items those with a database are meant.
  options.version = {.generation = 1, .commit_time_ns = std::nullopt};
  EXPECT_EQ(open_orbax(golden("composite"), options)->info("array/checkpoint").error, "");
  EXPECT_THAT([&] { open_orbax(golden("tiny_files_zarr2"), options); },
              FailsWith(Code::kInvalidArgument, "has no OCDBT database"));
}

TEST(Open, AVersionOfADamagedDatabaseIsDamage) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("manifest.ocdbt", "x");
  OpenOptions options;
  options.version.generation = 1;
  EXPECT_THAT(open_orbax(copy.path(), options)->info("n").error, HasSubstr("manifest.ocdbt: "));
}

// ---- reading ----

TEST(Read, RequestsAreChecked) {
  const auto checkpoint = open_orbax(golden("tiny_ocdbt_zarr2"));
  const std::size_t w = checkpoint->index("w");
  const auto read = [&](std::size_t tensor, const Box& box, Array array) {
    const std::vector<ReadRequest> request{{tensor, box, array.mutable_view()}};
    checkpoint->read(request, {});
  };
  const Box whole = Box::whole({2, 3});
  EXPECT_THAT(
      [&] {
        read(99, whole, Array::allocate(DType::kFloat32, {2, 3}));
      },
      FailsWith(Code::kOutOfRange, "tensor index 99 is out of range: there are 5 tensors"));
  EXPECT_THAT(
      [&] {
        read(w, whole, Array::allocate(DType::kInt32, {2, 3}));
      },
      FailsWith(Code::kInvalidArgument, "destination element type int32"));
  EXPECT_THAT(
      [&] {
        read(w, whole, Array::allocate(DType::kFloat32, {3, 2}));
      },
      FailsWith(Code::kInvalidArgument, "destination shape (3, 2)"));
  EXPECT_THAT(
      [&] {
        read(w, {{1, 1}, {2, 2}}, Array::allocate(DType::kFloat32, {2, 2}));
      },
      FailsWith(Code::kOutOfRange, "w: "));
  EXPECT_THAT(
      [&] {
        read(w, {{0}, {2}}, Array::allocate(DType::kFloat32, {2}));
      },
      FailsWith(Code::kInvalidArgument, "w: box rank 1"));
  EXPECT_THAT(
      [&] {
        read(checkpoint->index("s"), {{}, {}}, Array::allocate(DType::kFloat32, {}));
      },
      FailsWith(Code::kInvalidArgument, "is not an array (kind: string)"));
  EXPECT_THAT([&] { (void)checkpoint->read_string(w); },
              FailsWith(Code::kInvalidArgument, "is not a string (kind: jax.Array)"));
  EXPECT_THAT([&] { (void)checkpoint->read_string(99); },
              FailsWith(Code::kOutOfRange, "tensor index 99"));
}

TEST(Read, BoxesAndProgress) {
  for (const char* name : {"tiny_ocdbt_zarr2", "tiny_files_zarr3"}) {
    const auto checkpoint = open_orbax(golden(name));
    float out[2] = {};
    const auto view =
        MutableArrayView{reinterpret_cast<std::byte*>(out), DType::kFloat32, 4, {2, 1}, {4, 4}};
    const std::vector<ReadRequest> request{{checkpoint->index("w"), {{0, 2}, {2, 1}}, view}};
    std::uint64_t done = 0, total = 0;
    checkpoint->read(request, [&](std::uint64_t d, std::uint64_t t) { done = d, total = t; });
    EXPECT_THAT(out, ElementsAre(2, 5));
    EXPECT_EQ(done, 8U);
    EXPECT_EQ(total, 8U);
  }
}

TEST(Read, AggregatedValues) {
  const auto checkpoint = open_orbax(golden("legacy_files"));
  EXPECT_EQ(checkpoint->read_string(checkpoint->index("text")), "hi");
  EXPECT_EQ(checkpoint->info("small").typestr, "np.ndarray");
  std::uint8_t out[2] = {};
  checkpoint->read("small", {{1}, {2}},
                   MutableArrayView{reinterpret_cast<std::byte*>(out), DType::kUint8, 1, {2}, {1}});
  EXPECT_THAT(out, ElementsAre(1, 2));
  EXPECT_THAT([&] { (void)checkpoint->view("small"); },
              FailsWith(Code::kFailedPrecondition, "cannot be mapped"));
  const VerifyReport report = checkpoint->verify({});
  EXPECT_FALSE(report.damaged());
  EXPECT_THAT(report.unprotected, ::testing::Contains("small"));
}

TEST(Read, AggregatedValuesWinOverStoredOnes) {
  const GoldenCopy copy("tiny_files_zarr2");
  // {"n": 7, "w": "PLACEHOLDER://w", "new": [1.5, None]}
  copy.put("checkpoint",
           std::string(
               "\x83\xa1n\x07\xa1w\xafPLACEHOLDER://w\xa3new\x92\xcb\x3f\xf8\0\0\0\0\0\0\xc0", 37));
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_THAT(names(*checkpoint), ElementsAre("big", "e", "n", "s", "w", "new.0", "new.1"));
  EXPECT_EQ(scalar<std::int64_t>(*checkpoint, "n"), 7);
  EXPECT_EQ(checkpoint->info("n").typestr, "scalar");
  EXPECT_EQ(checkpoint->info("w").typestr, "jax.Array");
  EXPECT_EQ(checkpoint->read("w").shape(), (Shape{2, 3}));
  EXPECT_EQ(scalar<double>(*checkpoint, "new.0"), 1.5);
  EXPECT_EQ(checkpoint->info("new.1").typestr, "None");
  EXPECT_THAT(checkpoint->load().find("new")->list()->size(), 2U);
}

TEST(Read, RawChunksAreMapped) {
  const auto checkpoint = open_orbax(golden("tiny_files_raw"));
  const Array view = checkpoint->view("big");
  EXPECT_EQ(as_text(view.bytes()), as_text(checkpoint->read("big").bytes()));
  EXPECT_THAT([] { (void)open_orbax(golden("tiny_files_zarr2"))->view("big"); },
              FailsWith(Code::kFailedPrecondition, "'big' cannot be mapped"));
  // Long values of a database lie raw in its data files; short ones are inside its nodes, which are
  // in memory.
  const auto database = open_orbax(golden("tiny_ocdbt_raw"));
  EXPECT_EQ(as_text(database->view("big").bytes()), as_text(view.bytes()));
  EXPECT_EQ(as_text(database->view("w").bytes()), as_text(database->read("w").bytes()));
}

TEST(Read, StringsUnderSlashes) {
  const GoldenCopy copy("strings_only");
  copy.edit("_METADATA", R"([{"key": "a", "key_type": 2}])", R"([{"key": "p/q", "key_type": 2}])");
  copy.put("_strings.json", R"({"b.c":"zwei","p":{"q":"nested"}})");
  const auto checkpoint = open_orbax(copy.path());
  EXPECT_EQ(checkpoint->read_string(checkpoint->index("p/q")), "nested");
  EXPECT_EQ(checkpoint->info("p/q").nbytes, 6U);
}

TEST(Info, FactsOfADatabase) {
  const auto checkpoint = open_orbax(golden("direct_ocdbt_zarr3"));
  EXPECT_THAT(fact(*checkpoint, "OCDBT generation"), HasSubstr("1, committed 20"));
  EXPECT_THAT(fact(*checkpoint, "OCDBT config"),
              HasSubstr("single manifest, values up to 1024 bytes inline"));
  EXPECT_EQ(fact(*checkpoint, "PRNG key 'key'"), "threefry2x32");
  EXPECT_EQ(fact(*checkpoint, "PRNG key 'keys'"), "rbg");
  EXPECT_EQ(fact(*checkpoint, "use_ocdbt"), "true");
  EXPECT_EQ(fact(*checkpoint, "use_zarr3"), "true");
  EXPECT_EQ(fact(*checkpoint, "missing chunks"), "are errors");
  EXPECT_THAT(fact(*checkpoint, "committed"), HasSubstr("UTC"));
  EXPECT_THAT(fact(*checkpoint, "handler"), HasSubstr("PyTreeCheckpointHandler"));
  EXPECT_EQ(checkpoint->info().custom_metadata, "");
  EXPECT_THAT(checkpoint->info().item_metadata,
              ::testing::ElementsAre(std::pair("", R"({"lr":0.5,"tags":["a",null]})")));
  EXPECT_THAT(checkpoint->info("params.dense.kernel").sharding, HasSubstr("SingleDeviceSharding"));
  EXPECT_EQ(checkpoint->info("host").sharding, "");
  EXPECT_EQ(fact(*open_orbax(golden("old_metadata")), "use_ocdbt"), "not recorded");
  EXPECT_EQ(fact(*open_orbax(golden("rich_types")), "rich types"),
            "recorded (value_metadata_tree)");
}

TEST(Info, StoredSizes) {
  // 1040 bytes that do not compress, as one chunk of a file.
  EXPECT_EQ(open_orbax(golden("tiny_files_raw"))->info("big").stored_nbytes, 1040U);
  EXPECT_EQ(open_orbax(golden("tiny_ocdbt_raw"))->info("big").stored_nbytes, 1040U);
  EXPECT_EQ(open_orbax(golden("tiny_ocdbt_raw"))->info("w").stored_nbytes, 24U);
  EXPECT_EQ(open_orbax(golden("tiny_ocdbt_raw"))->info("e").stored_nbytes, 0U);
  const auto odd = open_orbax(golden("direct_ocdbt_zarr3"));
  EXPECT_GT(odd->info("odd keys.sl/ash").stored_nbytes, 0U);
  EXPECT_GT(open_orbax(golden("v1_bare_leaf"))->info("").stored_nbytes, 0U);
}

}  // namespace
}  // namespace cairn
