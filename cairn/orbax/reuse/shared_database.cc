// shared_database.cc -- finds the values of an earlier database and the files that hold them.
#include <cairn/orbax/reuse/shared_database.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/ocdbt/read/scan.h>
#include <cairn/ocdbt/write/commit.h>
#include <cairn/ocdbt/write/tree_writer.h>
#include <cairn/orbax/layout/layout.h>

#include <utility>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::string_view kDataFolder = "d";
constexpr std::size_t kNameDigits = 32;

// The name of a data file without its folders; "" if it is not one that Orbax gives.
std::string data_file_name(std::string_view path) {
  const std::string_view name = name_of(path);
  if (name.size() != kNameDigits || !consists_of(name, kHexDigits)) return "";
  return join(kDataFolder, name);
}

}  // namespace

SharedDatabase::Content::Content(const FolderPtr& earlier, std::size_t threads)
    : base_(open_file_store(earlier)) {
  const auto newest = ocdbt::read_state(*base_).newest();
  if (!newest || newest->empty()) return;
  ocdbt::NodeReader reader(base_, threads);
  ocdbt::FileSet files;
  for (const auto& [expected, leaf] : ocdbt::load_leaves(reader, newest->expect_root())) {
    ocdbt::Arena arena;
    for (std::size_t i = 0; i < leaf->node.keys.size(); ++i) {
      const ocdbt::LeafEntry entry = ocdbt::resolved_entry(expected, *leaf, i, files, arena);
      const std::string key(entry.key);
      if (entry.is_inline()) {  // smaller than the entry that would refer to it
        inline_.emplace(key, Bytes(entry.inline_value.begin(), entry.inline_value.end()));
        continue;
      }
      if (entry.file >= files_.size()) {
        const ocdbt::DataFile& file = files[entry.file];
        const std::string path = file.base_path + file.relative_path;
        files_.push_back({.earlier = path, .name = data_file_name(path)});
      }
      files_[entry.file].in_use += entry.length;
      values_.emplace(key, Value{entry.file, entry.offset, entry.length});
    }
  }
}

std::optional<Bytes> SharedDatabase::Content::read(std::string_view key) const {
  const std::string name(key);
  if (const auto found = inline_.find(name); found != inline_.end()) return found->second;
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.length > kMaxMetadataFile) return std::nullopt;
  const Value& value = found->second;
  return base_->read(files_[value.file].earlier, {value.offset, value.length});
}

SharedDatabase::SharedDatabase(FolderPtr earlier, std::string folder,
                               std::shared_ptr<const Content> content)
    : SharedValues(std::move(earlier), std::move(folder)), content_(std::move(content)) {
  files_ = content_->files_;
  values_ = content_->values_;
}

std::optional<Bytes> SharedDatabase::read(std::string_view key) const {
  return content_->read(key);
}

std::optional<std::uint64_t> SharedDatabase::size_of(LinkedFile& file) {
  if (std::exchange(file.is_tried, true) || file.name.empty()) return file.size;
  const auto earlier = earlier_->try_open(join(earlier_->path(), file.earlier));
  if (earlier && is_mostly(file.in_use, earlier->size())) file.size = link(file.earlier, file.name);
  return file.size;
}

std::optional<Location> SharedDatabase::take(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  const auto found = values_.find(std::string(key));
  if (found == values_.end()) return std::nullopt;
  const Value& value = found->second;
  LinkedFile& file = files_[value.file];
  // A file that cannot be linked, for whatever reason, is a file whose values are written anew.
  const auto size = try_call([&] { return size_of(file); });
  if (!size || !size.value()) return std::nullopt;
  if (value.length > *size.value() || value.offset > *size.value() - value.length)
    return std::nullopt;
  return Location{join(folder_, file.name), value.offset, value.length};
}

void SharedDatabase::add_to(ocdbt::DatabaseSink& sink) const {
  for (const auto& [key, value] : values_)
    sink.refer(key, files_[value.file].name, {value.offset, value.length});
}

}  // namespace cairn::inline v0::orbax
