// replace_crash_test.cc -- files of each format are replaced, by one file or by a set, and the
// process is killed at every system call that changes files: the old or the new checkpoint is
// there, whole, and the next save succeeds and leaves nothing behind.
#include <cairn/array/box.h>
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <cairn/msgpack.h>
#include <cairn/npz.h>
#include <cairn/safetensors.h>
#include <cairn/tensor_source.h>
#include <cairn/tensorflow.h>
#include <gmock/gmock.h>

#include <set>

#include "tests/support/kill_at.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::Ended;
using testing::run_and_kill_at;
using testing::TempDir;

constexpr std::int64_t kElements = 40;
constexpr std::int64_t kTensors = 3;
constexpr std::uint64_t kTensorBytes = kElements * 8;

struct Case {
  const char* name;
  const char* file;
  int old_files, new_files;  // how many tensors share a file follows
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

bool is(const Case& c, const char* ending) { return std::string_view(c.file).ends_with(ending); }

// All values of all tensors are `number`.
void write(const Case& c, const std::string& path, std::int64_t number, int files) {
  const std::vector<std::int64_t> values(kElements, number);
  const ArrayView view = make_view(std::as_bytes(std::span(values)), DType::kInt64, {kElements});
  const FetchFn fetch = fetch_from(std::vector<ArrayView>(kTensors, view));
  std::vector<TensorSource> tensors;
  std::vector<TensorFlowSource> keys;
  Tree::Dict dict;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    tensors.push_back({"t" + std::to_string(i), DType::kInt64, {kElements}, 0});
    TensorFlowSource& key = keys.emplace_back();
    key.key = tensors.back().name;
    key.dtype = DType::kInt64;
    key.shape = {kElements};
    key.device = "/job:w/task:" + std::to_string(i % files);
    dict.emplace_back(tensors.back().name, Tree(number));
  }
  if (is(c, ".npz")) return write_npz(path, tensors, fetch, {.if_exists = IfExists::kReplace});
  if (is(c, ".msgpack"))
    return write_msgpack(path, Tree(std::move(dict)), {.if_exists = IfExists::kReplace});
  if (is(c, ".safetensors")) {
    SafetensorsWriteOptions options{.if_exists = IfExists::kReplace};
    if (files > 1)
      options.max_shard_bytes = kTensorBytes * static_cast<std::uint64_t>(files == 2 ? 2 : 1);
    write_safetensors(path, tensors, fetch, options);
  } else {
    write_tensorflow(path, keys, fetch, {.object_graph = false, .if_exists = IfExists::kReplace});
  }
}

// The number that all values are, and have their checksums; 0: nothing is there.
std::int64_t number_at(const std::string& path) {
  const auto opened = open(path);
  EXPECT_FALSE(opened->verify({}).damaged());
  std::set<std::int64_t> numbers;
  std::size_t arrays = 0;
  for (const TensorInfo& tensor : opened->tensors()) {
    const Array array = opened->read(tensor.name);
    for (std::size_t i = 0; i < array.bytes().size() / 8; ++i)
      numbers.insert(reinterpret_cast<const std::int64_t*>(array.bytes().data())[i]);
    ++arrays;
  }
  EXPECT_EQ(arrays, static_cast<std::size_t>(kTensors));
  EXPECT_EQ(numbers.size(), 1U) << "values of two checkpoints";
  return numbers.empty() ? 0 : *numbers.begin();
}

// What opens as a checkpoint: a set by its index, if there is one.
std::int64_t number_in(const Case& c, const TempDir& dir) {
  const std::string index = dir / "x.safetensors.index.json";
  return number_at(is(c, ".safetensors") && file_exists(index) ? index : dir / c.file);
}

std::vector<std::string> names_in(const TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// A shard that no index names any more is not removed: a file of that name may be anybody's. The
// file that names the latest TensorFlow checkpoint belongs to all of the folder, whose temporary
// only cleaning the folder removes.
bool is_known_leftover(const Case& c, const std::string& name) {
  const bool old_shard = c.old_files == 3 && c.new_files != 3 && is(c, ".safetensors") &&
                         name.ends_with("-of-00003.safetensors");
  return old_shard || name.starts_with("checkpoint.cairn-tmp-");
}

class ReplaceCrash : public ::testing::TestWithParam<Case> {};

TEST_P(ReplaceCrash, LeavesTheOldOrTheNewCheckpoint) {
  const Case& c = GetParam();
  bool saw_old = false, saw_new = false;
  Ended ended = Ended::kKilled;
  std::vector<std::string> clean_names;
  {
    const TempDir dir = TempDir::in_memory();
    write(c, dir / c.file, 3, c.new_files);
    clean_names = names_in(dir);
  }
  for (int n = 0; ended == Ended::kKilled; n += testing::kKillStep) {
    SCOPED_TRACE("killed at call " + std::to_string(n));
    const TempDir dir = TempDir::in_memory();
    write(c, dir / c.file, 1, c.old_files);
    ended = run_and_kill_at(n, [&] { write(c, dir / c.file, 2, c.new_files); });
    ASSERT_NE(ended, Ended::kBadly);
    const std::int64_t found = number_in(c, dir);
    ASSERT_TRUE(found == 2 || (found == 1 && ended == Ended::kKilled)) << found;
    (found == 2 ? saw_new : saw_old) = true;
    // Either way on: cleaning, or the next save.
    if (n % 2 == 0) {
      clean_leftovers(dir / c.file);
      // A set that lacked nothing but its index has got it.
      const std::int64_t cleaned = number_in(c, dir);
      EXPECT_TRUE(cleaned == found || cleaned == 2) << cleaned << " after cleaning";
      clean_leftovers(dir.path());
      EXPECT_EQ(number_in(c, dir), cleaned);
      for (const std::string& name : names_in(dir)) EXPECT_FALSE(is_temporary_name(name)) << name;
    }
    write(c, dir / c.file, 3, c.new_files);
    EXPECT_EQ(number_in(c, dir), 3);
    for (const std::string& name : names_in(dir))
      EXPECT_TRUE(std::ranges::binary_search(clean_names, name) || is_known_leftover(c, name))
          << name;
  }
  EXPECT_TRUE(saw_old);
  EXPECT_TRUE(saw_new);
}

INSTANTIATE_TEST_SUITE_P(Formats, ReplaceCrash,
                         ::testing::Values(Case{"npz", "x.npz", 1, 1},
                                           Case{"msgpack", "x.msgpack", 1, 1},
                                           Case{"safetensors", "x.safetensors", 1, 1},
                                           Case{"set_of_the_same_size", "x.safetensors", 3, 3},
                                           Case{"set_of_another_size", "x.safetensors", 3, 2},
                                           Case{"set_for_a_file", "x.safetensors", 1, 3},
                                           Case{"file_for_a_set", "x.safetensors", 3, 1},
                                           Case{"tensorflow_same_size", "x", 2, 2},
                                           Case{"tensorflow_other_size", "x", 1, 3}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace cairn
