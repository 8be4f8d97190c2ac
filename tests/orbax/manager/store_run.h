// store_run.h -- runs in stores of this process, which can be told to fail.
#pragma once

#include <cairn/checkpoint_manager.h>
#include <cairn/storage/kvstore.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/upload.h"

namespace cairn::testing {

// Uploads the steps 1 to `last`, each with the metric "loss", as a manager saves them.
inline void upload_run(const std::string& url, std::int64_t last,
                       const CheckpointManagerOptions& given = {}) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManagerOptions options = given;
  options.enable_async_checkpointing = false;
  options.best_fn = metric("loss");
  options.handler.commit_protocol = CommitProtocol::kCommitMarker;
  CheckpointManager manager(dir / "run", options);
  for (std::int64_t step = 1; step <= last; ++step)
    manager.save(step, PyTreeSaveArgs{Tree{{"x", step}}},
                 {.metrics = Metrics{{"loss", 1.0 / static_cast<double>(step)}}});
  manager.close();
  upload(dir / "run", url);
}

// Takes what says that a step has ended, as while it is being saved.
inline void make_unfinished(const std::string& step_url) {
  const StorePtr store = open_store(step_url);
  store->remove("commit_success.txt");
  store->write("_CHECKPOINT_METADATA", as_bytes(R"({"init_timestamp_nsecs": 5})"));
}

// Passes everything on, counts the requests, and from one request on only fails, as the store of a
// process that is killed. Each value that remove_all() removes counts.
class DyingStore final : public KvStore {
 public:
  DyingStore(StorePtr base, std::size_t requests_left)
      : base_(std::move(base)), left_(requests_left) {}

  [[nodiscard]] std::size_t requests() const { return requests_; }

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    return ask().read(key, range);
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    return ask().read_at_most(key, most);
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    return ask().read_into(key, offset, out);
  }
  std::optional<SharedBytes> map(std::string_view key) const override { return ask().map(key); }
  std::optional<std::uint64_t> size(std::string_view key) const override { return ask().size(key); }
  std::optional<Location> locate(std::string_view key) const override { return base_->locate(key); }
  std::vector<ListEntry> list(std::string_view prefix) const override { return ask().list(prefix); }
  StoreListing list_level(std::string_view prefix) const override {
    StoreListing level = ask().list_level(prefix);
    for (const std::string& folder : emptied_)
      if (folder.starts_with(prefix)) level.folders.push_back(folder);
    std::sort(level.folders.begin(), level.folders.end());
    level.folders.erase(std::unique(level.folders.begin(), level.folders.end()),
                        level.folders.end());
    return level;
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    return ask().list_values(prefix, std::min(most, page_));
  }
  std::shared_ptr<const RangeSource> open(std::string_view key,
                                          std::string_view version) const override {
    return ask().open(key, version);
  }
  void write(std::string_view key, ByteView value) override { ask().write(key, value); }
  void remove(std::string_view key) override { ask().remove(key); }
  void remove_all(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) ask().remove(key);
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    return ask().replace_if(key, expected, value);
  }
  std::string describe(std::string_view key) const override { return base_->describe(key); }

  // A listing never shows more values than this, as that of a run with very many objects.
  void set_page(std::size_t page) { page_ = page; }
  // Levels show this folder ("12/") although it is empty, as SeaweedFS does for a while.
  void show_emptied(std::string folder) { emptied_.push_back(std::move(folder)); }

 private:
  KvStore& ask() const {
    ++requests_;
    if (left_ == 0) throw Error(Code::kIo, "the connection is gone");
    --left_;
    return *base_;
  }

  StorePtr base_;
  std::size_t page_ = SIZE_MAX;
  std::vector<std::string> emptied_;
  mutable std::atomic<std::size_t> left_;
  mutable std::atomic<std::size_t> requests_ = 0;
};

}  // namespace cairn::testing
