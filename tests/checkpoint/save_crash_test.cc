// save_crash_test.cc -- a save is killed at every system call that changes files: the target is absent or whole, old or new;
// what is left says what it is and can be cleaned away; the next save succeeds.
#include <cairn/base/file.h>
#include <cairn/cairn.h>
#include <cairn/checkpoint/layout.h>
#include <gmock/gmock.h>

#include "tests/support/kill_at.h"
#include "tests/support/temp_dir.h"

namespace cairn::checkpoint {
namespace {

using cairn::testing::Ended;
using cairn::testing::run_and_kill_at;
using cairn::testing::TempDir;

struct Crash {
  const char* name;
  SaveOptions options;
  bool replaces;
};
void PrintTo(const Crash& crash, std::ostream* out) { *out << crash.name; }

// With threads of its own: only the calling one, which is the one that is watched.
SaveOptions layout(bool ocdbt, bool zarr3, std::optional<std::string> item = {}) {
  SaveOptions options;
  options.use_ocdbt = ocdbt;
  options.use_zarr3 = zarr3;
  options.item = std::move(item);
  options.threads = 1;
  return options;
}

Tree tree_of(std::int64_t number) {
  Array array = Array::allocate(DType::kInt64, {300});
  auto* values = reinterpret_cast<std::int64_t*>(array.mutable_view().data);
  for (std::int64_t i = 0; i < 300; ++i) values[i] = number * 1000 + i;
  return Tree(Tree::Dict{{"n", Tree(number)}, {"text", Tree("number " + std::to_string(number))}, {"w", Tree(std::move(array))}});
}

// Which tree the checkpoint holds, every byte of it; 0: there is none.
std::int64_t number_at(const std::string& path) {
  if (!file_exists(path)) return 0;
  const auto opened = open(path);
  EXPECT_FALSE(opened->verify({}).damaged());
  const Tree tree = opened->load();
  const auto number = std::get<std::int64_t>(tree.find("n")->value());
  EXPECT_EQ(std::get<std::string>(tree.find("text")->value()), "number " + std::to_string(number));
  const Tree wanted = tree_of(number);
  EXPECT_TRUE(std::ranges::equal(tree.find("w")->array()->bytes(), wanted.find("w")->array()->bytes()));
  return number;
}

class SaveCrash : public ::testing::TestWithParam<Crash> {};

TEST_P(SaveCrash, LeavesTheTargetAbsentOrWhole) {
  const Crash& crash = GetParam();
  bool saw_old = false;
  bool saw_new = false;
  Ended ended = Ended::kKilled;
  for (int n = 0; ended == Ended::kKilled; ++n) {
    const TempDir dir = TempDir::in_memory();
    SaveOptions options = crash.options;
    if (crash.replaces) {
      save(dir / "ckpt", tree_of(1), crash.options);
      options.if_exists = IfExists::kReplace;
    }
    ended = run_and_kill_at(n, [&] { save(dir / "ckpt", tree_of(2), options); });
    ASSERT_NE(ended, Ended::kBadly) << n;
    const std::int64_t found = number_at(dir / "ckpt");
    ASSERT_TRUE(found == 2 || found == (crash.replaces ? 1 : 0)) << n;
    (found == 2 ? saw_new : saw_old) = true;
    for (const auto& name : list_directory(dir.path()).folders)
      EXPECT_TRUE(name == "ckpt" || name.starts_with("ckpt.orbax-checkpoint-tmp")) << n << " left " << name;
    // Either way on: cleaning, or the next save.
    if (n % 2 == 0) {
      clean(dir.path());
      EXPECT_EQ(list_directory(dir.path()).folders.size(), found == 0 ? 0U : 1U) << n;
      EXPECT_EQ(number_at(dir / "ckpt"), found) << n;
    }
    options.if_exists = IfExists::kReplace;
    save(dir / "ckpt", tree_of(3), options);
    EXPECT_EQ(number_at(dir / "ckpt"), 3) << n;
    EXPECT_EQ(list_directory(dir.path()).folders.size(), 1U) << n;
  }
  EXPECT_TRUE(saw_old);
  EXPECT_TRUE(saw_new);
}

INSTANTIATE_TEST_SUITE_P(Layouts, SaveCrash,
                         ::testing::Values(Crash{"database", layout(true, false), false},
                                           Crash{"database_replaced", layout(true, false), true},
                                           Crash{"files", layout(false, false), false},
                                           Crash{"item_replaced", layout(true, true, "default"), true}),
                         [](const auto& crash) { return crash.param.name; });

}  // namespace
}  // namespace cairn::checkpoint
