// turns.h -- two programs that take turns on one store: each stops at a chosen request, while the
// other one works.
#pragma once

#include <cairn/error.h>
#include <cairn/storage/kvstore.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::testing {

// Where one program stops. Safe to use from many threads.
class Gate {
 public:
  // `stop`: how many requests pass before it is closed.
  explicit Gate(int stop) : stop_(stop) {}

  // A request; waits while the gate is closed.
  void pass() {
    std::unique_lock lock(mutex_);
    if (requests_++ >= stop_ && !is_open_) {
      is_reached_ = true;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return is_open_ || !is_reached_; });
  }
  void open() { set(is_open_); }
  void end() { set(is_reached_); }
  // Waits until the program stops at the gate, or has ended.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_reached_; });
  }
  [[nodiscard]] int requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  void set(bool& member) {
    const std::scoped_lock lock(mutex_);
    member = true;
    changed_.notify_all();
  }

  const int stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int requests_ = 0;
  bool is_open_ = false;
  bool is_reached_ = false;
};

// Every request passes the gate but removals: no store can remove on a condition, so what a program
// looks up just before a removal is taken as one request with it.
class GatedStore final : public KvStore {
 public:
  GatedStore(StorePtr base, std::shared_ptr<Gate> gate)
      : base_(std::move(base)), gate_(std::move(gate)) {}

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
    return ask().list_level(prefix);
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    return ask().list_values(prefix, most);
  }
  std::shared_ptr<const RangeSource> open(std::string_view key,
                                          std::string_view version) const override {
    return ask().open(key, version);
  }
  void write(std::string_view key, ByteView value) override { ask().write(key, value); }
  void remove(std::string_view key) override { base_->remove(key); }
  void remove_all(const std::vector<std::string>& keys) override { base_->remove_all(keys); }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    return ask().replace_if(key, expected, value);
  }
  std::unique_ptr<Appender> append(std::string_view key) override { return ask().append(key); }
  std::string describe(std::string_view key) const override { return base_->describe(key); }

 private:
  KvStore& ask() const {
    gate_->pass();
    return *base_;
  }

  StorePtr base_;
  std::shared_ptr<Gate> gate_;
};

// A program on a gated store, in a thread.
class Program {
 public:
  // `work` gets the store.
  Program(const StorePtr& base, int stop, const std::function<void(const StorePtr&)>& work)
      : gate_(std::make_shared<Gate>(stop)),
        thread_([this, work, store = std::make_shared<GatedStore>(base, gate_)] {
          try {
            work(store);
          } catch (const Error& e) {
            error_ = e;
          }
          gate_->end();
        }) {
    gate_->wait();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { finish(); }

  // Lets it go on to its end. Returns its error, if it has failed.
  const std::optional<Error>& finish() {
    gate_->open();
    if (thread_.joinable()) thread_.join();
    return error_;
  }
  [[nodiscard]] int requests() const { return gate_->requests(); }

 private:
  std::shared_ptr<Gate> gate_;
  std::optional<Error> error_;
  std::thread thread_;
};

}  // namespace cairn::testing
