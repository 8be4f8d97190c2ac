// slow_store.h -- SlowStore, a store whose reads take time and are counted, as those of a store
// that is far away.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/routing_store.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::testing {

// The requests that a SlowStore got. Safe to use from many threads.
class RequestLog {
 public:
  static constexpr std::size_t kConnections = 32;

  explicit RequestLog(std::chrono::milliseconds delay) : delay_(delay) {}

  // Answers one request: f() places its bytes at the end of the delay.
  template <class F>
  void answer(std::uint64_t bytes, F f) {
    expect_waiting(kConnections);  // as a transport does
    {
      const std::scoped_lock lock(mutex_);
      sizes_.push_back(bytes);
      most_at_once_ = std::max(most_at_once_, ++now_);
      most_bytes_at_once_ = std::max(most_bytes_at_once_, bytes_now_ += bytes);
    }
    std::this_thread::sleep_for(delay_);
    {
      const std::scoped_lock lock(mutex_);
      --now_;
      bytes_now_ -= bytes;
      if (fails_after_ && sizes_.size() > *fails_after_)
        throw Error(Code::kIo, "the store does not answer");
    }
    f();
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    sizes_.clear();
    most_at_once_ = most_bytes_at_once_ = 0;
  }
  // From request number `count` on, requests fail.
  void fail_after(std::size_t count) {
    const std::scoped_lock lock(mutex_);
    fails_after_ = count;
  }

  [[nodiscard]] std::size_t requests() const { return sizes().size(); }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t size : sizes()) sum += size;
    return sum;
  }
  [[nodiscard]] std::uint64_t largest() const { return std::ranges::max(sizes()); }
  [[nodiscard]] std::vector<std::uint64_t> sizes() const {
    const std::scoped_lock lock(mutex_);
    return sizes_;
  }
  [[nodiscard]] std::size_t most_at_once() const {
    const std::scoped_lock lock(mutex_);
    return most_at_once_;
  }
  [[nodiscard]] std::uint64_t most_bytes_at_once() const {
    const std::scoped_lock lock(mutex_);
    return most_bytes_at_once_;
  }

 private:
  std::chrono::milliseconds delay_;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> sizes_;
  std::optional<std::size_t> fails_after_;
  std::size_t now_ = 0;
  std::size_t most_at_once_ = 0;
  std::uint64_t bytes_now_ = 0;
  std::uint64_t most_bytes_at_once_ = 0;
};

class SlowSource final : public RangeSource {
 public:
  SlowSource(std::shared_ptr<const RangeSource> base, std::shared_ptr<RequestLog> log)
      : base_(std::move(base)), log_(std::move(log)) {}
  [[nodiscard]] std::uint64_t size() const override { return base_->size(); }
  void read_into(std::uint64_t offset, MutableByteView out) const override {
    log_->answer(out.size(), [&] { base_->read_into(offset, out); });
  }
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const override {
    std::uint64_t bytes = 0;
    for (const MutableByteView part : out) bytes += part.size();
    log_->answer(bytes, [&] { base_->read_scatter(offset, out); });
  }
  [[nodiscard]] std::int64_t modified_ns() const override { return base_->modified_ns(); }
  [[nodiscard]] const std::string& version() const override { return base_->version(); }

 private:
  std::shared_ptr<const RangeSource> base_;
  std::shared_ptr<RequestLog> log_;
};

// The values of another store. Listing them is not counted.
class SlowStore final : public RoutingStore {
 public:
  SlowStore(StorePtr base, std::shared_ptr<RequestLog> log)
      : base_(std::move(base)), log_(std::move(log)) {}
  std::vector<ListEntry> list(std::string_view prefix) const override {
    return base_->list(prefix);
  }
  StoreListing list_level(std::string_view prefix) const override {
    return base_->list_level(prefix);
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    return base_->list_values(prefix, most);
  }
  std::shared_ptr<const RangeSource> open_listed(const StoredValue& value) const override {
    auto source = base_->open_listed(value);
    return source ? std::make_shared<SlowSource>(std::move(source), log_) : nullptr;
  }

 protected:
  [[nodiscard]] Target find(std::string_view key) const override {
    return {base_.get(), std::string(key)};
  }

 private:
  StorePtr base_;
  std::shared_ptr<RequestLog> log_;
};

}  // namespace cairn::testing
