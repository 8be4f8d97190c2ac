// store_removal.cc -- what may be removed from a store or copied there, and in which order.
#include <cairn/orbax/manager/store_removal.h>

#include <cairn/base/executor.h>
#include <cairn/kvstore/folders/copy_value.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/orbax/commit/in_store.h>
#include <cairn/orbax/layout/completeness.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/layout/retry.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

constexpr int kMostLooks = 3;
constexpr std::size_t kMostCopiesAtOnce = 16;

// Whether the records say that a commit had begun, and nothing else is missing.
bool may_be_whole(const FolderPtr& folder) {
  const auto metadata = try_call([&] {
    return read_checkpoint_metadata(*folder, join(folder->path(), kCheckpointMetadataFile));
  });
  if (!metadata || !metadata.value().commit_time_ns) return false;
  const auto layout = try_find_layout(folder, folder->path(), {.allow_uncommitted = true});
  return layout && find_missing(*layout).empty();
}

}  // namespace

void check_removable_in_store(const FolderPtr& folder, ForeignFiles foreign) {
  // Of an unfinished save or copy, any part may be missing.
  check_only_checkpoint(
      folder, is_unfinished(*folder) ? DirectoryRole::kTemporary : DirectoryRole::kTarget, foreign);
}

void remove_checkpoint_in_store(const StorePtr& store, const std::string& folder,
                                const std::string& path, ForeignFiles foreign) {
  std::optional<std::string> first;  // the record at the first look
  retry_if_unavailable(kMostLooks, [&] {
    const auto opened =
        try_call([&] { return StoreFolder::open(prefix_store(store, folder), path); });
    if (!opened && opened.error().code() == Code::kNotFound) return;
    if (!opened) throw Error(opened.error());
    const FolderHandle& seen = *opened.value();
    const auto stored = seen_record(seen);
    std::string record(stored ? as_text(*stored) : "");
    if (!first)
      first = std::move(record);
    else if (*first != record)
      return;  // another removal or save has taken the place
    check_removable_in_store(opened.value(), foreign);
    remove_in_store(*store, folder, seen);
  });
}

void copy_checkpoint_in_store(const StorePtr& store, const StorePlace& from, const StorePlace& to,
                              ForeignFiles foreign) {
  if (!store->list_values(to.folder, 1).values.empty())
    throw Error(Code::kAlreadyExists, to.url + ": exists, so nothing is copied there");
  check_removable_in_store(StoreFolder::open(prefix_store(store, from.folder), from.url), foreign);
  std::vector<StoredValue> values, markers;
  for (StoredValue& value : store->list_values(from.folder, SIZE_MAX).values) {
    const std::string_view name = std::string_view(value.key).substr(from.folder.size());
    if (name == kCheckpointMetadataFile) continue;
    (name == kCommitFile || name == kV1Marker ? markers : values).push_back(std::move(value));
  }
  const auto copy = [&](const StoredValue& value) {
    copy_value(*store, value, to.folder + value.key.substr(from.folder.size()));
  };
  // Until its record is there, the copy is unfinished, and nobody else writes to the place.
  const std::string claim = claim_empty_in_store(*store, to.folder);
  Executor(std::clamp<std::size_t>(values.size(), 1, kMostCopiesAtOnce))
      .for_each(values.size(), [&](std::size_t i) { copy(values[i]); });
  const auto text =
      store->read_at_most(from.folder + std::string(kCheckpointMetadataFile), kMaxMetadataFile);
  end_claim_in_store(*store, to.folder, claim,
                     text ? std::optional<ByteView>(*text) : std::nullopt);
  // orbax.checkpoint, then commit_success.txt.
  for (auto it = markers.rbegin(); it != markers.rend(); ++it) copy(*it);
}

void check_leftover_in_store(const FolderPtr& folder, ForeignFiles foreign) {
  if (may_be_whole(folder))
    throw Error(Code::kFailedPrecondition,
                folder->path() + ": has no " + std::string(kCommitFile) +
                    ", but lacks nothing else. Remove it or add that object");
  check_only_checkpoint(folder, DirectoryRole::kTemporary, foreign);
}

}  // namespace cairn::inline v0::orbax
