// routed_store.cc -- a database whose manifest is in a different store from its data files.
#include <cairn/tensorstore_spec/routed_store.h>

#include <cairn/ocdbt/format/manifest.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

class RoutedStore : public KvStore {
 public:
  RoutedStore(StorePtr base, StorePtr manifest)
      : base_(std::move(base)), manifest_(std::move(manifest)) {}

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    return of(key).read(key, range);
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    return of(key).read_at_most(key, most);
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    return of(key).read_into(key, offset, out);
  }
  std::optional<SharedBytes> map(std::string_view key) const override { return of(key).map(key); }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    return of(key).size(key);
  }
  std::optional<Location> locate(std::string_view key) const override {
    return of(key).locate(key);
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    std::vector<ListEntry> entries = base_->list(prefix);
    std::erase_if(entries, [](const ListEntry& entry) { return is_manifest(entry.key); });
    for (ListEntry& entry : manifest_->list(prefix))
      if (is_manifest(entry.key)) entries.push_back(std::move(entry));
    std::sort(entries.begin(), entries.end(),
              [](const ListEntry& a, const ListEntry& b) { return a.key < b.key; });
    return entries;
  }
  void write(std::string_view key, ByteView value) override { of(key).write(key, value); }
  void remove(std::string_view key) override { of(key).remove(key); }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    return of(key).replace_if(key, expected, value);
  }
  std::unique_ptr<Appender> append(std::string_view key) override { return of(key).append(key); }
  std::string describe(std::string_view key) const override { return of(key).describe(key); }

 private:
  static bool is_manifest(std::string_view key) {
    return key == ocdbt::kManifestKey || ocdbt::numbered_manifest_generation(key).has_value();
  }
  [[nodiscard]] KvStore& of(std::string_view key) const {
    return is_manifest(key) ? *manifest_ : *base_;
  }

  StorePtr base_;
  StorePtr manifest_;
};

}  // namespace

StorePtr route_manifest(StorePtr base, StorePtr manifest) {
  return std::make_shared<RoutedStore>(std::move(base), std::move(manifest));
}

}  // namespace cairn::inline v0::tensorstore_spec
