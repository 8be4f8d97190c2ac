// shared_values.cc -- links files, and keeps the links that are worth it.
#include <cairn/orbax/reuse/shared_values.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/orbax/layout/layout.h>

namespace cairn::inline v0::orbax {

std::optional<std::uint64_t> SharedValues::link(const std::string& from, const std::string& to) {
  const std::string path = join(earlier_->path(), from), target = join(folder_, to);
  make_directories(parent_of(target), Durability::kDeferredSync);
  const auto* const local = LocalFolder::of(*earlier_);
  const std::string refusal =
      local == nullptr ? "it is not on a local file system"
                       : link_file(local->descriptor(), earlier_->relative(path), target);
  // Whoever replaces the earlier file now does not change the one that is linked.
  if (refusal.empty()) {
    const auto size = try_call([&] { return File::open(target).size(); });
    if (size) return size.value();
    remove_file(target);
    return std::nullopt;
  }
  const std::scoped_lock lock(refusal_mutex_);
  if (refusal_.empty()) refusal_ = path + ": cannot link it: " + refusal;
  return std::nullopt;
}

void SharedValues::keep(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  Value& value = values_.at(std::string(key));
  value.is_unchanged = true;
  files_[value.file].unchanged += value.length;
}

void SharedValues::replace(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  std::string name(key);
  if (const auto found = values_.find(name); found != values_.end())
    give_up_value(files_[found->second.file]);
  replaced_.insert(std::move(name));
}

bool SharedValues::has(std::string_view key) const {
  const std::string name(key);
  return values_.contains(name) || replaced_.contains(name);
}

bool SharedValues::is_shared(const LinkedFile& file) {
  return file.size && file.unchanged != 0 && is_mostly(file.unchanged, *file.size);
}

void SharedValues::settle() {
  std::erase_if(values_, [&](const auto& entry) {
    return !entry.second.is_unchanged || !is_shared(files_[entry.second.file]);
  });
  for (const LinkedFile& file : files_)
    if (file.size && !is_shared(file)) remove_file(join(folder_, file.name));
}

SharedCounts SharedValues::counts() const {
  SharedCounts counts{.values = static_cast<std::int64_t>(values_.size()), .refusal = refusal_};
  for (const auto& [key, value] : values_) counts.bytes += static_cast<std::int64_t>(value.length);
  return counts;
}

std::vector<std::string> SharedValues::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

}  // namespace cairn::inline v0::orbax
