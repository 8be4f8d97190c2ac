// in_store.cc -- recognises and removes checkpoints without renaming them.
#include <cairn/orbax/commit/in_store.h>

#include <cairn/error.h>
#include <cairn/io/temporary_name.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

// Makes readers that do not ask for the marker take the checkpoint for unfinished.
void forget_commit_time(KvStore& store, const std::string& record) {
  const auto text = store.read_at_most(record, kMaxMetadataFile);
  if (!text) return;
  const auto metadata = try_call([&] { return parse_checkpoint_metadata(as_text(*text)); });
  if (metadata && is_unfinished(metadata.value())) return;
  CheckpointMetadata unfinished;
  unfinished.init_time_ns = metadata ? metadata.value().init_time_ns.value_or(0) : 0;
  const std::string without = checkpoint_metadata_text(unfinished);
  store.write(record, as_bytes(without));
}

}  // namespace

bool is_unfinished(const FolderHandle& folder) {
  const auto has = [&](std::string_view name) { return folder.exists(join(folder.path(), name)); };
  if (has(kCommitFile) || has(kV1Marker)) return false;
  const auto is_unwritten = [](const FolderEntry& entry) { return is_temporary_name(entry.name); };
  if (std::ranges::all_of(folder.entries(folder.path()), is_unwritten)) return true;
  const auto metadata = try_call([&] {
    return parse_checkpoint_metadata(
        as_text(folder.read_text(join(folder.path(), kCheckpointMetadataFile), kMaxMetadataFile)));
  });
  return metadata && is_unfinished(metadata.value());
}

void remove_in_store(KvStore& store, const std::string& folder) {
  const std::vector<ListEntry> stored = store.list(folder);
  const std::string record = folder + std::string(kCheckpointMetadataFile);
  const std::vector<std::string> markers = {folder + std::string(kCommitFile),
                                            folder + std::string(kV1Marker)};
  std::vector<std::string> rest;
  bool has_record = false;
  for (const ListEntry& entry : stored) {
    if (std::ranges::find(markers, entry.key) != markers.end())
      store.remove(entry.key);
    else if (entry.key == record)
      has_record = true;
    else
      rest.push_back(entry.key);
  }
  if (has_record) forget_commit_time(store, record);
  store.remove_all(rest);
  if (has_record) store.remove(record);
}

}  // namespace cairn::inline v0::orbax
