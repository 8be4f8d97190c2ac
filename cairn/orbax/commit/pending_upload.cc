// pending_upload.cc -- claims a prefix of a store, and commits what was written to it.
#include <cairn/orbax/commit/pending_upload.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/in_store.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::chrono::seconds kMostCleanup{10};

}  // namespace

std::string PendingUpload::url_for(const std::string& url) {
  check_can_write(url);
  std::string path = normal_path(url);
  if (path.find(kTemporaryMark) != std::string::npos)
    throw Error(Code::kInvalidArgument, path + ": a name with '" + std::string(kTemporaryMark) +
                                            "' is reserved for unfinished checkpoints");
  if (!is_store_url(parent_of(path)))
    throw Error(Code::kInvalidArgument,
                path + ": a bucket cannot be a checkpoint; add a name behind it");
  return path;
}

PendingUpload::PendingUpload(const std::string& url, IfExists if_exists,
                             const StoreOptions& options, ForeignFiles foreign)
    : url_(url_for(url)),
      base_(open_store(url_, options)),
      store_(std::make_shared<CreateOnlyStore>(base_)) {
  clear_target(if_exists, foreign);
}

// Makes room for the new checkpoint.
void PendingUpload::clear_target(IfExists if_exists, ForeignFiles foreign) {
  const FolderPtr old = OutputFolder(base_, url_).try_open();
  if (old == nullptr) return;
  const bool unfinished = was_unfinished_ = is_unfinished(*old);
  if (!unfinished && if_exists == IfExists::kFail)
    throw Error(Code::kAlreadyExists, url_ +
                                          ": already exists; choose another path, or allow "
                                          "replacing it with --force (if_exists)");
  // The old one goes before there is a new one, so nothing of it can be kept.
  const bool allows_all = unfinished ? foreign != ForeignFiles::kRefuse
                                     : foreign_of(*old, foreign) == ForeignFiles::kRemove;
  check_only_checkpoint(old, unfinished ? DirectoryRole::kTemporary : DirectoryRole::kTarget,
                        allows_all ? ForeignFiles::kRemove : ForeignFiles::kRefuse);
  with_context(
      [&] {
        return url_ + (unfinished ? ": the leftovers of an interrupted save cannot be removed"
                                  : ": the older checkpoint cannot be removed");
      },
      [&] {
        claim(*old);
        remove_others();
      });
}

void PendingUpload::claim(const FolderHandle& old) {
  std::string text = claim_in_store(*base_, "", old);
  store_->note(kCheckpointMetadataFile, text.size());
  records_.insert_or_assign(std::string(kCheckpointMetadataFile), std::move(text));
}

// Removes everything but the record, the markers first.
void PendingUpload::remove_others() const {
  std::vector<std::string> markers, others;
  for (ListEntry& entry : base_->list("")) {
    const bool is_marker = entry.key == kCommitFile || entry.key == kV1Marker;
    if (entry.key != kCheckpointMetadataFile)
      (is_marker ? markers : others).push_back(std::move(entry.key));
  }
  // What is listed may be of a save that has claimed the place since, and has ended.
  if (!has_own_records()) throw Error(Code::kUnavailable, "another save writes to the same place");
  for (const std::string& marker : markers) base_->remove(marker);
  base_->remove_all(others);
}

void PendingUpload::write_record(std::string_view name, std::string_view text) {
  const auto before = records_.find(name);
  if (before == records_.end())
    store_->write(name, as_bytes(text));
  else
    store_->rewrite(name, as_bytes(before->second), as_bytes(text));
  records_.insert_or_assign(std::string(name), std::string(text));
}

bool PendingUpload::has_own_records() const {
  return std::ranges::all_of(records_, [&](const auto& record) {
    return holds_value(*base_, record.first, as_bytes(record.second));
  });
}

void PendingUpload::commit(const std::function<void()>& write_metadata, SyncedFiles* /*synced*/) {
  store_->check_stored();
  throw_if_cancelled();
  const CancellationScope too_late{Cancellation()};
  write_metadata();
  const std::string marker = commit_text(url_);
  store_->write(kCommitFile, as_bytes(marker));
  committed_ = true;
  // A save that has begun in the last moment has removed everything but the marker.
  if (has_own_records()) return;
  base_->remove(kCommitFile);
  throw Error(Code::kUnavailable,
              url_ + ": another save has replaced the checkpoint while it was committed");
}

bool PendingUpload::is_taken() {
  if (is_taken_ || records_.empty()) return is_taken_.value_or(false);
  const CancellationScope limited{Cancellation(std::stop_token(), kMostCleanup)};
  const auto own = try_call([&] { return has_own_records(); });
  // A store that does not answer is not asked again: what is there stays.
  if (!own) leave_ = true;
  is_taken_ = own && !own.value();
  return *is_taken_;
}

// What another save finds when it has claimed the place, it removes itself.
void PendingUpload::remove_own() {
  const std::string& own = records_.at(std::string(kCheckpointMetadataFile));
  const auto stored = base_->read_at_most(kCheckpointMetadataFile, kMaxMetadataFile);
  const bool is_own = stored && as_text(*stored) == own;
  if (stored && !is_own) return;
  // Also what the other processes have written.
  if (is_shared_ && is_own) return remove_claimed_in_store(*base_, "", own);
  store_->remove_written(kCheckpointMetadataFile);
  // The save that this one has pushed aside may still write. Without a record, its files could pass
  // for an old checkpoint.
  if (is_own && !was_unfinished_) remove_claimed_in_store(*base_, "", own);
}

PendingUpload::~PendingUpload() {
  if (committed_ || leave_ || !records_.contains(kCheckpointMetadataFile)) return;
  const CancellationScope limited{Cancellation(std::stop_token(), kMostCleanup)};
  // The error that prevented the commit is more informative.
  (void)try_call([&] { return remove_own(), true; });
}

}  // namespace cairn::inline v0::orbax
