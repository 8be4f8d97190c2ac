// in_store.cc -- recognises and removes checkpoints without renaming them.
#include <cairn/orbax/commit/in_store.h>

#include <cairn/error.h>
#include <cairn/io/temporary_name.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

// Makes readers that do not ask for the marker take the checkpoint for unfinished.
void forget_stored_commit(KvStore& store, const std::string& record) {
  const auto text = store.read_at_most(record, kMaxMetadataFile);
  if (!text) return;
  const auto without =
      uncommitted_text(try_call([&] { return parse_checkpoint_metadata(as_text(*text)); }));
  if (without) store.write(record, as_bytes(*without));
}

}  // namespace

bool is_unfinished(const FolderHandle& folder) {
  const auto has = [&](std::string_view name) { return folder.exists(join(folder.path(), name)); };
  if (has(kCommitFile) || has(kV1Marker)) return false;
  const auto is_unwritten = [](const FolderEntry& entry) { return is_temporary_name(entry.name); };
  if (std::ranges::all_of(folder.entries(folder.path()), is_unwritten)) return true;
  const auto metadata = try_call([&] {
    return read_checkpoint_metadata(folder, join(folder.path(), kCheckpointMetadataFile));
  });
  return metadata && is_unfinished(metadata.value());
}

std::string claim_in_store(KvStore& store, const std::string& folder, const FolderHandle& seen) {
  CheckpointMetadata begun;
  begun.init_time_ns = now_ns();
  std::string text = checkpoint_metadata_text(begun);
  const std::string record = join(seen.path(), kCheckpointMetadataFile);
  std::optional<Buffer> before;
  if (seen.file_size(record)) before = seen.read_text(record, kMaxMetadataFile);
  const auto expected = before ? std::optional<ByteView>(*before) : std::nullopt;
  if (store.replace_if(folder + std::string(kCheckpointMetadataFile), expected, as_bytes(text)))
    return text;
  throw Error(Code::kUnavailable,
              record + ": has been replaced; another save writes to the same place");
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
  if (has_record) forget_stored_commit(store, record);
  store.remove_all(rest);
  if (has_record) store.remove(record);
}

}  // namespace cairn::inline v0::orbax
