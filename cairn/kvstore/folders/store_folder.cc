// store_folder.cc -- answers the questions about a folder from a snapshot of a store.
#include <cairn/kvstore/folders/store_folder.h>

#include <cairn/base/executor.h>
#include <cairn/base/text.h>

#include <algorithm>
#include <functional>

namespace cairn::inline v0 {
namespace {

// The last name of "a/b/" or "a/b".
std::string last_name(std::string_view key) {
  if (key.ends_with('/')) key.remove_suffix(1);
  return std::string(key.substr(key.rfind('/') + 1));
}

}  // namespace

FolderPtr StoreFolder::open(StorePtr store, std::string path) {
  path.resize(without_final_slashes(path).size());
  auto values = std::make_shared<const PinnedValues>(std::move(store));
  values->snapshot().prepare("");
  if (!values->snapshot().has_folder(""))
    throw Error(Code::kNotFound, path + ": no object has this prefix");
  return FolderPtr(new StoreFolder(std::move(values), std::move(path), ""));
}

FolderPtr StoreFolder::open_below(const std::string& path) const {
  const std::string folder = folder_at(path);
  values_->snapshot().prepare(folder);
  if (!values_->snapshot().has_folder(folder))
    throw Error(Code::kNotFound, path + ": no object has this prefix");
  return FolderPtr(new StoreFolder(values_, std::string(without_final_slashes(path)), folder));
}

std::string StoreFolder::key_of(const std::string& path) const {
  const std::string name = relative(path);
  return name == "." ? folder_ : folder_ + name;
}

std::string StoreFolder::folder_at(const std::string& path) const {
  const std::string name = relative(path);
  return name == "." ? folder_ : folder_ + name + "/";
}

std::optional<File> StoreFolder::try_open(const std::string& path) const {
  auto source = values_->open(key_of(path));
  if (!source) return std::nullopt;
  return File(path, std::move(source));
}

File StoreFolder::open_file(const std::string& path) const {
  std::optional<File> file = try_open(path);
  if (file) return *std::move(file);
  if (is_folder(path))
    throw Error(Code::kDataLoss, path + ": is a prefix of objects, an object is expected");
  throw Error(Code::kNotFound, path + ": no such object");
}

bool StoreFolder::exists(const std::string& path) const {
  return file_size(path).has_value() || is_folder(path);
}

bool StoreFolder::is_folder(const std::string& path) const {
  return values_->snapshot().has_folder(folder_at(path)) && !file_size(path);
}

std::string StoreFolder::kind_at(const std::string& path) const {
  return file_size(path) ? "a file" : is_folder(path) ? "a directory" : "nothing";
}

std::vector<FolderEntry> StoreFolder::entries(const std::string& path) const {
  const StoreListing level = values_->snapshot().level(folder_at(path));
  std::vector<FolderEntry> entries;
  for (const StoredValue& value : level.values)
    entries.push_back({.name = last_name(value.key), .kind = EntryKind::kFile});
  const std::size_t files = entries.size();
  for (const std::string& folder : level.folders) {
    std::string name = last_name(folder);
    // A store may have both "a" and "a/b". No file system has that; the value counts.
    const auto same =
        std::ranges::find(entries.begin(), entries.begin() + files, name, &FolderEntry::name);
    if (name.empty() || same != entries.begin() + files) continue;
    entries.push_back({.name = std::move(name), .kind = EntryKind::kDirectory, .is_folder = true});
  }
  return entries;
}

std::optional<FileIdentity> StoreFolder::identity(const std::string& path) const {
  if (!exists(path)) return std::nullopt;
  return FileIdentity{.device = 0, .inode = std::hash<std::string>()(path)};
}

std::optional<std::uint64_t> StoreFolder::file_size(const std::string& path) const {
  if (relative(path) == ".") return std::nullopt;
  const auto value = values_->snapshot().find(key_of(path));
  return value ? std::optional(value->size) : std::nullopt;
}

void StoreFolder::prefetch(const std::vector<std::string>& paths) const {
  constexpr std::size_t kMostRequests = 16, kMostPrefetched = 48;  // fewer than stay open
  constexpr std::uint64_t kSmallValue = std::uint64_t{256} << 10U;
  std::vector<std::string> keys;
  for (const std::string& path : paths) {
    const auto size = file_size(path);
    if (size && *size > 0 && *size <= kSmallValue && keys.size() < kMostPrefetched)
      keys.push_back(key_of(path));
  }
  if (keys.size() < 2) return;
  Executor executor(std::min(keys.size(), kMostRequests));
  // The first byte brings all of a small value. An error comes again when the value is read.
  executor.for_each(keys.size(), [&](std::size_t i) {
    (void)try_call([&] {
      std::byte first{};
      if (const auto source = values_->open(keys[i]))
        source->read_into(0, MutableByteView(&first, 1));
      return true;
    });
  });
}

bool StoreFolder::replaced() const {
  return values_->is_replaced() || values_->snapshot().is_outdated(folder_);
}

StorePtr StoreFolder::files() const {
  return make_pinned_store(values_, folder_, shared_from_this());
}

StorePtr files_of(const FolderPtr& folder) {
  const auto* const stored = StoreFolder::of(*folder);
  return stored != nullptr ? stored->files() : open_file_store(folder);
}

}  // namespace cairn::inline v0
