// faulty_store.h -- store decorators: one forwards every call, so that tests derive from it to
// change some; the other makes chosen operations fail.
#pragma once

#include <cairn/kvstore/routing_store.h>
#include <cairn/storage/kvstore.h>

#include <atomic>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::testing {

class ForwardingStore : public RoutingStore {
 public:
  explicit ForwardingStore(StorePtr base) : base_(std::move(base)) {}
  std::vector<ListEntry> list(std::string_view prefix) const override {
    return base_->list(prefix);
  }

 protected:
  [[nodiscard]] Target find(std::string_view key) const override {
    return {base_.get(), std::string(key)};
  }

 private:
  StorePtr base_;
};

// Which operations fail, and how.
struct StoreFault {
  int operation = 0;  // the first operation that fails, counted from 0
  // all later operations fail, too: the disk is gone, or the process is about to end
  bool lasts = false;
  bool reads = false;  // whether reads count as operations, and may fail
  // Whether the failing operation takes effect all the same, as when the reply of a file server is
  // lost.
  bool happens = false;
};

class FaultyStore final : public ForwardingStore {
 public:
  FaultyStore(StorePtr base, StoreFault fault) : ForwardingStore(std::move(base)), fault_(fault) {}

  // Whether any operation has failed.
  [[nodiscard]] bool failed() const { return count_ > fault_.operation; }

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    return on_read([&] { return ForwardingStore::read(key, range); });
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    return on_read([&] { return ForwardingStore::read_at_most(key, most); });
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    return on_read([&] { return ForwardingStore::read_into(key, offset, out); });
  }
  std::optional<SharedBytes> map(std::string_view key) const override {
    return on_read([&] { return ForwardingStore::map(key); });
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    return on_read([&] { return ForwardingStore::size(key); });
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    return on_read([&] { return ForwardingStore::list(prefix); });
  }
  void write(std::string_view key, ByteView value) override {
    step([&] { ForwardingStore::write(key, value); });
  }
  void remove(std::string_view key) override {
    step([&] { ForwardingStore::remove(key); });
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    return step([&] { return ForwardingStore::replace_if(key, expected, value); });
  }
  std::unique_ptr<Appender> append(std::string_view key) override {
    return std::make_unique<FaultyAppender>(*this,
                                            step([&] { return ForwardingStore::append(key); }));
  }

 private:
  class FaultyAppender final : public Appender {
   public:
    FaultyAppender(FaultyStore& store, std::unique_ptr<Appender> base)
        : store_(store), base_(std::move(base)) {}
    void append(std::span<const ByteView> parts) override {
      store_.step([&] { base_->append(parts); });
    }
    [[nodiscard]] std::uint64_t size() const override { return base_->size(); }
    void commit() override {
      store_.step([&] { base_->commit(); });
    }

   private:
    FaultyStore& store_;
    std::unique_ptr<Appender> base_;
  };

  template <class F>
  std::invoke_result_t<F> on_read(F f) const {
    return fault_.reads ? step(f) : f();
  }
  template <class F>
  std::invoke_result_t<F> step(F f) const {
    const int number = count_++;
    const bool fails = number == fault_.operation || (fault_.lasts && number > fault_.operation);
    if (fails && fault_.happens) (void)f();
    if (fails) throw Error(Code::kIo, "the disk is gone");
    return f();
  }

  StoreFault fault_;
  mutable std::atomic<int> count_ = 0;
};

}  // namespace cairn::testing
