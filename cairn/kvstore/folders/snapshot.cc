// snapshot.cc -- lists as little of a store as the questions need.
#include <cairn/kvstore/folders/snapshot.h>

#include <cairn/kvstore/folders/known_names.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace cairn::inline v0 {
namespace {

// A page of a listing in every object store.
constexpr std::size_t kListingPage = 1000;
// The values that are listed at once where many folders would otherwise be listed one by one.
constexpr std::size_t kMostAtOnce = 100'000;

// "" for a name without '/'; else up to and with the last '/'.
std::string folder_of(const std::string& key) {
  const auto slash = key.rfind('/');
  return slash == std::string::npos ? std::string() : key.substr(0, slash + 1);
}

// The values of a sorted list whose keys begin with `folder`.
std::span<const StoredValue> part_below(const std::vector<StoredValue>& values,
                                        const std::string& folder) {
  const auto first = std::ranges::lower_bound(values, folder, {}, &StoredValue::key);
  const auto last = std::find_if(first, values.end(), [&](const StoredValue& value) {
    return !value.key.starts_with(folder);
  });
  return {first, last};
}

// The next level of a sorted list of values, all of which lie below `folder`. Jumps over what lies
// deeper.
StoreListing level_of(std::span<const StoredValue> values, const std::string& folder) {
  StoreListing level;
  for (std::size_t i = 0; i < values.size();) {
    const std::string& key = values[i].key;
    const auto slash = key.find('/', folder.size());
    if (slash == std::string::npos) {
      level.values.push_back(values[i++]);
      continue;
    }
    level.folders.push_back(key.substr(0, slash + 1));
    const auto after = std::ranges::partition_point(values.subspan(i), [&](const auto& value) {
      return value.key.starts_with(level.folders.back());
    });
    i = static_cast<std::size_t>(after - values.begin());
  }
  return level;
}

// Some programs store an empty value "folder/" to show that there is a folder.
void drop_marker(StoreListing& level, const std::string& folder) {
  std::erase_if(level.values, [&](const StoredValue& value) { return value.key == folder; });
}

bool has_changed(const std::vector<StoredValue>& before, const std::vector<StoredValue>& now) {
  return !std::ranges::equal(before, now, [](const StoredValue& a, const StoredValue& b) {
    return a.key == b.key && a.size == b.size && a.version == b.version;
  });
}

}  // namespace

const std::vector<StoredValue>* Snapshot::known_below(const std::string& folder) const {
  for (std::string above = folder;; above = folder_of(above.substr(0, above.size() - 1))) {
    if (const auto found = below_.find(above); found != below_.end()) return &found->second;
    if (above.empty()) return nullptr;
  }
}

void Snapshot::list_below(const std::string& folder, std::size_t most) const {
  if (known_below(folder) != nullptr) return;
  const auto larger = larger_.find(folder);
  if (larger != larger_.end() && larger->second >= most) return;
  StoreListing listing = store_->list_values(folder, most);
  if (!listing.is_whole) {
    larger_[folder] = most;
    return;
  }
  drop_marker(listing, folder);
  below_.emplace(folder, std::move(listing.values));
}

const StoreListing& Snapshot::listed_level(const std::string& folder) const {
  const auto found = levels_.find(folder);
  if (found != levels_.end()) return found->second;
  StoreListing level = store_->list_level(folder);
  drop_marker(level, folder);
  return levels_.emplace(folder, std::move(level)).first->second;
}

std::optional<StoredValue> Snapshot::find(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  const std::string folder = folder_of(key);
  // A folder's own level is known if its names were listed.
  if (known_below(folder) == nullptr && !levels_.contains(folder)) {
    // The key is one of many, perhaps each in a folder of its own.
    const auto larger = std::ranges::find_if(
        larger_, [&](const auto& entry) { return folder.starts_with(entry.first); });
    list_below(larger == larger_.end() ? folder : larger->first, kMostAtOnce);
  }
  const auto* all = known_below(folder);
  const auto& values = all != nullptr ? *all : listed_level(folder).values;
  const auto found = std::ranges::lower_bound(values, key, {}, &StoredValue::key);
  if (found != values.end() && found->key == key) return *found;
  // Listings of such a store are not complete.
  const auto* const names = dynamic_cast<const KnownNames*>(store_.get());
  return names != nullptr ? names->look_up(key) : std::nullopt;
}

bool Snapshot::has_folder(const std::string& folder) const {
  const std::scoped_lock lock(mutex_);
  if (const auto* all = known_below(folder)) return !part_below(*all, folder).empty();
  if (folder.empty() || levels_.contains(folder)) {
    const StoreListing& level = listed_level(folder);
    return !level.values.empty() || !level.folders.empty();
  }
  const auto& folders = listed_level(folder_of(folder.substr(0, folder.size() - 1))).folders;
  return std::ranges::binary_search(folders, folder);
}

StoreListing Snapshot::level(const std::string& folder) const {
  const std::scoped_lock lock(mutex_);
  const auto* all = known_below(folder);
  return all != nullptr ? level_of(part_below(*all, folder), folder) : listed_level(folder);
}

std::vector<StoredValue> Snapshot::below(const std::string& folder) const {
  const std::scoped_lock lock(mutex_);
  list_below(folder, SIZE_MAX);
  const auto* all = known_below(folder);
  if (all == nullptr)
    throw Error(Code::kFailedPrecondition, store_->describe(folder) + ": holds too many objects");
  const auto part = part_below(*all, folder);
  return {part.begin(), part.end()};
}

void Snapshot::prepare(const std::string& folder) const {
  const std::scoped_lock lock(mutex_);
  list_below(folder, kListingPage);
}

bool Snapshot::knows_all_below(const std::string& folder) const {
  const std::scoped_lock lock(mutex_);
  return known_below(folder) != nullptr;
}

bool Snapshot::is_outdated(const std::string& folder) const {
  if (dynamic_cast<const KnownNames*>(store_.get()) != nullptr) return false;  // it lists nothing
  const std::scoped_lock lock(mutex_);
  if (const auto* all = known_below(folder)) {
    // One page shows one moment.
    if (all->size() <= kListingPage) return false;
    const auto part = part_below(*all, folder);
    StoreListing now = store_->list_values(folder, SIZE_MAX);
    drop_marker(now, folder);
    return has_changed({part.begin(), part.end()}, now.values);
  }
  const auto before = levels_.find(folder);
  if (before == levels_.end()) return false;
  StoreListing now = store_->list_level(folder);
  drop_marker(now, folder);
  return before->second.folders != now.folders || has_changed(before->second.values, now.values);
}

}  // namespace cairn::inline v0
