// shared_database.cc -- finds the values of an earlier database and links their files.
#include <cairn/orbax/reuse/shared_database.h>

#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
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
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.size() != kNameDigits || !consists_of(name, kHexDigits)) return "";
  return join(kDataFolder, name);
}

bool is_mostly(std::uint64_t part, std::uint64_t whole) { return part >= whole - whole / 2; }

}  // namespace

SharedDatabase::SharedDatabase(FolderPtr earlier, std::string folder, std::size_t threads)
    : earlier_(std::move(earlier)),
      folder_(std::move(folder)),
      values_(open_ocdbt(open_file_store(earlier_), {}, threads)) {
  read_tree(threads);
}

void SharedDatabase::read_tree(std::size_t threads) {
  const StorePtr base = open_file_store(earlier_);
  const auto newest = ocdbt::read_state(*base).newest();
  if (!newest || newest->empty()) return;
  ocdbt::NodeReader reader(base, threads);
  ocdbt::FileSet files;
  for (const auto& [expected, leaf] : ocdbt::load_leaves(reader, newest->expect_root())) {
    ocdbt::Arena arena;
    for (std::size_t i = 0; i < leaf->node.keys.size(); ++i) {
      const ocdbt::LeafEntry entry = ocdbt::resolved_entry(expected, *leaf, i, files, arena);
      if (entry.is_inline()) continue;  // smaller than the entry that would refer to it
      if (entry.file >= files_.size()) {
        const ocdbt::DataFile& file = files[entry.file];
        const std::string path = file.base_path + file.relative_path;
        files_.push_back({.earlier = path, .name = data_file_name(path)});
      }
      files_[entry.file].in_use += entry.length;
      shared_.emplace(entry.key, Value{entry.file, entry.offset, entry.length});
    }
  }
}

std::optional<Bytes> SharedDatabase::read(std::string_view key) const {
  return values_->read_at_most(key, kMaxMetadataFile);
}

std::optional<std::uint64_t> SharedDatabase::link(DataFile& file) {
  if (std::exchange(file.is_tried, true)) return file.size;
  if (file.name.empty()) return std::nullopt;
  const std::string from = join(earlier_->path(), file.earlier);
  const std::string to = join(folder_, file.name);
  const auto earlier = earlier_->try_open(from);
  if (!earlier || !is_mostly(file.in_use, earlier->size())) return std::nullopt;
  make_directories(parent_of(to), Durability::kDeferredSync);
  const std::string refusal = link_file(earlier_->descriptor(), earlier_->relative(from), to);
  if (refusal.empty())
    file.size = earlier->size();
  else if (refusal_.empty())
    refusal_ = from + ": cannot link it: " + refusal;
  return file.size;
}

std::optional<Location> SharedDatabase::take(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  const auto found = shared_.find(std::string(key));
  if (found == shared_.end()) return std::nullopt;
  const Value& value = found->second;
  DataFile& file = files_[value.file];
  // A file that cannot be linked, for whatever reason, is a file whose values are written anew.
  const auto size = try_call([&] { return link(file); });
  if (!size || !size.value()) return std::nullopt;
  if (value.length > *size.value() || value.offset > *size.value() - value.length)
    return std::nullopt;
  return Location{join(folder_, file.name), value.offset, value.length};
}

void SharedDatabase::decide(std::string_view key, bool is_unchanged) {
  const std::scoped_lock lock(mutex_);
  Value& value = shared_.at(std::string(key));
  value.is_unchanged = is_unchanged;
  if (is_unchanged) files_[value.file].unchanged += value.length;
}

bool SharedDatabase::has(std::string_view key) const {
  const auto found = shared_.find(std::string(key));
  return found != shared_.end() && found->second.is_unchanged;
}

void SharedDatabase::settle() {
  std::erase_if(shared_, [&](const auto& entry) {
    const DataFile& file = files_[entry.second.file];
    return !file.size || !entry.second.is_unchanged || !is_mostly(file.unchanged, *file.size);
  });
  for (const DataFile& file : files_)
    if (file.size && !is_mostly(file.unchanged, *file.size)) remove_file(join(folder_, file.name));
}

void SharedDatabase::add_to(ocdbt::DatabaseSink& sink) const {
  for (const auto& [key, value] : shared_)
    sink.refer(key, files_[value.file].name, {value.offset, value.length});
}

SharedCounts SharedDatabase::counts() const {
  SharedCounts counts{.refusal = refusal_};
  for (const auto& [key, value] : shared_) {
    ++counts.values;
    counts.bytes += static_cast<std::int64_t>(value.length);
  }
  return counts;
}

}  // namespace cairn::inline v0::orbax
