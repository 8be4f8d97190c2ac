// bundle_fault_test.cc -- a TensorFlow checkpoint is written while a system call fails, or the
// process is killed: what is under the prefix is a whole checkpoint or none, never one of two.
#include <cairn/array/box.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/io/temporary_name.h>
#include <cairn/tensorflow.h>
#include <gmock/gmock.h>

#include "tests/formats/golden.h"
#include "tests/support/fail_at.h"
#include "tests/support/kill_at.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::Ended;
using testing::Faulted;
using testing::run_and_fail_at;
using testing::run_and_kill_at;
using testing::TempDir;

constexpr std::int64_t kBundleElements = 500;

void write(const std::string& prefix, int number, int files) {
  std::vector<TensorFlowSource> sources;
  std::vector<std::int64_t> values(kBundleElements, number);
  std::vector<ArrayView> views;
  for (int i = 0; i < files; ++i) {
    TensorFlowSource& source = sources.emplace_back();
    source.key = "t" + std::to_string(i);
    source.dtype = DType::kInt64;
    source.shape = {kBundleElements};
    source.device = "/job:worker/task:" + std::to_string(i);
    views.push_back(
        make_view(as_bytes({reinterpret_cast<const char*>(values.data()), 8 * values.size()}),
                  DType::kInt64, {kBundleElements}));
  }
  TensorFlowSource& text = sources.emplace_back();
  text.key = "text";
  text.dtype = TensorType("string", 0);
  text.strings = {"number " + std::to_string(number)};
  text.device = "/job:worker/task:0";
  views.emplace_back();
  write_tensorflow(prefix, std::move(sources), fetch_from(views),
                   {.object_graph = false, .if_exists = IfExists::kReplace});
}

// The number of the checkpoint that is there, every byte of it; 0: none is.
int bundle_number_at(const std::string& prefix) {
  if (!file_exists(prefix + ".index")) return 0;
  const File file = File::open(prefix + ".index");
  const BundleIndex index = read_bundle_index(
      file.size(), [&](std::uint64_t at, MutableByteView out) { file.read_into(at, out); });
  int number = 0;
  for (const BundleTensor& tensor : index.tensors) {
    const BundleEntry& entry = tensor.entry;
    const std::string shards = std::to_string(index.header.shards);
    const Bytes data =
        read_file(prefix + ".data-0000" + std::to_string(entry.shard) + "-of-0000" + shards);
    if (entry.dtype == kBundleString) continue;
    const ByteView bytes = ByteView(data).subspan(static_cast<std::size_t>(entry.offset),
                                                  static_cast<std::size_t>(entry.size));
    EXPECT_EQ(entry.crc32c, crc32c_masked(crc32c(bytes)));
    const auto first = static_cast<int>(reinterpret_cast<const std::int64_t*>(bytes.data())[0]);
    EXPECT_TRUE(number == 0 || number == first) << "files of two checkpoints";
    number = first;
  }
  return number;
}

struct BundleFaultCase {
  int old_files, new_files;  // 0: there is none before
};

class BundleFault : public ::testing::TestWithParam<BundleFaultCase> {
 protected:
  static void prepare(const TempDir& dir) {
    if (GetParam().old_files > 0) write(dir / "x", 1, GetParam().old_files);
  }
};

TEST_P(BundleFault, SurvivesKills) {
  bool ended = false;
  for (int n = 0; !ended; n += testing::kKillStep) {
    SCOPED_TRACE("killed at call " + std::to_string(n));
    const TempDir dir = TempDir::in_memory();
    run_and_kill_at(1 << 20, [&] { prepare(dir); });
    const Ended how = run_and_kill_at(n, [&] { write(dir / "x", 2, GetParam().new_files); });
    ASSERT_NE(how, Ended::kBadly);
    ended = how == Ended::kWell;
    const int found = bundle_number_at(dir / "x");
    EXPECT_TRUE(found == 2 || (!ended && found == (GetParam().old_files > 0 ? 1 : 0))) << found;
    run_and_kill_at(1 << 20, [&] { write(dir / "x", 3, GetParam().new_files); });
    EXPECT_EQ(bundle_number_at(dir / "x"), 3) << "the next one succeeds";
  }
}

TEST_P(BundleFault, SaysWhatFails) {
  bool injected = true;
  for (int n = 0; injected; ++n) {
    SCOPED_TRACE("call " + std::to_string(n) + " fails");
    const TempDir dir = TempDir::in_memory();
    run_and_kill_at(1 << 20, [&] { prepare(dir); });
    const Faulted result =
        run_and_fail_at(n, ENOSPC, [&] { write(dir / "x", 2, GetParam().new_files); });
    SCOPED_TRACE(result.call);
    injected = result.injected;
    ASSERT_TRUE(result.ended);
    EXPECT_EQ(result.descriptors_left, 0);
    const int found = bundle_number_at(dir / "x");
    if (!result.error) {
      EXPECT_EQ(found, 2);
      // Where there are no links, files are copied.
      EXPECT_TRUE(!injected || testing::is_about_a_save_lock(result.call) ||
                  result.call.starts_with("link("))
          << "success, as if nothing had been";
      continue;
    }
    EXPECT_EQ(result.error->code(), Code::kIo) << result.error->message();
    EXPECT_THAT(result.error->message(), ::testing::HasSubstr(std::strerror(ENOSPC)));
    const bool in_place = result.error->message().find("in place") != std::string::npos;
    EXPECT_EQ(found, in_place ? 2 : GetParam().old_files > 0 ? 1 : 0) << result.error->message();
    for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
      EXPECT_FALSE(is_temporary_name(entry.path().filename().string()) &&
                   !result.call.starts_with("unlink"))
          << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(All, BundleFault,
                         ::testing::Values(BundleFaultCase{0, 1}, BundleFaultCase{0, 2},
                                           BundleFaultCase{1, 1}, BundleFaultCase{2, 2},
                                           BundleFaultCase{2, 1}, BundleFaultCase{1, 2}),
                         [](const auto& test) {
                           return std::to_string(test.param.old_files) + "to" +
                                  std::to_string(test.param.new_files);
                         });

}  // namespace
}  // namespace cairn
