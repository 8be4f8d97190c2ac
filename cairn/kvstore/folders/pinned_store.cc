// pinned_store.cc -- reads the values of a snapshot.
#include <cairn/kvstore/folders/pinned_store.h>

#include <cairn/io/tree/folder_handle.h>
#include <cairn/kvstore/range.h>

#include <utility>

namespace cairn::inline v0 {
namespace {

class PinnedStore : public KvStore {
 public:
  PinnedStore(PinnedValuesPtr values, std::string folder, FolderPtr handle)
      : values_(std::move(values)), folder_(std::move(folder)), handle_(std::move(handle)) {}

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    const auto source = open_value(key);
    if (!source) return std::nullopt;
    Bytes bytes(with_context([&] { return describe(key); },
                             [&] { return length_in(range, source->size()); }));
    if (!bytes.empty()) source->read_into(range.offset, bytes);
    return bytes;
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    const auto source = open_value(key);
    if (!source) return std::nullopt;
    with_context([&] { return describe(key); }, [&] { check_at_most(source->size(), most); });
    return read(key, {});
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    const auto source = open_value(key);
    if (!source) return false;
    with_context(
        [&] { return describe(key); },
        [&] { return length_in({.offset = offset, .length = out.size()}, source->size()); });
    if (!out.empty()) source->read_into(offset, out);
    return true;
  }
  std::optional<SharedBytes> map(std::string_view key) const override {
    auto bytes = read(key, {});
    if (!bytes) return std::nullopt;
    auto owner = std::make_shared<const Bytes>(*std::move(bytes));
    const ByteView view = *owner;
    return SharedBytes{std::move(owner), view};
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    const auto value = find(key);
    return value ? std::optional(value->size) : std::nullopt;
  }
  std::optional<Location> locate(std::string_view key) const override {
    const auto value = find(key);
    if (!value) return std::nullopt;
    return Location{.file = describe(key), .offset = 0, .length = value->size, .folder = handle_};
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    const std::string whole = folder_ + std::string(prefix);
    std::vector<ListEntry> entries;
    for (StoredValue& value : values_->snapshot().below(whole.substr(0, whole.rfind('/') + 1)))
      if (value.key.starts_with(whole) && value.key.size() > folder_.size())
        entries.push_back({value.key.substr(folder_.size()), value.size});
    return entries;
  }
  void write(std::string_view key, ByteView /*value*/) override { refuse(key); }
  void remove(std::string_view key) override { refuse(key); }
  std::string describe(std::string_view key) const override {
    return handle_->path() + "/" + std::string(key);
  }

 private:
  [[noreturn]] void refuse(std::string_view key) const {
    throw Error(Code::kUnimplemented, describe(key) + ": was opened for reading");
  }
  [[nodiscard]] std::optional<StoredValue> find(std::string_view key) const {
    check_not_empty(key);
    auto value = values_->snapshot().find(folder_ + std::string(key));
    if (!value) handle_->note_missing();
    return value;
  }
  [[nodiscard]] std::shared_ptr<const RangeSource> open_value(std::string_view key) const {
    check_not_empty(key);
    auto source = values_->open(folder_ + std::string(key));
    if (!source) handle_->note_missing();
    return source;
  }

  PinnedValuesPtr values_;
  std::string folder_;
  FolderPtr handle_;
};

// The source, which keeps the store that it reads from: a file may outlive the folder that it was
// opened in.
std::shared_ptr<const RangeSource> with_store(const StorePtr& store,
                                              std::shared_ptr<const RangeSource> source) {
  const RangeSource* const read = source.get();
  const auto both = std::make_shared<std::pair<StorePtr, std::shared_ptr<const RangeSource>>>(
      store, std::move(source));
  return {both, read};
}

}  // namespace

std::shared_ptr<const RangeSource> PinnedValues::find_open(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  opened_.splice(opened_.begin(), opened_, found->second);
  return found->second->second;
}

void PinnedValues::keep_open(const std::string& key,
                             std::shared_ptr<const RangeSource> source) const {
  const std::scoped_lock lock(mutex_);
  if (index_.contains(key)) return;  // another thread was faster
  opened_.emplace_front(key, std::move(source));
  index_[key] = opened_.begin();
  if (opened_.size() <= kMostOpen) return;
  index_.erase(opened_.back().first);
  opened_.pop_back();
}

std::shared_ptr<const RangeSource> PinnedValues::open(const std::string& key) const {
  if (auto source = find_open(key)) return source;
  const auto value = snapshot_.find(key);
  if (!value) return nullptr;
  auto source = snapshot_.store()->open_listed(*value);
  // Without versions a value that was replaced can only be told by its size.
  if (source == nullptr || source->size() != value->size) {
    is_replaced_.store(true, std::memory_order_relaxed);
    throw Error(Code::kUnavailable,
                snapshot_.store()->describe(key) +
                    ": was replaced or removed while Cairn read it; open it again");
  }
  source = with_store(snapshot_.store(), std::move(source));
  keep_open(key, source);
  return source;
}

StorePtr make_pinned_store(PinnedValuesPtr values, std::string folder, FolderPtr handle) {
  return std::make_shared<PinnedStore>(std::move(values), std::move(folder), std::move(handle));
}

}  // namespace cairn::inline v0
