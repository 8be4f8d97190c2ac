// value_sink.h -- the interface through which array writers store encoded values.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/bytes.h>
#include <cairn/storage/kvstore.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace cairn::inline v0 {

// Receives stored values. Several threads may call it at once.
class ValueSink {
 public:
  virtual ~ValueSink() = default;
  // Writes a value: the concatenation of all pieces, which are valid only during the call. An older
  // value is replaced.
  virtual void write(std::string_view key, std::span<const ByteView> pieces) = 0;
  // The same for a value whose last piece is still being made. `end` returns when it is there. A
  // sink that passes bytes on while it receives them calls it before it reads the last piece.
  virtual void write_before_end(std::string_view key, std::span<const ByteView> pieces,
                                const std::function<void()>& end) {
    end();
    write(key, pieces);
  }
  // Removes a value that is no longer needed. The value may be absent.
  virtual void remove(std::string_view key) = 0;
  // Whether writes wait for a network. Then more threads write than there are workers, and take
  // turns to encode (Executor::Turn).
  [[nodiscard]] virtual bool waits() const { return false; }
};

// Passes values on and counts their bytes.
class CountingSink : public ValueSink {
 public:
  explicit CountingSink(ValueSink& sink) : sink_(sink) {}
  void write(std::string_view key, std::span<const ByteView> pieces) override {
    count(pieces);
    sink_.write(key, pieces);
  }
  void write_before_end(std::string_view key, std::span<const ByteView> pieces,
                        const std::function<void()>& end) override {
    count(pieces);
    sink_.write_before_end(key, pieces, end);
  }
  void remove(std::string_view key) override { sink_.remove(key); }
  [[nodiscard]] bool waits() const override { return sink_.waits(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void count(std::span<const ByteView> pieces) {
    std::uint64_t bytes = 0;
    for (const ByteView piece : pieces) bytes += piece.size();
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

  ValueSink& sink_;
  std::atomic<std::uint64_t> bytes_ = 0;
};

// Writes each value directly to a store.
class StoreSink : public ValueSink {
 public:
  // `upload_memory`: of an object store, the bytes that values on their way may take together, 32
  // MiB at least. 0: the store is on this machine, and writes do not wait.
  explicit StoreSink(StorePtr store, std::uint64_t upload_memory = 0);
  void write(std::string_view key, std::span<const ByteView> pieces) override;
  void remove(std::string_view key) override { store_->remove(key); }
  [[nodiscard]] bool waits() const override { return sending_.limit() > 0; }

 private:
  void send(std::string_view key, std::span<const ByteView> pieces);

  StorePtr store_;
  ByteBudget sending_;
};

}  // namespace cairn::inline v0
