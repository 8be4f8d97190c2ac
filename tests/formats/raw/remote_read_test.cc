// remote_read_test.cc -- a file of raw arrays in a store: how many requests a read sends, how large
// they are, and how many are on their way at once.
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/tree.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/support/matchers.h"
#include "tests/support/slow_store.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::RequestLog;
using testing::SlowStore;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// A safetensors file with `count` arrays "t0", "t1", ... of uint8, in a store whose requests take
// 10 ms.
class RemoteFile {
 public:
  RemoteFile(std::size_t count, std::int64_t rows, std::int64_t columns)
      : bytes_(count * static_cast<std::size_t>(rows * columns)) {
    for (std::size_t i = 0; i < bytes_.size(); i += 97)
      bytes_[i] = static_cast<std::byte>(i * 7919 >> 5U);
    std::string header;
    const auto size = static_cast<std::size_t>(rows * columns);
    for (std::size_t i = 0; i < count; ++i)
      header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[{},{}],"data_offsets":[{},{}]}})",
                            i == 0 ? "{" : ",", i, rows, columns, i * size, (i + 1) * size);
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    Bytes file(8);
    std::memcpy(file.data(), &length, 8);
    file.insert(file.end(), as_bytes(header).begin(), as_bytes(header).end());
    file.insert(file.end(), bytes_.begin(), bytes_.end());
    const StorePtr values = make_memory_store();
    values->write("m.safetensors", file);
    const auto folder = StoreFolder::open(std::make_shared<SlowStore>(values, log_), "s3://b/run");
    checkpoint_ = open_safetensors(FileTree(folder), "s3://b/run/m.safetensors",
                                   {.resources = {.threads = 2}});
    log_->clear();
  }

  Checkpoint& checkpoint() { return *checkpoint_; }
  RequestLog& log() { return *log_; }
  // The bytes of all arrays.
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  std::shared_ptr<RequestLog> log_ = std::make_shared<RequestLog>(std::chrono::milliseconds(10));
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST(RemoteRawRead, LargeArraysAreCutIntoRequestsThatAreSentAtOnce) {
  RemoteFile file(2, 16, 1'500'000);
  for (const std::size_t i : {0U, 1U}) {
    const Array all = file.checkpoint().read(fmt::format("t{}", i));
    EXPECT_TRUE(std::ranges::equal(
        all.bytes(), ByteView(file.bytes()).subspan(i * all.bytes().size(), all.bytes().size())));
  }
  EXPECT_LE(file.log().largest(), kMiB) << "24 MB are too few for 32 larger requests";
  EXPECT_GE(file.log().most_at_once(), 12U);
}

TEST(RemoteRawRead, NeighboursAreOneRequest) {
  RemoteFile file(2000, 1, 2048);
  const Tree tree = file.checkpoint().load();
  EXPECT_LE(file.log().requests(), 5U);
  EXPECT_EQ(flatten(tree).size(), 2000U);
}

TEST(RemoteRawRead, AStoreThatDoesNotAnswerIsNotAskedAgain) {
  RemoteFile file(200, 1, 2048);
  file.log().fail_after(0);
  EXPECT_THAT([&] { (void)file.checkpoint().load(); },
              FailsWith(Code::kIo, "the store does not answer"));
  EXPECT_LE(file.log().requests(), 2U);
}

}  // namespace
}  // namespace cairn
