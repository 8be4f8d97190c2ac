// read_ahead.cc -- keeps the most recently read blocks of a file.
#include <cairn/io/tree/read_ahead.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kBlock = std::uint64_t{256} << 10U;
// Larger reads are requests of their own.
constexpr std::uint64_t kSmall = std::uint64_t{64} << 10U;
constexpr std::size_t kMostBlocks = 8;

class ReadAheadSource final : public RangeSource {
 public:
  explicit ReadAheadSource(File file)
      : file_(std::move(file)),
        size_(file_.size()),
        version_(std::to_string(file_.state().inode)) {}

  [[nodiscard]] std::uint64_t size() const override { return size_; }
  void read_into(std::uint64_t offset, MutableByteView out) const override {
    if (out.size() > kSmall || offset > size_ || out.size() > size_ - offset)
      return file_.read_into(offset, out);
    while (!out.empty()) {
      const std::uint64_t at = offset % kBlock;
      const auto n = std::min<std::uint64_t>(out.size(), kBlock - at);
      const auto bytes = block(offset / kBlock);
      std::copy_n(bytes->data() + at, n, out.data());
      out = out.subspan(n);
      offset += n;
    }
  }
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const override {
    std::uint64_t length = 0;
    for (const MutableByteView part : out) length += part.size();
    if (length > kSmall) return file_.read_scatter(offset, out);
    for (const MutableByteView part : out) {
      if (part.data() != nullptr) read_into(offset, part);
      offset += part.size();
    }
  }
  [[nodiscard]] std::int64_t modified_ns() const override { return file_.modified_ns(); }
  [[nodiscard]] const std::string& version() const override { return version_; }

 private:
  struct Block {
    std::uint64_t number = 0;
    std::mutex mutex = {};  // held while the bytes are fetched: others wait for them
    std::shared_ptr<const Bytes> bytes = nullptr;
  };

  [[nodiscard]] std::shared_ptr<const Bytes> block(std::uint64_t number) const {
    const std::shared_ptr<Block> block = entry(number);
    const std::scoped_lock lock(block->mutex);
    if (block->bytes == nullptr) {
      Bytes bytes(std::min(kBlock, size_ - number * kBlock));
      file_.read_into(number * kBlock, bytes);
      block->bytes = std::make_shared<const Bytes>(std::move(bytes));
    }
    return block->bytes;
  }
  // The block, which is then the most recently used one.
  [[nodiscard]] std::shared_ptr<Block> entry(std::uint64_t number) const {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(blocks_, number, [](const auto& b) { return b->number; });
    if (found != blocks_.end()) {
      blocks_.splice(blocks_.begin(), blocks_, found);
      return blocks_.front();
    }
    blocks_.push_front(std::make_shared<Block>());
    blocks_.front()->number = number;
    if (blocks_.size() > kMostBlocks) blocks_.pop_back();
    return blocks_.front();
  }

  File file_;
  std::uint64_t size_;
  std::string version_;
  mutable std::mutex mutex_;                          // guards the list
  mutable std::list<std::shared_ptr<Block>> blocks_;  // most recently used first
};

}  // namespace

File with_read_ahead(File file) {
  if (file.is_local()) return file;
  std::string path = file.path();
  return {std::move(path), std::make_shared<const ReadAheadSource>(std::move(file))};
}

}  // namespace cairn::inline v0
