// store_removal.cc -- what may be removed from a store or copied there, and in which order.
#include <cairn/orbax/manager/store_removal.h>

#include <cairn/base/executor.h>
#include <cairn/io/tree/range_source.h>
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
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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

constexpr std::size_t kMostCopiesAtOnce = 16;
constexpr std::uint64_t kCopiedBlock = 16U << 20;  // bytes

// Copies a value inside the store if the store can, else through this machine.
void copy_value(KvStore& store, const StoredValue& value, const std::string& to) {
  if (store.copy(value.key, to)) return;
  const std::shared_ptr<const RangeSource> source = store.open_listed(value);
  if (source == nullptr)
    throw Error(Code::kUnavailable,
                store.describe(value.key) + ": was removed while it was copied");
  const std::unique_ptr<Appender> copied = store.append(to);
  Bytes block(std::min(kCopiedBlock, source->size()));
  for (std::uint64_t at = 0; at < source->size(); at += block.size()) {
    block.resize(std::min(kCopiedBlock, source->size() - at));
    source->read_into(at, block);
    const ByteView part = block;
    copied->append({&part, 1});
  }
  copied->commit();
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

void copy_checkpoint_in_store(const StorePtr& store, const StorePlace& from, const StorePlace& to,
                              ForeignFiles foreign) {
  if (!store->list_values(to.folder, 1).values.empty())
    throw Error(Code::kAlreadyExists, to.url + ": exists, so nothing is copied there");
  check_removable_in_store(StoreFolder::open(prefix_store(store, from.folder), from.url), foreign);
  std::vector<StoredValue> values = store->list_values(from.folder, SIZE_MAX).values;
  const std::string marker = from.folder + std::string(kCommitFile);
  const auto last = std::stable_partition(
      values.begin(), values.end(), [&](const StoredValue& value) { return value.key != marker; });
  const auto copy = [&](const StoredValue& value) {
    copy_value(*store, value, to.folder + value.key.substr(from.folder.size()));
  };
  const auto others = static_cast<std::size_t>(last - values.begin());
  Executor(std::min(std::max<std::size_t>(others, 1), kMostCopiesAtOnce))
      .for_each(others, [&](std::size_t i) { copy(values[i]); });
  for (auto it = last; it != values.end(); ++it) copy(*it);
}

void check_leftover_in_store(const FolderPtr& folder, ForeignFiles foreign) {
  if (may_be_whole(folder))
    throw Error(Code::kFailedPrecondition,
                folder->path() + ": has no " + std::string(kCommitFile) +
                    ", but lacks nothing else. Remove it or add that object");
  check_only_checkpoint(folder, DirectoryRole::kTemporary, foreign);
}

}  // namespace cairn::inline v0::orbax
