// stored_item.cc -- opens and reads the arrays that type handlers request.
#include <cairn/orbax/read/stored_item.h>

#include <cairn/handlers/zarr_metadata.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>

#include <utility>

namespace cairn::inline v0::orbax {
namespace {

// The name of the file that describes an array.
std::string metadata_file(const PytreeItem& item, const std::string& metadata_key) {
  if (!metadata_key.empty()) return metadata_key;
  if (item.zarr_format == 0) return ".zarray or zarr.json";
  return item.zarr_format == 3 ? "zarr.json" : ".zarray";
}

[[noreturn]] void refuse_array(const PytreeItem& item, const TensorInfo& wanted,
                               const std::string& metadata_key) {
  if (wanted.is_string())
    throw Error(Code::kUnimplemented,
                wanted.name + ": the stored array holds strings, which type handlers do not read");
  if (!handlers::is_missing(wanted))
    throw Error(Code::kDataLoss, wanted.name + ": " + wanted.error);
  std::string text = wanted.name + ": no array of this name is stored in " + item.item.path;
  if (!metadata_key.empty()) text += " with the type handler's metadata_key '" + metadata_key + "'";
  if (item.storage == ArrayStorage::kFolders)
    text += (item.item.folder->is_folder(join(item.item.path, wanted.name))
                 ? ": its folder has no " + metadata_file(item, metadata_key)
                 : std::string(": its folder is missing")) +
            ". If the checkpoint was copied, copy all of it, hidden files too (cp -a)";
  throw Error(Code::kNotFound, text);
}

}  // namespace

StoredItem::StoredItem(PytreeItem item, Executor* executor, std::uint64_t memory,
                       MultiprocessingOptions processes)
    : item_(std::move(item)),
      names_(item_.tensors),
      executor_(executor),
      memory_(memory),
      processes_(std::move(processes)) {}

std::vector<TensorInfo> StoredItem::arrays_under(std::span<const std::string_view> names,
                                                 const std::string& metadata_key) const {
  if (item_.arrays == nullptr) {
    const std::string why = item_.broken.empty()
                                ? "there is no database"
                                : item_.broken.back().file + ": " + item_.broken.back().why;
    throw Error(item_.broken.empty() ? Code::kNotFound : Code::kDataLoss,
                "the arrays of " + item_.item.path + " cannot be read: " + why);
  }
  std::vector<TensorInfo> wanted(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    wanted[i].name = names[i];
    wanted[i].kind = LeafKind::kUnknown;
  }
  handlers::StoredArrays stored = in_folder(item_.item.folder.get(), [&] {
    return handlers::open_arrays(item_.arrays, {item_.zarr_format, metadata_key}, wanted,
                                 executor_);
  });
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!stored[i] || !wanted[i].error.empty() || wanted[i].is_string())
      refuse_array(item_, wanted[i], metadata_key);
    opened_.emplace(wanted[i].name, *std::move(stored[i]));
  }
  return wanted;
}

const zarr::ZarrArray& StoredItem::opened(std::string_view name) const {
  const std::string key(name);
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = opened_.find(key); it != opened_.end()) return it->second;
  }
  static_cast<void>(arrays(std::span(&name, 1)));
  const std::lock_guard lock(mutex_);
  return opened_.at(key);
}

std::optional<std::string> StoredItem::sharding(const std::string& name) const {
  if (!item_.has_shardings) return std::nullopt;
  const auto tensor = names_.find(name);
  return tensor ? item_.tensors[*tensor].sharding : std::string();
}

std::string StoredItem::random_key_impl(const std::string& name) const {
  const auto it = item_.random_keys.find(name);
  return it == item_.random_keys.end() ? "" : it->second;
}

std::optional<ZarrMetadata> StoredItem::zarr_metadata(const std::string& name) const {
  return handlers::describe_zarr(opened(name).metadata());
}

void StoredItem::read(std::span<const Read> reads) const {
  std::vector<zarr::BoxRead> boxes;
  boxes.reserve(reads.size());
  for (const Read& read : reads)
    boxes.push_back({&opened(read.name), &read.box, &read.out, read.name, item_.missing});
  for (const Read& read : reads)
    bytes_read_ += element_count(read.box.shape) * static_cast<std::int64_t>(read.out.element_size);
  in_folder(item_.item.folder.get(), [&] {
    handlers::read_arrays(boxes, {executor_, memory_, &streams_}, {});
  });
}

std::optional<std::string> StoredItem::string_of_file(const std::string& file,
                                                      const std::string& name) const {
  const std::lock_guard lock(mutex_);
  auto parsed = strings_.find(file);
  if (parsed == strings_.end()) {
    const std::string path = join(item_.item.path, file);
    Strings strings;
    if (item_.item.folder->exists(path))
      strings = with_context(
          [&] { return path; },
          [&] {
            return parse_strings(
                as_text(item_.item.folder->read_text(path, kMaxMetadataFile)),
                [&](const std::string& leaf) { return names_.find(leaf).has_value(); });
          });
    parsed = strings_.emplace(file, std::move(strings)).first;
  }
  const auto found = parsed->second.find(name);
  if (found == parsed->second.end()) return std::nullopt;
  return found->second;
}

std::string StoredItem::string_in(const std::string& file, const std::string& name) const {
  const bool usual = file.empty() || file == kStringsFile;
  const auto tensor = usual ? names_.find(name) : std::nullopt;
  if (tensor && item_.values[*tensor].text) return *item_.values[*tensor].text;
  if (tensor && !item_.tensors[*tensor].error.empty())
    throw Error(Code::kDataLoss, name + ": " + item_.tensors[*tensor].error);
  // A leaf that is not recorded as a string may still be requested as one.
  if (auto text = string_of_file(usual ? std::string(kStringsFile) : file, name))
    return *std::move(text);
  throw Error(Code::kNotFound, name + ": no string of this name is stored" +
                                   (usual ? "" : " in the type handler's file '" + file + "'"));
}

}  // namespace cairn::inline v0::orbax
