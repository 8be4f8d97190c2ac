// save_fault_test.cc -- every system call that changes files fails once, in every kind of save: the
// error says what and why, the target is absent or whole, nothing is left that `clean` does not
// remove, no descriptor leaks, and the next save succeeds.
#include <cairn/base/executor.h>
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tests/support/fail_at.h"
#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::Faulted;
using cairn::testing::kShortWrite;
using cairn::testing::run_and_fail_at;
using cairn::testing::same_bytes;
using cairn::testing::TempDir;
using ::testing::HasSubstr;

constexpr std::int64_t kFew = 700;
constexpr std::int64_t kMany = 700'000;  // more than is gathered before it goes past the page cache

Tree make_tree(int number, std::int64_t elements) {
  Array array = Array::allocate(DType::kInt64, {elements});
  auto* values = reinterpret_cast<std::int64_t*>(array.mutable_view().data);
  for (std::int64_t i = 0; i < elements; ++i) values[i] = number * 1'000'000 + i;
  return Tree(Tree::Dict{
      {"n", Tree(std::int64_t{number})}, {"w", Tree(std::move(array))}, {"z", Tree(Tree::Dict{})}});
}

// Each is made once: what costs time here is to be the saves.
const Tree& tree_of(int number, std::int64_t elements = kFew) {
  static std::map<std::pair<int, std::int64_t>, Tree> made;
  const auto [it, is_new] = made.try_emplace({number, elements});
  if (is_new) it->second = make_tree(number, elements);
  return it->second;
}

// The number of the tree that is there, every byte of it; 0: nothing is.
int number_at(const std::string& path) {
  if (!file_exists(path)) return 0;
  const auto opened = open(path);
  EXPECT_FALSE(opened->verify({}).damaged());
  const Tree tree = opened->load();
  const Array* values = tree.find("w")->array();
  const auto first = reinterpret_cast<const std::int64_t*>(values->bytes().data())[0];
  const auto number = static_cast<int>(first / 1'000'000);
  EXPECT_TRUE(same_bytes(values->bytes(),
                         tree_of(number, values->shape().at(0)).find("w")->array()->bytes()));
  return number;
}

// A way of writing tree `number` into a folder, over what is there, and of finding out which one is
// there.
struct Way {
  const char* name;
  bool replaces;
  std::function<void(const std::string& folder, int number)> write;
  std::function<int(const std::string& folder)> read;
  bool on_disk = false;  // rather than in memory
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

Way orbax(const char* name, bool replaces, SaveOptions options) {
  options.resources.threads = 1;
  options.if_exists = IfExists::kReplace;
  return {name, replaces,
          [options](const std::string& folder, int number) {
            save(folder + "/ckpt", tree_of(number), options);
          },
          [](const std::string& folder) { return number_at(folder + "/ckpt"); }};
}

const std::string& source_of(int number) {
  static const TempDir dir = TempDir::in_memory();
  static std::map<int, std::string> made;
  std::string& path = made[number];
  if (path.empty()) {
    save(dir / std::to_string(number), tree_of(number));
    path = dir / std::to_string(number);
  }
  return path;
}

void write_file(const std::string& target, int number, std::optional<std::uint64_t> shard_bytes) {
  const auto source = open(source_of(number));
  convert(*source, target,
          {.skip_unsupported = true,
           .if_exists = IfExists::kReplace,
           .safetensors = {.max_shard_bytes = shard_bytes}});
}

// Those files are the same for the same tree, so their bytes say which one it is; a part of a set
// is -1.
int number_of_files(const std::string& folder, const std::string& target,
                    std::optional<std::uint64_t> shard_bytes) {
  const auto contents = [](const std::string& path) {
    std::map<std::string, Bytes> files;
    for (const auto& name : list_directory(path).files)
      if (!is_temporary_name(name)) files.emplace(name, read_file(join(path, name)));
    return files;
  };
  const auto found = contents(folder);
  if (found.empty()) return 0;
  for (const int number : {1, 2, 3}) {
    const TempDir whole = TempDir::in_memory();
    write_file(join(whole.path(), target), number, shard_bytes);
    if (contents(whole.path()) == found) return number;
  }
  return -1;
}

Way file(const char* name, bool replaces, const std::string& target,
         std::optional<std::uint64_t> shard_bytes = {}) {
  return {name, replaces,
          [=](const std::string& folder, int number) {
            write_file(join(folder, target), number, shard_bytes);
          },
          [=](const std::string& folder) { return number_of_files(folder, target, shard_bytes); }};
}

// Where the call's failure takes nothing from what was written: what cannot be linked is copied, a
// lock file that stays is taken over by the next writer, and what is not sent to the disk early is
// synced later.
bool is_harmless(const std::string& call) {
  if (call.starts_with("sync_file_range(") || call.starts_with("link(") ||
      testing::is_about_a_save_lock(call))
    return true;
  return (call.starts_with("unlink(") || call.starts_with("close(")) &&
         call.find(".__lock") != std::string::npos;
}

class SaveFault : public ::testing::TestWithParam<std::tuple<Way, int>> {
 protected:
  const Way& way() const { return std::get<0>(GetParam()); }
  int error() const { return std::get<1>(GetParam()); }

  // What the one who asked for it is told.
  void expect_clear(const Faulted& result, const std::string& folder) const {
    ASSERT_TRUE(result.ended);
    EXPECT_EQ(result.descriptors_left, 0);
    if (!result.error) {
      EXPECT_TRUE(error() == kShortWrite || error() == EINTR || is_harmless(result.call))
          << "success, as if nothing had been";
      return;
    }
    EXPECT_NE(error(), kShortWrite) << "the rest was not written: " << result.error->message();
    EXPECT_EQ(result.error->code(), Code::kIo) << result.error->message();
    EXPECT_THAT(result.error->message(), HasSubstr(folder));
    EXPECT_THAT(result.error->message(), HasSubstr(std::strerror(error())));
  }
  // Which tree is there: the new one only if nobody was told that it is not.
  void expect_whole(const Faulted& result, int found, const std::string& folder) const {
    const bool in_place =
        !result.error || result.error->message().find("in place") != std::string::npos;
    // A set that is in place before it has its final names is whole all the same.
    if (in_place && found < 0) {
      const TempDir whole = TempDir::in_memory();
      convert(*open(folder + "/out.safetensors.index.json"), whole / "found.safetensors", {});
      write_file(whole / "wanted.safetensors", 2, {});
      EXPECT_EQ(read_file(whole / "found.safetensors"), read_file(whole / "wanted.safetensors"));
      return;
    }
    EXPECT_EQ(found, in_place         ? 2
                     : way().replaces ? 1
                                      : 0)
        << (result.error ? result.error->message() : "success");
  }
};

// The code handles all errors alike, but repeats the call after EINTR. Under a sanitizer, all calls
// fail with one error only, and all writes are cut short.
int step_of(int error) { return error == ENOSPC || error == kShortWrite ? 1 : testing::kKillStep; }

TEST_P(SaveFault, IsToldAndLeavesTheTargetAbsentOrWhole) {
  (void)source_of(2);
  // its threads stay behind in the fork: the child works alone
  default_executor().for_each(2, [](std::size_t) {});
  {
    // UBSan looks at the first object of each class through a pipe, with system calls of its own.
    const TempDir dir = TempDir::in_memory();
    way().write(dir.path(), 2);
  }
  std::set<std::string> failed;
  for (int n = 0;; n += step_of(error())) {
    const TempDir dir = way().on_disk ? TempDir() : TempDir::in_memory();
    if (way().replaces) way().write(dir.path(), 1);
    const Faulted result = run_and_fail_at(n, error(), [&] { way().write(dir.path(), 2); });
    SCOPED_TRACE(std::to_string(n) + ": " + result.call);
    if (!result.injected) {
      EXPECT_EQ(way().read(dir.path()), 2)
          << (result.error ? result.error->message() : "the child ended without a report");
      break;
    }
    failed.insert(result.call.substr(0, result.call.find('(')));
    expect_clear(result, dir.path());
    const int found = way().read(dir.path());
    expect_whole(result, found, dir.path());
    clean_leftovers(dir.path());
    // A set that is whole under the names of interim files gets its final names.
    const int cleaned = way().read(dir.path());
    EXPECT_TRUE(cleaned == found || (found < 0 && cleaned == 2 && way().replaces)) << cleaned;
    EXPECT_LE(list_directory(dir.path()).folders.size(), 1U);
    way().write(dir.path(), 3);
    EXPECT_EQ(way().read(dir.path()), 3);
    if (HasFailure()) return;
  }
  // That the harness sees what it is there for. Steps may pass over a call of which there are few.
  ASSERT_FALSE(failed.empty());
  if (step_of(error()) > 1) return;
  EXPECT_TRUE(failed.contains("pwrite64") || failed.contains("pwritev") ||
              failed.contains("write"));
  if (error() == kShortWrite) return;
  for (const char* call : {"openat", "fsync", "close"}) EXPECT_TRUE(failed.contains(call)) << call;
}

std::string name_of_error(int error) {
  switch (error) {
    case ENOSPC:
      return "ENOSPC";
    case EIO:
      return "EIO";
    case EACCES:
      return "EACCES";
    case EDQUOT:
      return "EDQUOT";
    case EINTR:
      return "EINTR";
    default:
      return "short";
  }
}

// Raw values, of a size that is written past the page cache where the file system has that.
Way large(const char* name, SaveOptions options) {
  Way way = orbax(name, false, options);
  options.resources.threads = 1;
  options.if_exists = IfExists::kReplace;
  options.compression = Compression::kNone;
  way.write = [options](const std::string& folder, int number) {
    save(folder + "/ckpt", tree_of(number, kMany), options);
  };
  way.on_disk = true;
  return way;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SaveFault,
    ::testing::Combine(
        ::testing::Values(
            orbax("ocdbt", false, {}), large("ocdbt_large", {}),
            large("folders_large", {.use_ocdbt = false}), orbax("ocdbt_replaced", true, {}),
            orbax("zarr3", false, {.use_zarr3 = true, .item = "default"}),
            orbax("folders", false, {.use_ocdbt = false}),
            orbax("folders_replaced", true, {.use_ocdbt = false}),
            orbax("v1_replaced", true, {.use_zarr3 = true, .item = "state", .v1 = true}),
            file("safetensors", false, "out.safetensors"),
            file("safetensors_replaced", true, "out.safetensors"),
            file("safetensors_set", false, "out.safetensors", 4000),
            file("safetensors_set_replaced", true, "out.safetensors", 4000),
            file("npz", false, "out.npz"), file("npz_replaced", true, "out.npz")),
        ::testing::Values(ENOSPC, EIO, EACCES, EDQUOT, EINTR, kShortWrite)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" +
             name_of_error(std::get<1>(test.param));
    });

class CompactFault : public ::testing::TestWithParam<int> {};

TEST_P(CompactFault, KeepsTheCheckpointWhole) {
  SaveOptions many_files;
  many_files.resources.threads = 1;
  many_files.target_file_bytes = 1000;
  for (int n = 0;; n += step_of(GetParam())) {
    const TempDir dir = TempDir::in_memory();
    const std::string path = dir / "ckpt";
    save(path, tree_of(1), many_files);
    const Faulted result = run_and_fail_at(n, GetParam(), [&] { compact_databases(path); });
    SCOPED_TRACE(std::to_string(n) + ": " + result.call);
    ASSERT_TRUE(result.ended);
    EXPECT_EQ(result.descriptors_left, 0);
    EXPECT_EQ(number_at(path), 1);
    if (!result.injected) {
      EXPECT_GT(n, GetParam() == kShortWrite ? 1 : 10);
      return;
    }
    if (result.error) {
      EXPECT_NE(GetParam(), kShortWrite);
      EXPECT_EQ(result.error->code(), Code::kIo);
      EXPECT_THAT(result.error->message(), HasSubstr(path));
      EXPECT_THAT(result.error->message(), HasSubstr(std::strerror(GetParam())));
    } else {
      EXPECT_TRUE(GetParam() == kShortWrite || GetParam() == EINTR || is_harmless(result.call));
    }
    clean_leftovers(path);
    compact_databases(path, {.remove_orphans = true});
    EXPECT_EQ(number_at(path), 1);
    EXPECT_EQ(list_directory(path + "/d").files.size(), 1U);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, CompactFault,
                         ::testing::Values(ENOSPC, EIO, EACCES, EDQUOT, EINTR, kShortWrite),
                         [](const auto& test) { return name_of_error(test.param); });

// Only a synced save calls the functions of the kernel that wait for the disk.
TEST(SaveCalls, ACheckpointerSyncsUnlessItIsToldNotTo) {
  const auto syncs = [](Durability durability) {
    const TempDir dir;
    const auto calls = testing::recorded_calls([&] {
      Checkpointer(PyTreeCheckpointHandlerOptions{.durability = durability})
          .save(dir / "c", {.item = tree_of(1)});
    });
    return std::ranges::count_if(calls, [](const std::string& call) {
      return call.starts_with("fsync(") || call.starts_with("fdatasync(");
    });
  };
  EXPECT_GT(syncs(Durability::kSynced), 0);
  EXPECT_EQ(syncs(Durability::kUnsynced), 0);
}

}  // namespace
}  // namespace cairn::orbax
