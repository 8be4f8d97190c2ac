// live_database.cc -- a database as a store that can be written.
#include <cairn/tensorstore_spec/live_database.h>

#include <cairn/kvstore/range.h>
#include <cairn/ocdbt/format/manifest.h>
#include <cairn/ocdbt/write/commit.h>
#include <cairn/ocdbt/write/transaction.h>

#include <mutex>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

class LiveDatabase final : public KvStore {
 public:
  explicit LiveDatabase(std::shared_ptr<const Database> database)
      : database_(std::move(database)) {}

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    return newest()->read(key, range);
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    return newest()->read_at_most(key, most);
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    return newest()->read_into(key, offset, out);
  }
  std::optional<SharedBytes> map(std::string_view key) const override { return newest()->map(key); }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    return newest()->size(key);
  }
  std::optional<Location> locate(std::string_view key) const override {
    return newest()->locate(key);
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    return newest()->list(prefix);
  }
  void write(std::string_view key, ByteView value) override {
    ocdbt::Writer writer(database_->base, commit_options(*database_));
    writer.stream().write(key, value);
    writer.commit();
  }
  void remove(std::string_view key) override {
    check_not_empty(key);
    ocdbt::Writer writer(database_->base, commit_options(*database_));
    writer.stream().remove(key);
    const auto is_there = [&](const KvStore& store) { return store.size(key).has_value(); };
    (void)writer.commit_if(is_there);
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    const ocdbt::Requirement wanted{
        .key = std::string(key),
        .value =
            expected ? std::optional(Bytes(expected->begin(), expected->end())) : std::nullopt};
    ocdbt::Writer writer(database_->base, commit_options(*database_));
    writer.stream().write(key, value);
    return writer.commit_if([&](const KvStore& store) { return ocdbt::is_met(store, wanted); })
        .has_value();
  }
  std::string describe(std::string_view key) const override { return newest()->describe(key); }

 private:
  // Returns the newest version. Its nodes stay in memory until there is another one.
  [[nodiscard]] StorePtr newest() const {
    const ocdbt::DatabaseState found = ocdbt::read_state(*database_->base);
    std::string key = found.info ? found.info->manifest_key : "";
    const std::lock_guard lock(mutex_);
    if (!store_ || manifest_ != found.manifest_bytes || manifest_key_ != key) {
      store_ = open_ocdbt(database_->base);
      manifest_ = found.manifest_bytes;
      manifest_key_ = std::move(key);
    }
    return store_;
  }

  std::shared_ptr<const Database> database_;
  mutable std::mutex mutex_;  // guards the members below
  mutable StorePtr store_;
  // the state of the database when store_ was opened
  mutable std::optional<Bytes> manifest_;
  mutable std::string manifest_key_;
};

}  // namespace

StorePtr open_live_database(std::shared_ptr<const Database> database) {
  return std::make_shared<LiveDatabase>(std::move(database));
}

}  // namespace cairn::inline v0::tensorstore_spec
