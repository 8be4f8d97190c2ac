// bundle_merge_fault_test.cc -- TensorFlow checkpoints are merged while a system call fails, or the
// process is killed: the parts are all there until the result is whole, and the next merge
// succeeds.
#include <cairn/formats/tensorflow/write/bundle_merge.h>
#include <cairn/io/file.h>
#include <gmock/gmock.h>

#include <cerrno>

#include "tests/formats/tensorflow/int_bundle.h"
#include "tests/support/fail_at.h"
#include "tests/support/kill_at.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::Contents;
using testing::contents;
using testing::Ended;
using testing::Faulted;
using testing::slice;
using testing::TempDir;
using testing::whole;
using testing::write_ints;

struct MergeCase {
  int old_files;  // of a checkpoint that is replaced; 0: there is none
  bool one_part;
};

class BundleMergeFault : public ::testing::TestWithParam<MergeCase> {
 protected:
  static const Contents& merged() {
    static const Contents one = {{"a", {1, 1}}, {"b", {1}}};
    static const Contents two = {{"a", {1, 1}}, {"b", {1}}, {"c", {2}}, {"s", {2, 2}}};
    return GetParam().one_part ? one : two;
  }
  static Contents old() {
    Contents made;
    for (int i = 0; i < GetParam().old_files; ++i) made["old" + std::to_string(i)] = {9};
    return made;
  }
  static void prepare(const TempDir& dir) {
    std::vector<TensorFlowSource> sources;
    for (int i = 0; i < GetParam().old_files; ++i)
      sources.push_back(whole("old" + std::to_string(i), 1, "/job:w/task:" + std::to_string(i)));
    if (!sources.empty()) write_ints(dir / "x", sources, 9);
    write_ints(dir / "temp/one", {whole("a", 2, "/job:w/task:0"), whole("b", 1, "/job:w/task:1")},
               1);
    if (!GetParam().one_part) write_ints(dir / "temp/two", {whole("c", 1), slice("s", 2, 0, 2)}, 2);
  }
  static void merge(const TempDir& dir, bool allow_missing) {
    std::vector parts = {dir / "temp/one"};
    if (!GetParam().one_part) parts.push_back(dir / "temp/two");
    merge_bundles(parts, dir / "x",
                  {.delete_old_dirs = true, .allow_missing_files = allow_missing});
  }
  static bool has_parts(const TempDir& dir) {
    Contents both = contents(dir / "temp/one");
    both.merge(contents(dir / "temp/two"));
    return both == merged();
  }
  // The old one, or the new one, and until then all the parts. True: the new one.
  static bool check(const TempDir& dir) {
    const Contents found = contents(dir / "x");
    if (found == merged()) return true;
    EXPECT_EQ(found, old());
    EXPECT_TRUE(has_parts(dir));
    return false;
  }
  // The next one makes or leaves the new one, and removes what is left of the parts.
  static void check_next(const TempDir& dir, bool in_place) {
    if (!in_place || file_exists(dir / "temp/one.index") || file_exists(dir / "temp/two.index")) {
      EXPECT_EQ(testing::run_and_kill_at(1 << 20, [&] { merge(dir, in_place); }), Ended::kWell);
      EXPECT_FALSE(file_exists(dir / "temp/one.index") || file_exists(dir / "temp/two.index"));
    }
    EXPECT_EQ(contents(dir / "x"), merged());
  }
};

TEST_P(BundleMergeFault, SurvivesKills) {
  bool ended = false;
  for (int n = 0; !ended; n += testing::kKillStep) {
    SCOPED_TRACE("killed at call " + std::to_string(n));
    const TempDir dir = TempDir::in_memory();
    testing::run_and_kill_at(1 << 20, [&] { prepare(dir); });
    const Ended how = testing::run_and_kill_at(n, [&] { merge(dir, false); });
    ASSERT_NE(how, Ended::kBadly);
    ended = how == Ended::kWell;
    const bool in_place = check(dir);
    EXPECT_TRUE(in_place || !ended);
    check_next(dir, in_place);
  }
}

TEST_P(BundleMergeFault, SaysWhatFails) {
  bool injected = true;
  for (int n = 0; injected; ++n) {
    SCOPED_TRACE("call " + std::to_string(n) + " fails");
    const TempDir dir = TempDir::in_memory();
    testing::run_and_kill_at(1 << 20, [&] { prepare(dir); });
    const Faulted result = testing::run_and_fail_at(n, ENOSPC, [&] { merge(dir, false); });
    SCOPED_TRACE(result.call);
    injected = result.injected;
    ASSERT_TRUE(result.ended);
    EXPECT_EQ(result.descriptors_left, 0);
    const bool in_place = check(dir);
    if (result.error) {
      EXPECT_EQ(result.error->code(), Code::kIo) << result.error->message();
      EXPECT_THAT(result.error->message(), ::testing::HasSubstr(std::strerror(ENOSPC)));
      EXPECT_EQ(result.error->message().find("is in place") != std::string::npos, in_place)
          << result.error->message();
    } else {
      // A link that cannot be made is a copy; folders of the parts are removed if they can be.
      EXPECT_TRUE(!injected || testing::is_about_a_save_lock(result.call) ||
                  result.call.starts_with("link") || result.call.ends_with("/temp)"))
          << "success, as if nothing had been";
      EXPECT_TRUE(in_place);
    }
    check_next(dir, in_place);
  }
}

INSTANTIATE_TEST_SUITE_P(All, BundleMergeFault,
                         ::testing::Values(MergeCase{0, true}, MergeCase{0, false},
                                           MergeCase{1, false}, MergeCase{2, true},
                                           MergeCase{3, false}, MergeCase{4, false}),
                         [](const auto& test) {
                           return std::to_string(test.param.old_files) + "to" +
                                  (test.param.one_part ? "One" : "Two");
                         });

}  // namespace
}  // namespace cairn
