// shared_folder.cc -- finds the files of chunks.
#include <cairn/orbax/reuse/shared_folder.h>

#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/orbax/layout/layout.h>

namespace cairn::inline v0::orbax {

std::optional<Bytes> SharedFolder::read(std::string_view key) const {
  return open_file_store(earlier_)->read_at_most(key, kMaxMetadataFile);
}

std::optional<Location> SharedFolder::take(std::string_view key) {
  const std::string name(key);
  // A file that cannot be linked, for whatever reason, is written anew.
  const auto size = try_call([&]() -> std::optional<std::uint64_t> {
    if (!earlier_->exists(join(earlier_->path(), name))) return std::nullopt;
    return link(name, name);
  });
  if (!size || !size.value()) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  values_.emplace(name, Value{.file = files_.size(), .length = *size.value()});
  files_.push_back({.earlier = name, .name = name, .size = *size.value()});
  return Location{join(folder_, name), 0, *size.value()};
}

void SharedFolder::give_up_value(LinkedFile& file) {
  remove_file(join(folder_, file.name));
  file.size.reset();
}

}  // namespace cairn::inline v0::orbax
