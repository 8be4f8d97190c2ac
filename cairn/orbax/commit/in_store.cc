// in_store.cc -- recognises and removes checkpoints without renaming them.
#include <cairn/orbax/commit/in_store.h>

#include <cairn/error.h>
#include <cairn/io/temporary_name.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

// The record of a save that begins now.
std::string begun_record() {
  CheckpointMetadata begun;
  begun.init_time_ns = now_ns();
  return checkpoint_metadata_text(begun);
}

std::optional<ByteView> view_of(const std::optional<Buffer>& record) {
  return record ? std::optional<ByteView>(*record) : std::nullopt;
}

[[noreturn]] void throw_taken(const KvStore& store, const std::string& record) {
  throw Error(Code::kUnavailable, store.describe(record) +
                                      ": has been replaced; another save writes to the same place");
}

}  // namespace

std::optional<Buffer> seen_record(const FolderHandle& seen) {
  const std::string record = join(seen.path(), kCheckpointMetadataFile);
  if (!seen.file_size(record)) return std::nullopt;
  return seen.read_text(record, kMaxMetadataFile);
}

bool holds_value(const KvStore& store, const std::string& key, std::optional<ByteView> value) {
  const auto stored = store.read_at_most(key, kMaxMetadataFile);
  return stored && value ? as_text(*stored) == as_text(*value) : !stored && !value;
}

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
  std::string text = begun_record();
  const std::optional<Buffer> before = seen_record(seen);
  const std::string record = folder + std::string(kCheckpointMetadataFile);
  if (!store.replace_if(record, view_of(before), as_bytes(text))) throw_taken(store, record);
  return text;
}

std::string claim_empty_in_store(KvStore& store, const std::string& folder) {
  std::string text = begun_record();
  const std::string record = folder + std::string(kCheckpointMetadataFile);
  if (!store.replace_if(record, std::nullopt, as_bytes(text))) throw_taken(store, record);
  return text;
}

void end_claim_in_store(KvStore& store, const std::string& folder, const std::string& claim,
                        std::optional<ByteView> record) {
  const std::string key = folder + std::string(kCheckpointMetadataFile);
  if (record) {
    if (!store.replace_if(key, as_bytes(claim), *record)) throw_taken(store, key);
    return;
  }
  // A store cannot remove on a condition.
  if (!holds_value(store, key, as_bytes(claim))) throw_taken(store, key);
  store.remove(key);
}

void remove_claimed_in_store(KvStore& store, const std::string& folder, const std::string& record) {
  const std::string key = folder + std::string(kCheckpointMetadataFile);
  const auto check_claim = [&] {
    if (!holds_value(store, key, as_bytes(record))) throw_taken(store, key);
  };
  const std::vector<ListEntry> stored = store.list(folder);
  check_claim();
  std::vector<std::string> rest;
  rest.reserve(stored.size());
  for (const ListEntry& entry : stored)
    if (entry.key != key) rest.push_back(entry.key);
  store.remove_all(rest);
  check_claim();
  // A save that was pushed aside may still write. Without a record, its files could pass for an old
  // checkpoint.
  for (const ListEntry& entry : store.list(folder))
    if (entry.key != key) throw_taken(store, entry.key);
  store.remove(key);
}

void remove_in_store(KvStore& store, const std::string& folder, const FolderHandle& seen) {
  const std::string record = folder + std::string(kCheckpointMetadataFile);
  const std::optional<Buffer> before = seen_record(seen);
  for (const std::string_view marker : {kCommitFile, kV1Marker, kDistributedFile}) {
    if (!seen.exists(join(seen.path(), marker))) continue;
    // A store cannot remove on a condition. This is the last moment to see another checkpoint.
    if (!holds_value(store, record, view_of(before))) throw_taken(store, record);
    store.remove(folder + std::string(marker));
  }
  const std::string claim = begun_record();
  if (!store.replace_if(record, view_of(before), as_bytes(claim))) throw_taken(store, record);
  remove_claimed_in_store(store, folder, claim);
}

}  // namespace cairn::inline v0::orbax
