// store.cc -- an OCDBT database as a read-only KvStore. Opening reads only the manifest (and, for
// an old version, the version nodes on the path to it). B+tree nodes are read when a key leads to
// them.
#include <cairn/base/text/time_text.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/kvstore/range.h>
#include <cairn/ocdbt/read/node_reader.h>
#include <cairn/ocdbt/read/scan.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/storage/kvstore.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0 {
namespace ocdbt {
namespace {

// The value of a key: in a leaf, or in a data file.
struct FoundValue {
  const LoadedNode* leaf = nullptr;
  LeafValue value;
  NodePtr owner;  // of the leaf; null for the root, which the store keeps

  [[nodiscard]] ByteView inline_bytes() const { return leaf->node.inline_value(value); }
};

// The leaf in which threads found their last key. Callers look up keys in order, so the next one is
// usually in that leaf, too.
struct LastLeaf {
  std::mutex mutex;
  NodePtr leaf;
  std::string prefix;  // of its keys
};

class OcdbtStore final : public KvStore {
 public:
  OcdbtStore(StorePtr base, std::optional<NodeExpectation> root, std::size_t threads)
      : base_(std::move(base)), reader_(base_, threads), root_(std::move(root)) {}

  [[nodiscard]] std::optional<Bytes> read(std::string_view key, ByteRange range) const override;
  [[nodiscard]] std::optional<Bytes> read_at_most(std::string_view key,
                                                  std::uint64_t most) const override;
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override;
  [[nodiscard]] std::optional<SharedBytes> map(std::string_view key) const override;
  [[nodiscard]] std::optional<std::uint64_t> size(std::string_view key) const override;
  [[nodiscard]] std::optional<Location> locate(std::string_view key) const override;
  [[nodiscard]] std::vector<ListEntry> list(std::string_view prefix) const override;
  void write(std::string_view key, ByteView value) override;
  void remove(std::string_view key) override;
  [[nodiscard]] std::string describe(std::string_view key) const override;

 private:
  [[nodiscard]] std::optional<FoundValue> find(std::string_view key) const;
  // Looks in the last leaf. nullopt: the key may be elsewhere.
  [[nodiscard]] std::optional<FoundValue> find_in_last(std::string_view key) const;
  [[nodiscard]] LastLeaf& last_leaf() const;
  // The root, which lives as long as the store. Every lookup begins with it, so lookups share no
  // lock and no count of users.
  [[nodiscard]] const NodePtr& root() const;
  [[nodiscard]] std::uint64_t checked_length(std::string_view key, const LeafValue& value,
                                             const ByteRange& range) const;
  [[nodiscard]] std::optional<Bytes> read_found(std::string_view key, const FoundValue& found,
                                                const ByteRange& range) const;
  // Runs f(file, offset), which reads the `length` bytes of an out-of-line value and returns
  // whether the file exists.
  template <class F>
  void read_value(std::string_view key, const FoundValue& found, F f) const;
  [[nodiscard]] SharedBytes mapped_file(const std::string& file) const;
  [[nodiscard]] const Location* located_file(const std::string& file) const;

  StorePtr base_;
  mutable NodeReader reader_;
  std::optional<NodeExpectation> root_;  // nullopt: the tree is empty
  mutable std::atomic<bool> has_root_ = false;
  mutable NodePtr loaded_root_;  // set once, before has_root_
  // Few, because each keeps a leaf in memory, but several, so that threads rarely share one.
  mutable std::array<LastLeaf, 4> last_leaves_;
  mutable std::mutex mutex_;  // guards setting the root, and the members below
  mutable std::map<std::string, SharedBytes, std::less<>> mapped_files_;
  mutable std::unordered_map<std::string, Location> located_files_;  // entries are never removed
};

const NodePtr& OcdbtStore::root() const {
  if (!has_root_.load(std::memory_order_acquire)) {
    NodePtr node = reader_.load(*root_);
    const std::lock_guard lock(mutex_);
    if (!loaded_root_) loaded_root_ = std::move(node);
    has_root_.store(true, std::memory_order_release);
  }
  return loaded_root_;
}

// Where this thread found its last key, in whichever leaf: only a hint.
std::size_t& last_place() {
  thread_local std::size_t place = 0;
  return place;
}

std::optional<FoundValue> value_in(const LoadedNode& leaf, NodePtr owner, std::string_view rest) {
  const std::size_t i = leaf.node.keys.find(rest, last_place());
  if (i == leaf.node.keys.size()) return std::nullopt;
  last_place() = i;
  return FoundValue{&leaf, leaf.node.values[i], std::move(owner)};
}

LastLeaf& OcdbtStore::last_leaf() const {
  return last_leaves_[std::hash<std::thread::id>()(std::this_thread::get_id()) %
                      last_leaves_.size()];
}

std::optional<FoundValue> OcdbtStore::find_in_last(std::string_view key) const {
  LastLeaf& last = last_leaf();
  const std::lock_guard lock(last.mutex);
  if (last.leaf == nullptr || !key.starts_with(last.prefix)) return std::nullopt;
  const std::string_view rest = key.substr(last.prefix.size());
  const KeyList& keys = last.leaf->node.keys;
  if (rest < keys.front() || keys.back() < rest) return std::nullopt;
  return value_in(*last.leaf, last.leaf, rest);
}

std::optional<FoundValue> OcdbtStore::find(std::string_view key) const {
  check_not_empty(key);
  if (!root_) return std::nullopt;
  const LoadedNode* node = root().get();
  if (node->node.height == 0) return value_in(*node, nullptr, key);
  if (auto found = find_in_last(key)) return found;
  NodePtr owner;
  NodeExpectation expected = *root_;
  std::string_view rest = key;
  while (node->node.height > 0) {
    const std::size_t after = node->node.keys.upper_bound(rest);
    if (after == 0) return std::nullopt;
    const std::size_t shared = node->node.children[after - 1].subtree_common_prefix_length;
    if (!rest.starts_with(node->node.keys[after - 1].substr(0, shared))) return std::nullopt;
    rest.remove_prefix(shared);
    expected = expect_child(*node, expected, after - 1);
    owner = reader_.load(expected);
    node = owner.get();
  }
  {
    LastLeaf& last = last_leaf();
    const std::lock_guard lock(last.mutex);
    last.leaf = owner;
    last.prefix = expected.prefix;
  }
  return value_in(*node, std::move(owner), rest);
}

std::uint64_t OcdbtStore::checked_length(std::string_view key, const LeafValue& value,
                                         const ByteRange& range) const {
  return with_context([&] { return describe(key); },
                      [&] { return length_in(range, value.length); });
}

template <class F>
void OcdbtStore::read_value(std::string_view key, const FoundValue& found, F f) const {
  with_context(
      [&] { return describe(key); },
      [&] {
        found.leaf->with_path(found.value.file, [&](const std::string& file) {
          const auto damaged = [&](std::string_view what) {
            throw Error(
                Code::kDataLoss,
                fmt::format("its value of {} bytes should be at offset {} of {}, but {}",
                            found.value.length, found.value.offset, base_->describe(file), what));
          };
          bool there = false;
          try {
            there = f(file, found.value.offset);
          } catch (const Error& e) {
            if (e.code() != Code::kOutOfRange) throw;
            damaged(fmt::format("that file is too short: {}{}", e.message(),
                                short_file_remark(*base_, file)));
          }
          if (!there) damaged("that file is missing");
        });
      });
}

std::optional<Bytes> OcdbtStore::read(std::string_view key, ByteRange range) const {
  const auto found = find(key);
  if (!found) return std::nullopt;
  return read_found(key, *found, range);
}

std::optional<Bytes> OcdbtStore::read_at_most(std::string_view key, std::uint64_t most) const {
  const auto found = find(key);
  if (!found) return std::nullopt;
  with_context([&] { return describe(key); }, [&] { check_at_most(found->value.length, most); });
  return read_found(key, *found, {});
}

std::optional<Bytes> OcdbtStore::read_found(std::string_view key, const FoundValue& found,
                                            const ByteRange& range) const {
  const std::uint64_t length = checked_length(key, found.value, range);
  if (found.value.is_inline()) {
    const ByteView bytes = found.inline_bytes().subspan(range.offset, length);
    return Bytes(bytes.begin(), bytes.end());
  }
  std::optional<Bytes> bytes;
  read_value(key, found, [&](const std::string& file, std::uint64_t begin) {
    bytes = base_->read(file, {.offset = begin + range.offset, .length = length});
    return bytes.has_value();
  });
  return bytes;
}

bool OcdbtStore::read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const {
  const auto found = find(key);
  if (!found) return false;
  (void)checked_length(key, found->value, {.offset = offset, .length = out.size()});
  if (found->value.is_inline()) {
    const ByteView bytes = found->inline_bytes().subspan(offset, out.size());
    std::ranges::copy(bytes, out.begin());
  } else {
    read_value(key, *found, [&](const std::string& file, std::uint64_t begin) {
      return base_->read_into(file, begin + offset, out);
    });
  }
  return true;
}

// Maps a data file once, because many values share it. Returns no owner if the file does not exist
// or cannot be mapped.
SharedBytes OcdbtStore::mapped_file(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  if (const auto at = mapped_files_.find(file); at != mapped_files_.end()) return at->second;
  // A data file of a store would be fetched as a whole.
  const auto location = base_->locate(file);
  if (!location || (location->folder && !location->folder->is_local())) return {};
  auto mapped = base_->map(file);
  if (!mapped) return {};
  return mapped_files_.emplace(file, *std::move(mapped)).first->second;
}

// Asks the base store once per file: thousands of values share a data file, and a referenced file
// never changes.
const Location* OcdbtStore::located_file(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  if (const auto at = located_files_.find(file); at != located_files_.end()) return &at->second;
  auto location = base_->locate(file);
  return location ? &located_files_.emplace(file, *std::move(location)).first->second : nullptr;
}

std::optional<SharedBytes> OcdbtStore::map(std::string_view key) const {
  const auto found = find(key);
  if (!found) return std::nullopt;
  if (found->value.is_inline())
    return SharedBytes{found->owner ? found->owner : root(), found->inline_bytes()};
  SharedBytes result;
  read_value(key, *found, [&](const std::string& file, std::uint64_t begin) {
    const std::uint64_t length = found->value.length;
    if (const SharedBytes whole = mapped_file(file); whole.owner) {
      if (begin > whole.bytes.size() || length > whole.bytes.size() - begin)
        throw Error(Code::kOutOfRange, fmt::format("it has {} bytes", whole.bytes.size()));
      result = {whole.owner, whole.bytes.subspan(begin, length)};
      return true;
    }
    // read only this value, not the whole file
    auto bytes = base_->read(file, {.offset = begin, .length = length});
    if (!bytes) return false;
    const auto owner = std::make_shared<const Bytes>(*std::move(bytes));
    result = {owner, *owner};
    return true;
  });
  return result;
}

std::optional<std::uint64_t> OcdbtStore::size(std::string_view key) const {
  const auto found = find(key);
  if (!found) return std::nullopt;
  return found->value.length;
}

std::optional<Location> OcdbtStore::locate(std::string_view key) const {
  const auto found = find(key);
  if (!found || found->value.is_inline()) return std::nullopt;
  std::optional<Location> result;
  read_value(key, *found, [&](const std::string& file, std::uint64_t begin) {
    const std::uint64_t length = found->value.length;
    if (const Location* whole = located_file(file)) {
      if (begin > whole->length || length > whole->length - begin)
        throw Error(Code::kOutOfRange, fmt::format("it has {} bytes", whole->length));
      result = {.file = whole->file,
                .offset = whole->offset + begin,
                .length = length,
                .folder = whole->folder};
    }
    return true;  // a later read reports a missing file
  });
  return result;
}

std::vector<ListEntry> OcdbtStore::list(std::string_view prefix) const {
  if (!root_) return {};
  auto entries = list_keys(reader_, *root_, prefix);
  // A database may have an empty key, but a KvStore does not have one.
  if (!entries.empty() && entries.front().key.empty()) entries.erase(entries.begin());
  return entries;
}

void OcdbtStore::write(std::string_view key, ByteView /*value*/) {
  throw Error(Code::kUnimplemented, fmt::format("{}: this database is read-only", describe(key)));
}

void OcdbtStore::remove(std::string_view key) {
  throw Error(Code::kUnimplemented, fmt::format("{}: this database is read-only", describe(key)));
}

std::string OcdbtStore::describe(std::string_view key) const {
  return fmt::format("'{}' of {}", key, base_->describe(kManifestKey));
}

std::string wanted_text(const OcdbtVersion& version) {
  if (version.generation) return fmt::format("generation {}", *version.generation);
  const std::uint64_t time = *version.commit_time_ns;
  // Signed nanoseconds end in the year 2262.
  const std::string date = time <= static_cast<std::uint64_t>(INT64_MAX)
                               ? fmt::format(" ({})", time_text(static_cast<std::int64_t>(time)))
                               : "";
  return fmt::format("version committed at or before {} ns{}", time, date);
}

}  // namespace

StorePtr open_tree(StorePtr base, std::optional<NodeExpectation> root, std::size_t threads) {
  return std::make_shared<OcdbtStore>(std::move(base), std::move(root), threads);
}

}  // namespace ocdbt

StorePtr open_ocdbt(StorePtr base, OcdbtVersion version, std::size_t threads) {
  const bool named = version.generation || version.commit_time_ns;
  const auto info = ocdbt::read_database_info(*base);
  const auto found = info ? ocdbt::find_version(*base, *info, version) : std::nullopt;
  if (!found && named)
    throw Error(Code::kNotFound, fmt::format("{}: {}", base->describe(ocdbt::kManifestKey),
                                             info ? "there is no " + ocdbt::wanted_text(version)
                                                  : "there is no OCDBT manifest"));
  std::optional<ocdbt::NodeExpectation> root;
  if (found && !found->empty()) root = found->expect_root();
  return ocdbt::open_tree(std::move(base), std::move(root), threads);
}

}  // namespace cairn::inline v0
