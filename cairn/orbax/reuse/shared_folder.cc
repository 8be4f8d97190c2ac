// shared_folder.cc -- links the files of chunks.
#include <cairn/orbax/reuse/shared_folder.h>

#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>

namespace cairn::inline v0::orbax {

std::optional<Bytes> SharedFolder::read(std::string_view key) const {
  return open_file_store(earlier_)->read_at_most(key, kMaxMetadataFile);
}

std::optional<Location> SharedFolder::link(std::string_view key) {
  const std::string from = join(earlier_->path(), key);
  if (!earlier_->exists(from)) return std::nullopt;
  const std::string to = join(folder_, key);
  make_directories(parent_of(to), Durability::kDeferredSync);
  const std::string refusal = link_file(earlier_->descriptor(), earlier_->relative(from), to);
  if (refusal.empty()) return Location{to, 0, File::open(to).size()};
  const std::scoped_lock lock(mutex_);
  if (refusal_.empty()) refusal_ = from + ": cannot link it: " + refusal;
  return std::nullopt;
}

std::optional<Location> SharedFolder::take(std::string_view key) {
  // A file that cannot be linked, for whatever reason, is written anew.
  auto location = try_call([&] { return link(key); });
  if (!location || !location.value()) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  shared_.emplace(key, location.value()->length);
  return std::move(location).value();
}

void SharedFolder::decide(std::string_view key, bool is_unchanged) {
  if (is_unchanged) return;
  remove_file(join(folder_, key));
  const std::scoped_lock lock(mutex_);
  shared_.erase(std::string(key));
}

bool SharedFolder::has(std::string_view key) const { return shared_.contains(std::string(key)); }

SharedCounts SharedFolder::counts() const {
  SharedCounts counts{.values = static_cast<std::int64_t>(shared_.size()), .refusal = refusal_};
  for (const auto& [key, size] : shared_) counts.bytes += static_cast<std::int64_t>(size);
  return counts;
}

}  // namespace cairn::inline v0::orbax
