// unlisted_folder.cc -- asks for files one by one.
#include <cairn/kvstore/folders/unlisted_folder.h>

#include <cairn/base/text.h>
#include <cairn/io/tree/range_source.h>

#include <functional>
#include <utility>

namespace cairn::inline v0 {

FolderPtr UnlistedFolder::open(StorePtr store, std::string path) {
  path.resize(without_final_slashes(path).size());
  return FolderPtr(new UnlistedFolder(std::move(store), std::move(path)));
}

UnlistedFolder::SourcePtr UnlistedFolder::find(const std::string& path) const {
  const std::string name = relative(path);
  if (name == ".") return nullptr;
  const std::scoped_lock lock(mutex_);
  const auto asked = asked_.find(name);
  if (asked != asked_.end()) return asked->second;
  return asked_.emplace(name, store_->open(name, {})).first->second;
}

void UnlistedFolder::fail_to_list(const std::string& path) const {
  throw Error(Code::kUnimplemented,
              path +
                  ": this server does not list its files; give the URL of one checkpoint or of a "
                  "file, or copy it");
}

FolderPtr UnlistedFolder::open_below(const std::string& path) const { fail_to_list(path); }

std::optional<File> UnlistedFolder::try_open(const std::string& path) const {
  auto source = find(path);
  if (!source) return std::nullopt;
  return File(path, std::move(source));
}

File UnlistedFolder::open_file(const std::string& path) const {
  std::optional<File> file = try_open(path);
  if (file) return *std::move(file);
  throw Error(Code::kNotFound, path + ": no such file");
}

bool UnlistedFolder::exists(const std::string& path) const { return find(path) != nullptr; }

bool UnlistedFolder::is_folder(const std::string& path) const { return relative(path) == "."; }

std::string UnlistedFolder::kind_at(const std::string& path) const {
  return is_folder(path) ? "a directory" : exists(path) ? "a file" : "nothing";
}

std::vector<FolderEntry> UnlistedFolder::entries(const std::string& path) const {
  fail_to_list(path);
}

std::optional<FileIdentity> UnlistedFolder::identity(const std::string& path) const {
  if (!exists(path)) return std::nullopt;
  return FileIdentity{.device = 0, .inode = std::hash<std::string>()(path)};
}

std::optional<std::uint64_t> UnlistedFolder::file_size(const std::string& path) const {
  const auto source = find(path);
  return source ? std::optional(source->size()) : std::nullopt;
}

}  // namespace cairn::inline v0
