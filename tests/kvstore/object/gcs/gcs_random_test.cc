// gcs_random_test.cc -- random operations on a GcsStore whose requests fail at random, and on a
// store in memory: both must give the same results.
#include <cairn/kvstore/object/gcs/gcs_store.h>
#include <gmock/gmock.h>

#include <random>
#include <set>

#include "tests/kvstore/object/support/fake_gcs.h"
#include "tests/support/seed.h"

namespace cairn::object {
namespace {

using testing::FakeGcs;
using testing::GcsFault;

class RandomOperations {
 public:
  explicit RandomOperations(std::uint32_t seed) : random_(seed) {
    fake_->page_size = 1 + draw(5);
    fake_->calls_of_copy = static_cast<int>(1 + draw(3));
    fake_->fault = [this](std::size_t) { return draw_fault(); };
  }

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      do_one();
      if (::testing::Test::HasFailure()) return;
    }
    fake_->fault = [](std::size_t) { return GcsFault::kNone; };
    EXPECT_EQ(gcs_->list(""), model_->list(""));
    for (const ListEntry& entry : model_->list(""))
      EXPECT_EQ(gcs_->read(entry.key, {}), model_->read(entry.key, {}));
  }

 private:
  std::size_t draw(std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_);
  }
  GcsFault draw_fault() {
    return draw(4) == 0 ? static_cast<GcsFault>(1 + draw(4)) : GcsFault::kNone;
  }
  std::string draw_key() {
    constexpr const char* kRandomKeys[] = {"a", "a/b", "a/b/c",      "a/bc",
                                           "b", "b c", "c/\xc3\xa9", "c/%41"};
    return kRandomKeys[draw(std::size(kRandomKeys))];
  }
  std::string draw_value() { return std::string(draw(40), static_cast<char>('a' + draw(3))); }

  // Applies one function to both stores and compares what it returns, or which error it throws.
  template <class F>
  void on_both(const char* what, F f) {
    const auto expected = try_call([&] { return f(*model_); });
    const auto found = try_call([&] { return f(*gcs_); });
    ASSERT_EQ(expected.ok(), found.ok()) << what << (found ? "" : found.error().what());
    EXPECT_TRUE(expected ? expected.value() == found.value()
                         : expected.error().code() == found.error().code())
        << what;
  }

  void do_one() {
    const std::string key = draw_key(), other = draw_key(), value = draw_value();
    switch (draw(12)) {
      case 0:
        return read(key);
      case 1:
        return on_both("size", [&](KvStore& store) { return store.size(key); });
      case 2:
        return on_both("list", [&](KvStore& store) { return store.list(key); });
      case 3:
        return list_level(key);
      case 4:
        return list_values(key);
      case 5:
      case 6:
        return write(key, value);
      case 7:
        return remove(key, other);
      case 8:
        return on_both("copy", [&](KvStore& store) { return store.copy(key, other); });
      case 9:
        return replace(key, value);
      case 10:
        return append(key, value);
      default:
        return read_into(key);
    }
  }
  void read(const std::string& key) {
    const ByteRange range{draw(30), draw(2) == 0 ? std::nullopt : std::optional(draw(30))};
    on_both("read", [&](KvStore& store) { return store.read(key, range); });
    on_both("read_at_most", [&](KvStore& store) { return store.read_at_most(key, 20); });
  }
  void read_into(const std::string& key) {
    const std::size_t offset = draw(30), length = draw(20);
    on_both("read_into", [&](KvStore& store) {
      Bytes out(length);
      const bool is_there = store.read_into(key, offset, out);
      return std::pair(is_there, out);
    });
  }
  void list_level(const std::string& prefix) {
    on_both("list_level", [&](KvStore& store) {
      const StoreListing level = store.list_level(prefix);
      return std::pair(keys_of(level), level.folders);
    });
  }
  void list_values(const std::string& prefix) {
    const std::size_t most = 1 + draw(6);
    on_both("list_values", [&](KvStore& store) {
      const StoreListing values = store.list_values(prefix, most);
      return std::pair(keys_of(values), values.is_whole);
    });
  }
  static std::vector<ListEntry> keys_of(const StoreListing& listing) {
    std::vector<ListEntry> keys;
    for (const StoredValue& value : listing.values) keys.push_back({value.key, value.size});
    return keys;
  }
  void write(const std::string& key, const std::string& value) {
    on_both("write", [&](KvStore& store) {
      store.write(key, as_bytes(value));
      return true;
    });
  }
  void remove(const std::string& key, const std::string& other) {
    const bool is_one = draw(2) == 0;
    on_both("remove", [&](KvStore& store) {
      is_one ? store.remove(key) : store.remove_all({key, other});
      return true;
    });
  }
  void replace(const std::string& key, const std::string& value) {
    // Mostly what is stored, sometimes something else or nothing.
    const auto stored = model_->read(key, {});
    const std::string other = draw_value();
    const bool is_other = draw(4) == 0;
    const auto expected = is_other ? std::optional<ByteView>(as_bytes(other))
                          : stored ? std::optional<ByteView>(*stored)
                                   : std::nullopt;
    on_both("replace_if",
            [&](KvStore& store) { return store.replace_if(key, expected, as_bytes(value)); });
  }
  void append(const std::string& key, const std::string& value) {
    const bool commits = draw(3) != 0;
    on_both("append", [&](KvStore& store) {
      const auto appender = store.append(key);
      const ByteView parts[] = {as_bytes(value), as_bytes("-end")};
      appender->append(parts);
      if (commits) appender->commit();
      return appender->size();
    });
  }

  std::mt19937 random_;
  std::shared_ptr<FakeGcs> fake_ = std::make_shared<FakeGcs>();
  StorePtr gcs_ = make_gcs_store(testing::client_of(fake_));
  StorePtr model_ = make_memory_store();
};

TEST(GcsStore, DoesWhatAStoreInMemoryDoes) {
  for (std::uint32_t round = 0; round < 20; ++round) {
    SCOPED_TRACE(cairn::testing::seed() + round);
    RandomOperations(cairn::testing::seed() + round).run(150);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace cairn::object
