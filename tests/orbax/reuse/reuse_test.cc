// reuse_test.cc -- steps that share the files of what did not change: what is shared and what is
// not, that every step is whole without the others, and that nothing damaged is ever shared.
#include <cairn/checkpoint_manager.h>
#include <cairn/inspect.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/steps.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/orbax/reuse/reuse_support.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

namespace fs = std::filesystem;
using cairn::testing::bytes_read;
using cairn::testing::FailsWith;
using cairn::testing::inodes_below;
using cairn::testing::noise;
using cairn::testing::OpenCounter;
using cairn::testing::pattern;
using cairn::testing::Report;
using cairn::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kLarge = (std::int64_t{4} << 20U) / 4 + 1000;  // elements: a file of its own
constexpr std::int64_t kSmall = 3000;

struct Layout {
  const char* name;
  bool ocdbt, zarr3, compression;
};

CheckpointManagerOptions options_for(const Layout& layout, Report& report) {
  CheckpointManagerOptions options{.enable_async_checkpointing = false};
  options.handler.reuse = Reuse::kUnchanged;
  options.handler.use_ocdbt = layout.ocdbt;
  options.handler.use_zarr3 = layout.zarr3;
  options.handler.use_compression = layout.compression;
  options.handler.observer = report.observer();
  return options;
}

// A frozen part, and one that each step changes.
Tree model(std::uint64_t step) {
  return Tree{
      {"frozen", Tree{{"a", noise(kLarge, 1)}, {"b", noise(kLarge, 2)}, {"c", pattern(kLarge, 3)}}},
      {"trained", Tree{{"x", noise(kSmall, 100 + step)}, {"y", noise(kLarge, 200 + step)}}},
      {"step", static_cast<std::int64_t>(step)}};
}

class ReuseLayout : public ::testing::TestWithParam<Layout> {
 protected:
  TempDir dir_ = TempDir::in_memory();
  std::string root_ = dir_ / "run";
  Report report_;
};

TEST_P(ReuseLayout, EachStepIsWholeWithoutTheOthers) {
  {
    CheckpointManager manager(root_, options_for(GetParam(), report_));
    for (const std::int64_t step : {1, 2, 3, 4}) {
      manager.save(step, PyTreeSaveArgs{model(static_cast<std::uint64_t>(step))});
      EXPECT_EQ(report_.values, step == 1 ? 0 : 3);
    }
    EXPECT_GT(report_.bytes, 2 * 4 * kLarge);
    EXPECT_THAT(report_.refusals, IsEmpty());
  }
  const auto steps = read_steps(root_);
  for (const StepRecord& step : steps) {
    EXPECT_LT(step.unique_nbytes, 6U << 20U) << step.step;  // without a, b and c
    EXPECT_GT(step.nbytes, 12U << 20U) << step.step;
  }
  for (const std::int64_t step : {4, 3, 2, 1}) {
    const std::string kept = dir_ / std::to_string(step);
    fs::copy(root_, kept, fs::copy_options::recursive);  // copies have files of their own
  }
  for (const std::int64_t step : {1, 2, 3, 4}) {
    const std::string kept = dir_ / std::to_string(step);
    for (const std::int64_t other : {1, 2, 3, 4})
      if (other != step) fs::remove_all(kept + "/" + std::to_string(other));
    EXPECT_EQ(load(kept), model(static_cast<std::uint64_t>(step)));
    EXPECT_FALSE(verify(kept).damaged());
  }
  for (const std::int64_t step : {2, 1, 3}) fs::remove_all(root_ + "/" + std::to_string(step));
  EXPECT_EQ(load(root_), model(4));
}

// The second manager knows nothing, and compares with what is stored.
TEST_P(ReuseLayout, AnotherProcessSharesToo) {
  CheckpointManager(root_, options_for(GetParam(), report_)).save(1, PyTreeSaveArgs{model(1)});
  CheckpointManager(root_, options_for(GetParam(), report_)).save(2, PyTreeSaveArgs{model(2)});
  EXPECT_EQ(report_.values, 3);
  EXPECT_EQ(load(root_), model(2));
}

// The codecs and the values that are shared both come from the step before.
TEST_P(ReuseLayout, TheDatabaseBeforeIsOpenedOnce) {
  if (!GetParam().ocdbt) return;
  PyTreeCheckpointHandlerOptions options = options_for(GetParam(), report_).handler;
  options.compression = Compression::kAuto;  // asks which codecs the earlier item has
  Checkpointer(options).save(dir_ / "1", {.item = model(1)});
  const OpenCounter opens(dir_ / "1/manifest.ocdbt");
  Checkpointer(options).save(dir_ / "2", {.item = model(2), .reuse_from = dir_ / "1"});
  EXPECT_EQ(report_.values, 3);
  EXPECT_EQ(opens.count(), 1U);
}

// Orbax, and Cairn with other methods, have zstd also where it saves nothing.
TEST_P(ReuseLayout, ValuesThatAreStoredWithZstdAreSharedToo) {
  CheckpointManagerOptions options = options_for(GetParam(), report_);
  options.handler.compression = Compression::zstd(GetParam().zarr3 ? 3 : 1);  // the default
  CheckpointManager(root_, options).save(1, PyTreeSaveArgs{model(1)});
  options.handler.compression = Compression::kAuto;
  for (const std::int64_t step : {2, 3}) {
    CheckpointManager(root_, options)
        .save(step, PyTreeSaveArgs{model(static_cast<std::uint64_t>(step))});
    EXPECT_EQ(report_.values, 3) << step;
    EXPECT_EQ(load(root_), model(static_cast<std::uint64_t>(step)));
  }
}

void flip_a_bit(const std::string& file, std::uint64_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte ^ 0x08));
}

// Damages every file of the step before, or only the large ones, which hold nothing but values.
TEST_P(ReuseLayout, NothingDamagedIsShared) {
  const Tree the_same = model(1);
  for (const bool same_manager : {true, false})
    for (const bool only_values : {true, false})
      for (const std::uint64_t at : {1, 20, 70'000, 4'000'000}) {
        const TempDir dir = TempDir::in_memory();
        const std::string root = dir / "run";
        auto manager = std::make_unique<CheckpointManager>(root, options_for(GetParam(), report_));
        manager->save(1, PyTreeSaveArgs{the_same});
        int flipped = 0;
        for (const auto& [name, inode] : inodes_below(root + "/1/default")) {
          const std::string file = root + "/1/default/" + name;
          if (only_values && fs::file_size(file) < 4 * kLarge) continue;
          flip_a_bit(file, at % fs::file_size(file));
          ++flipped;
        }
        EXPECT_GE(flipped, 3);
        report_.values = 0;
        if (!same_manager)
          manager = std::make_unique<CheckpointManager>(root, options_for(GetParam(), report_));
        manager->save(2, PyTreeSaveArgs{the_same});
        EXPECT_LE(report_.values, only_values ? 3 : 0);  // what is not in a large file
        fs::remove_all(root + "/1");
        EXPECT_EQ(load(root), the_same);
        EXPECT_FALSE(verify(root).damaged());
      }
}

TEST_P(ReuseLayout, OtherTypesAndShapesAreNotShared) {
  const auto of_shape = [](DType dtype, Shape shape) {
    Array array = Array::allocate(dtype, std::move(shape));
    const Tree same = noise(static_cast<std::int64_t>(array.bytes().size()) / 4, 1);
    std::ranges::copy(same.array()->bytes(), array.mutable_view().data);
    return Tree(std::move(array));
  };
  CheckpointManager manager(root_, options_for(GetParam(), report_));
  std::int64_t step = 0;
  for (const DType dtype : {DType::kUint32, DType::kInt32, DType::kFloat32, DType::kUint64})
    for (const Shape& shape : {Shape{200, 100}, Shape{100, 200}, Shape{20000}}) {
      const Tree tree{{"x", of_shape(dtype, shape)}};
      report_.values = 0;
      manager.save(++step, PyTreeSaveArgs{tree});
      EXPECT_EQ(report_.values, 0);
      manager.save(++step, PyTreeSaveArgs{tree});
      EXPECT_EQ(report_.values, 1);
      EXPECT_EQ(load(root_), tree);
    }
}

TEST_P(ReuseLayout, CompactingAStepLeavesTheOthers) {
  CheckpointManager manager(root_, options_for(GetParam(), report_));
  manager.save(1, PyTreeSaveArgs{model(1)});
  manager.save(2, PyTreeSaveArgs{model(2)});
  if (GetParam().ocdbt) {
    (void)compact_databases(root_ + "/2");
    (void)compact_databases(root_ + "/1", {.remove_orphans = true});
  }
  clean_leftovers(root_);
  EXPECT_EQ(load(root_ + "/1"), model(1));
  EXPECT_EQ(load(root_ + "/2"), model(2));
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReuseLayout,
                         ::testing::Values(Layout{"ocdbt_zarr2", true, false, true},
                                           Layout{"ocdbt_zarr3", true, true, true},
                                           Layout{"ocdbt_raw", true, false, false},
                                           Layout{"folders_zarr2", false, false, true},
                                           Layout{"folders_zarr3", false, true, true}),
                         [](const auto& layout) { return layout.param.name; });

CheckpointManagerOptions default_options(Report& report) {
  return options_for({"", true, false, true}, report);
}

TEST(Reuse, AManagerDoesNotReadWhatItHasSaved) {
  const TempDir dir = TempDir::in_memory();
  Report report;
  CheckpointManager manager(dir / "run", default_options(report));
  manager.save(1, PyTreeSaveArgs{model(1)});
  for (const std::int64_t step : {2, 3}) {  // step 3 shares what step 2 has shared
    const std::int64_t before = bytes_read();
    manager.save(step, PyTreeSaveArgs{model(1)});
    EXPECT_LT(bytes_read() - before, std::int64_t{1} << 20U);
    EXPECT_EQ(report.values, 5);  // all but the number
  }
  EXPECT_EQ(load(dir / "run"), model(1));
}

// A file of small values that are mostly new is not kept alive for the others.
TEST(Reuse, AFileThatIsMostlyNotNeededIsNotShared) {
  for (const int changed : {3, 8}) {
    const TempDir dir = TempDir::in_memory();
    Report report;
    CheckpointManagerOptions options = default_options(report);
    options.handler.resources.threads = 1;  // one data file
    CheckpointManager manager(dir / "run", options);
    const auto tree = [](int fresh) {
      Tree::Dict dict;
      for (int i = 0; i < 10; ++i)
        dict.emplace_back("x" + std::to_string(i), noise(50'000, i < fresh ? 100 + i : i));
      return Tree(std::move(dict));
    };
    manager.save(1, PyTreeSaveArgs{tree(0)});
    manager.save(2, PyTreeSaveArgs{tree(changed)});
    EXPECT_EQ(report.values, changed == 3 ? 7 : 0);
    const auto files = inodes_below(dir / "run/2/default/d");
    EXPECT_EQ(files.size(), changed == 3 ? 2U : 1U);
    fs::remove_all(dir / "run/1");
    EXPECT_EQ(load(dir / "run"), tree(changed));
  }
}

TEST(Reuse, ValuesThatAreCastOrInSeveralChunksAreCompared) {
  const TempDir dir = TempDir::in_memory();
  for (const bool ocdbt : {true, false}) {
    Report report;
    PyTreeCheckpointHandlerOptions options = options_for({"", ocdbt, true, true}, report).handler;
    options.resources.threads = 1;  // one data file
    const auto with = [](const Tree& x, const Tree& y) { return Tree{{"x", x}, {"y", y}}; };
    const auto leaf = [](SaveArgs args) { return Tree(CustomLeaf::of(std::move(args))); };
    const Tree args =
        with(leaf({.dtype = DType::kFloat64}),
             leaf({.write_chunk_shape = Shape{5000}, .read_chunk_shape = Shape{500}}));
    const std::string first = dir / (ocdbt ? "a1" : "b1"), second = dir / (ocdbt ? "a2" : "b2");
    const Tree x = noise(40'000, 1), y = noise(20'000, 2);
    Checkpointer(options).save(first, {.item = with(x, y), .save_args = args});
    const ByteView stored = y.array()->bytes();
    Bytes bytes(stored.begin(), stored.end());
    bytes[4 * 12'345] ^= std::byte{1};
    const Tree now =
        with(x, Tree(Array::from<std::uint32_t>(
                    {reinterpret_cast<const std::uint32_t*>(bytes.data()), 20'000}, {20'000})));
    Checkpointer(options).save(second, {.item = now, .save_args = args, .reuse_from = first});
    EXPECT_EQ(report.values, 1 + 3);  // x, and the chunks of y without the changed one
    fs::remove_all(first);
    EXPECT_EQ(load(second).at("y"), now.at("y"));
  }
}

TEST(Reuse, SourcesThatCannotBeUsedAreReported) {
  const TempDir dir = TempDir::in_memory();
  const Tree tree = model(1);
  Report report;
  const PyTreeCheckpointHandlerOptions options = default_options(report).handler;
  Checkpointer checkpointer(options);
  Checkpointer(options_for({"", false, false, true}, report).handler)
      .save(dir / "folders", PyTreeSaveArgs{tree});
  testing::put_file(dir / "file", "x");
  fs::create_directories(dir / "empty");
  int n = 0;
  const auto reports = [&](const std::string& from, const char* why) {
    const std::string path = dir / std::to_string(++n);
    report.refusals.clear();
    checkpointer.save(path, {.item = tree, .reuse_from = from});
    EXPECT_THAT(report.refusals, ElementsAre(HasSubstr(why)));
    EXPECT_EQ(load(path), tree);
  };
  reports(dir / "none", "none");
  reports(dir / "file", "file");
  reports(dir / "empty", "empty");
  reports(dir / "folders", "has no database");
}

TEST(Reuse, OtherFileSystemsAreWrittenTo) {
  const TempDir here, there = TempDir::in_memory();
  struct stat a {
  }, b{};
  ASSERT_EQ(stat(here.path().c_str(), &a) + stat(there.path().c_str(), &b), 0);
  Report report;
  Checkpointer checkpointer(default_options(report).handler);
  checkpointer.save(here / "1", PyTreeSaveArgs{model(1)});
  checkpointer.save(there / "2", {.item = model(1), .reuse_from = here / "1"});
  if (a.st_dev != b.st_dev) {
    EXPECT_EQ(report.values, 0);
    EXPECT_THAT(report.refusals, ElementsAre(HasSubstr("cannot link it: Invalid cross-device")));
  } else {
    EXPECT_EQ(report.values, 5);
  }
  EXPECT_EQ(load(there / "2"), model(1));
}

TEST(Reuse, ACheckpointMayReplaceItsSource) {
  const TempDir dir = TempDir::in_memory();
  Report report;
  Checkpointer checkpointer(default_options(report).handler);
  for (const std::uint64_t n : {1, 2, 3}) {
    checkpointer.save(dir / "x", {.item = model(n), .reuse_from = n == 1 ? "" : dir / "x"},
                      {.if_exists = IfExists::kReplace});
    EXPECT_EQ(report.values, n == 1 ? 0 : 3);
    EXPECT_EQ(load(dir / "x"), model(n));
  }
}

TEST(Reuse, ItemsShareWithTheItemOfTheirName) {
  const TempDir dir = TempDir::in_memory();
  Report report;
  CheckpointManagerOptions options = default_options(report);
  options.enable_async_checkpointing = true;
  CheckpointManager manager(dir / "run", options);
  for (const std::int64_t step : {1, 2}) {
    manager.save(step, {{"b", PyTreeSaveArgs{Tree{{"x", noise(kLarge, 1)}}}},
                        {"a", PyTreeSaveArgs{Tree{{"x", noise(kLarge, 2)}}}}});
    manager.wait_until_finished();
    EXPECT_EQ(report.values, step == 1 ? 0 : 1);
  }
  EXPECT_EQ(manager.restore(2, {}, "a"), (Tree{{"x", noise(kLarge, 2)}}));
  EXPECT_EQ(manager.restore(2, {}, "b"), (Tree{{"x", noise(kLarge, 1)}}));
  EXPECT_LT(read_steps(dir / "run").back().unique_nbytes, 1U << 16U);
}

TEST(Reuse, OptionsThatDoNotGoTogether) {
  const TempDir dir = TempDir::in_memory();
  EXPECT_THAT([&] { Checkpointer().save(dir / "x", {.item = model(1), .reuse_from = dir / "y"}); },
              FailsWith(Code::kInvalidArgument, "the handler's option reuse"));
  EXPECT_THAT([&] { cairn::save(dir / "x", model(1), {.reuse_from = dir / "y"}); },
              FailsWith(Code::kInvalidArgument, "the option reuse"));
}

TEST(Reuse, SaveSharesWithANamedCheckpoint) {
  const TempDir dir = TempDir::in_memory();
  for (const bool ocdbt : {true, false}) {
    Report report;
    const std::string first = dir / (ocdbt ? "a1" : "b1"), second = dir / (ocdbt ? "a2" : "b2");
    SaveOptions options{.use_ocdbt = ocdbt, .item = "state", .reuse = Reuse::kUnchanged};
    cairn::save(first, model(1), options);
    options.reuse_from = "file://" + first;
    options.observer = report.observer();
    cairn::save(second, model(2), options);
    EXPECT_EQ(report.values, 3);
    EXPECT_THAT(report.refusals, IsEmpty());
    fs::remove_all(first);
    EXPECT_EQ(load(second), model(2));
  }
}

// A file outside the checkpoint may be one that somebody writes to. Cairn reads it through the
// link, but does not make it a part of the new checkpoint.
TEST(Reuse, FilesBehindSymbolicLinksAreWrittenAnew) {
  const TempDir dir = TempDir::in_memory();
  for (const bool ocdbt : {true, false}) {
    Report report;
    const PyTreeCheckpointHandlerOptions options =
        options_for({"", ocdbt, false, true}, report).handler;
    const std::string first = dir / (ocdbt ? "a1" : "b1"), second = dir / (ocdbt ? "a2" : "b2");
    Checkpointer(options).save(first, {.item = model(1)});
    std::string moved;
    for (const auto& [name, inode] : inodes_below(first))
      if (fs::file_size(first + "/" + name) > 4 * kLarge) moved = name;
    fs::rename(first + "/" + moved, dir / "elsewhere");
    fs::create_symlink(dir / "elsewhere", first + "/" + moved);
    Checkpointer(options).save(second, {.item = model(1), .reuse_from = first});
    EXPECT_EQ(report.values, ocdbt ? 4 : 5);  // a number is a file, or in a node
    EXPECT_THAT(report.refusals, ElementsAre(HasSubstr("not a regular file")));
    EXPECT_EQ(fs::hard_link_count(dir / "elsewhere"), 1U);
    for (const auto& entry : fs::recursive_directory_iterator(second))
      EXPECT_FALSE(entry.is_symlink()) << entry.path();
    EXPECT_EQ(load(second), model(1));
    fs::remove(dir / "elsewhere");
  }
}

}  // namespace
}  // namespace cairn::orbax
