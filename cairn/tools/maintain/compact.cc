// compact.cc -- compacts the databases of a checkpoint.
#include <cairn/maintain.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/json/json.h>
#include <cairn/base/observer/progress_pump.h>
#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/output_file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/ocdbt/write/compact.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/tools/report/json_text.h>

#include <filesystem>

namespace cairn::inline v0 {
namespace {

bool has_manifest(const FolderHandle& checkpoint, const std::string& item) {
  const std::string manifest = orbax::join(item, orbax::kManifestFile);
  return checkpoint.is_local() ? file_exists(manifest) : checkpoint.exists(manifest);
}

// The folders of the databases of one item, or of all items.
std::vector<std::string> database_folders(const std::string& path, const CompactOptions& options) {
  const orbax::Layout layout = orbax::find_layout(
      path, {.step = options.step, .item = options.item, .store = options.store});
  if (!layout.is_marked && !options.item)
    throw Error(Code::kFailedPrecondition,
                layout.path + ": has no " + std::string(orbax::kCheckpointMetadataFile) +
                    ", so its folders may be checkpoints of their own; name one of them, or choose "
                    "one with --item (CompactOptions::item). Nothing is changed");
  std::vector<std::string> folders;
  bool found_item = !options.item;
  for (const auto& item : layout.items) {
    if (options.item && item.name != *options.item) continue;
    found_item = true;
    if (has_manifest(*layout.folder, item.path)) folders.push_back(item.path);
  }
  if (!found_item)
    throw Error(Code::kNotFound, path + ": there is no item \"" + *options.item + "\"");
  if (folders.empty())
    throw Error(Code::kFailedPrecondition, path +
                                               ": there is nothing to compact: only OCDBT "
                                               "databases (manifest.ocdbt) can be compacted");
  return folders;
}

[[noreturn]] void refuse_link(const std::string& link) {
  throw Error(Code::kFailedPrecondition,
              link +
                  ": is a symbolic link to a folder, which may be a part of another checkpoint; "
                  "nothing is changed");
}

bool is_folder_link(const std::string& path) {
  return std::filesystem::is_symlink(path) && directory_exists(path);
}

// Throws if files of the database lie behind a symbolic link to a folder: others may use them, and
// compacting removes files. `path` is what the user has named, and may be a link.
void check_links(const std::string& path, const std::string& database) {
  for (std::string at = database; at.size() > 1 && !is_same_file(at, path); at = parent_of(at))
    if (is_folder_link(at)) refuse_link(at);
  for_each_below(database, [](const std::string& entry, EntryKind kind) {
    if (kind == EntryKind::kLink && is_folder_link(entry)) refuse_link(entry);
  });
}

// The databases that will be compacted, and their files.
struct Databases {
  std::vector<std::string> folders;
  std::vector<StorePtr> files;  // parallel
};

// Throws if any of them must not be compacted.
Databases find_databases(const std::string& path, const CompactOptions& options) {
  const bool is_remote = is_store_url(path);
  if (is_remote) check_can_write(path);
  Databases found{.folders = database_folders(path, options), .files = {}};
  for (const auto& folder : found.folders) {
    if (!is_remote) check_links(path, folder);
    found.files.push_back(is_remote ? open_store(folder, options.store) : open_file_store(folder));
  }
  return found;
}

CompactedDatabase compact_one(const std::string& folder, const StorePtr& files,
                              const ocdbt::CompactOptions& options) {
  const ocdbt::Compacted result = ocdbt::compact(files, options);
  return {.path = folder,
          .keys = result.version.num_keys,
          .files_before = result.files_before,
          .bytes_before = result.bytes_before,
          .files_after = result.files_after,
          .bytes_after = result.bytes_after};
}

}  // namespace

std::vector<CompactedDatabase> compact_databases(const std::string& path,
                                                 const CompactOptions& options) {
  const Databases databases =
      stoppable_by(options.cancel, [&] { return find_databases(path, options); });
  const CancellationScope scope{Cancellation(options.cancel)};
  Progress progress;
  if (options.progress)
    for (const auto& files : databases.files) progress.total += ocdbt::expected_copy(*files);
  const ocdbt::CompactOptions how{
      .orphans = options.remove_orphans ? ocdbt::Orphans::kRemove : ocdbt::Orphans::kKeep,
      .writer = {},
      .progress = &progress};
  std::vector<CompactedDatabase> done;
  with_progress(progress, options.progress, [&] {
    for (std::size_t i = 0; i < databases.folders.size(); ++i) {
      throw_if_cancelled();
      done.push_back(compact_one(databases.folders[i], databases.files[i], how));
    }
  });
  return done;
}

std::string compact_json(const std::vector<CompactedDatabase>& databases) {
  JsonArray list;
  for (const auto& d : databases)
    list.push_back(JsonObject{{"path", text_json(d.path)},
                              {"keys", d.keys},
                              {"files_before", d.files_before},
                              {"bytes_before", d.bytes_before},
                              {"files_after", d.files_after},
                              {"bytes_after", d.bytes_after}});
  return to_text(Json(std::move(list)), JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
