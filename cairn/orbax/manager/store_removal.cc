// store_removal.cc -- what may be removed from a store, and in which order.
#include <cairn/orbax/manager/store_removal.h>

#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/orbax/commit/in_store.h>
#include <cairn/orbax/layout/completeness.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/layout/retry.h>

#include <optional>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

constexpr int kMostLooks = 3;

// Whether the records say that a commit had begun, and nothing else is missing.
bool may_be_whole(const FolderPtr& folder) {
  const auto metadata = try_call([&] {
    return read_checkpoint_metadata(*folder, join(folder->path(), kCheckpointMetadataFile));
  });
  if (!metadata || !metadata.value().commit_time_ns) return false;
  const auto layout = try_find_layout(folder, folder->path(), {.allow_uncommitted = true});
  return layout && find_missing(*layout).empty();
}

// "" if there is no record.
std::string record_text(const FolderHandle& folder) {
  const std::string record = join(folder.path(), kCheckpointMetadataFile);
  if (!folder.file_size(record)) return "";
  return std::string(as_text(folder.read_text(record, kMaxMetadataFile)));
}

}  // namespace

void check_removable_in_store(const FolderPtr& folder, ForeignFiles foreign) {
  check_only_checkpoint(folder, DirectoryRole::kTarget, foreign);
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
    std::string record = record_text(seen);
    if (!first)
      first = std::move(record);
    else if (*first != record)
      return;  // another removal or save has taken the place
    check_removable_in_store(opened.value(), foreign);
    remove_in_store(*store, folder, seen);
  });
}

void check_leftover_in_store(const FolderPtr& folder, ForeignFiles foreign) {
  if (may_be_whole(folder))
    throw Error(Code::kFailedPrecondition,
                folder->path() + ": has no " + std::string(kCommitFile) +
                    ", but lacks nothing else. Remove it or add that object");
  check_only_checkpoint(folder, DirectoryRole::kTemporary, foreign);
}

}  // namespace cairn::inline v0::orbax
