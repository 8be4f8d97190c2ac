// save_crash_test.cc -- a save is killed at every system call that changes files: the target is
// absent or whole, old or new; what is left says what it is and can be cleaned away; the next save
// succeeds.
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/support/kill_at.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::Ended;
using cairn::testing::run_and_kill_at;
using cairn::testing::same_bytes;
using cairn::testing::TempDir;

struct Crash {
  const char* name;
  SaveOptions options;
  bool replaces;
  std::int64_t elements = 300;
};
void PrintTo(const Crash& crash, std::ostream* out) { *out << crash.name; }

// With one thread of its own, so that its calls come in one order; large files are written by
// another one.
SaveOptions layout(bool ocdbt, bool zarr3, std::optional<std::string> item = {}) {
  SaveOptions options;
  options.use_ocdbt = ocdbt;
  options.use_zarr3 = zarr3;
  options.item = std::move(item);
  options.resources.threads = 1;
  return options;
}

SaveOptions uncompressed(SaveOptions options) {
  options.compression = Compression::kNone;
  return options;
}

Tree make_tree(std::int64_t number, std::int64_t elements) {
  Array array = Array::allocate(DType::kInt64, {elements});
  auto* values = reinterpret_cast<std::uint64_t*>(array.mutable_view().data);
  std::uint64_t state = static_cast<std::uint64_t>(number);
  for (std::int64_t i = 0; i < elements; ++i)
    values[i] = state = state * 0x5851f42d4c957f2dU + 0x14057b7ef767814fU;
  return Tree(Tree::Dict{{"n", Tree(number)},
                         {"text", Tree("number " + std::to_string(number))},
                         {"w", Tree(std::move(array))}});
}

// Each is made once: what costs time here is to be the saves.
const Tree& tree_of(std::int64_t number, std::int64_t elements) {
  static std::map<std::pair<std::int64_t, std::int64_t>, Tree> made;
  const auto [it, is_new] = made.try_emplace({number, elements});
  if (is_new) it->second = make_tree(number, elements);
  return it->second;
}

// Which tree the checkpoint holds, every byte of it; 0: there is none.
std::int64_t number_at(const std::string& path, std::int64_t elements) {
  if (!file_exists(path)) return 0;
  const auto opened = open(path);
  EXPECT_FALSE(opened->verify({}).damaged());
  const Tree tree = opened->load();
  const auto number = std::get<std::int64_t>(tree.find("n")->value());
  EXPECT_EQ(std::get<std::string>(tree.find("text")->value()), "number " + std::to_string(number));
  EXPECT_TRUE(same_bytes(tree.find("w")->array()->bytes(),
                         tree_of(number, elements).find("w")->array()->bytes()));
  return number;
}

class SaveCrash : public ::testing::TestWithParam<Crash> {};

TEST_P(SaveCrash, LeavesTheTargetAbsentOrWhole) {
  const Crash& crash = GetParam();
  bool saw_old = false;
  bool saw_new = false;
  Ended ended = Ended::kKilled;
  for (int n = 0; ended == Ended::kKilled; n += testing::kKillStep) {
    // Files that are large enough to go past the page cache can do so only where there is a disk.
    const TempDir dir = crash.elements > 300 ? TempDir() : TempDir::in_memory();
    SaveOptions options = crash.options;
    if (crash.replaces) {
      save(dir / "ckpt", tree_of(1, crash.elements), crash.options);
      options.if_exists = IfExists::kReplace;
    }
    ended = run_and_kill_at(n, [&] { save(dir / "ckpt", tree_of(2, crash.elements), options); });
    ASSERT_NE(ended, Ended::kBadly) << n;
    const std::int64_t found = number_at(dir / "ckpt", crash.elements);
    ASSERT_TRUE(found == 2 || found == (crash.replaces ? 1 : 0)) << n;
    (found == 2 ? saw_new : saw_old) = true;
    for (const auto& name : list_directory(dir.path()).folders)
      EXPECT_TRUE(name == "ckpt" || name.starts_with("ckpt.orbax-checkpoint-tmp"))
          << n << " left " << name;
    // Either way on: cleaning, or the next save.
    if (n % 2 == 0) {
      clean_leftovers(dir.path());
      // What lacked nothing but its name has got it.
      const std::int64_t cleaned = number_at(dir / "ckpt", crash.elements);
      EXPECT_TRUE(cleaned == found || (found == 0 && cleaned == 2)) << n;
      EXPECT_EQ(list_directory(dir.path()).folders.size(), cleaned == 0 ? 0U : 1U) << n;
      EXPECT_THAT(list_directory(dir.path()).files, ::testing::IsEmpty()) << n;
    }
    options.if_exists = IfExists::kReplace;
    save(dir / "ckpt", tree_of(3, crash.elements), options);
    EXPECT_EQ(number_at(dir / "ckpt", crash.elements), 3) << n;
    EXPECT_EQ(list_directory(dir.path()).folders.size(), 1U) << n;
  }
  EXPECT_TRUE(saw_old);
  EXPECT_TRUE(saw_new);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SaveCrash,
    ::testing::Values(Crash{"database", layout(true, false), false},
                      Crash{"database_replaced", layout(true, false), true},
                      Crash{"files", layout(false, false), false},
                      Crash{"past_the_page_cache", layout(true, false), false, 900'000},
                      Crash{"past_the_page_cache_replaced", uncompressed(layout(true, false)), true,
                            900'000},
                      Crash{"item_replaced", layout(true, true, "default"), true}),
    [](const auto& crash) { return crash.param.name; });

}  // namespace
}  // namespace cairn::orbax
