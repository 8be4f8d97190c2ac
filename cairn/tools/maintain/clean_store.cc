// clean_store.cc -- removes the checkpoints that are not finished, and discards uploads.
#include <cairn/tools/maintain/clean_store.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/kvstore/unfinished_uploads.h>
#include <cairn/orbax/commit/in_store.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/orbax/manager/store_removal.h>

namespace cairn::inline v0 {
namespace {

using orbax::RunRoot;
using orbax::StepPresence;

// Whether the folder holds nothing but parts of a checkpoint.
bool has_only_parts(const RunRoot& root, const std::string& name) {
  return try_call([&] {
           check_only_checkpoint(root.open_step(name), orbax::DirectoryRole::kTemporary);
           return true;
         })
      .ok();
}

// Whether a save or a removal has left the folder. On gs:// a killed removal of Orbax may have left
// a step without a record.
bool is_unfinished_folder(const RunRoot& root, const std::string& name) {
  if (name.find(orbax::kTemporaryMark) != std::string::npos) return root.exists(name);
  const bool is_recorded = root.has_file(orbax::join(name, orbax::kCheckpointMetadataFile));
  const bool may_be_rest = root.path().starts_with("gs://") && orbax::parse_step(name);
  if (!is_recorded && !may_be_rest) return false;
  return root.presence(name, {}) == StepPresence::kUncommitted &&
         (is_recorded || has_only_parts(root, name));
}

// The URLs of the folders that are left at the URL or directly below it.
std::vector<std::string> find_unfinished_folders(const std::string& url, const RunRoot& root,
                                                 const StoreOptions& options) {
  const std::string above = parent_of(url);
  if (is_store_url(above)) {
    const auto outer = orbax::make_store_root(open_store(above, options), above);
    const std::string name(name_of(url));
    if (is_unfinished_folder(*outer, name)) return {url};
  }
  std::vector<std::string> found;
  for (const std::string& name : root.folder_names())
    if (is_unfinished_folder(root, name)) found.push_back(root.path_of(name));
  return found;
}

struct Leftovers {
  StorePtr store;
  std::vector<std::string> folders;  // URLs
  std::vector<UnfinishedUpload> uploads;
};

// Throws not_found if there is nothing at the URL.
Leftovers find_leftovers_in_store(const std::string& url, const StoreOptions& options) {
  Leftovers found{.store = orbax::open_run_store(url, options), .folders = {}, .uploads = {}};
  const auto root = orbax::make_store_root(found.store, normal_path(url));
  found.folders = find_unfinished_folders(root->path(), *root, options);
  if (auto* const uploads = dynamic_cast<UploadKeeper*>(found.store.get()))
    found.uploads = uploads->unfinished_uploads("");
  if (found.folders.empty() && found.uploads.empty() && !root->exists())
    throw Error(Code::kNotFound, url + ": no object has this prefix, and no upload is open there");
  return found;
}

// Throws cancelled if `why` came from a request to stop.
void set_refused(CleanedPath& done, const Error& why) {
  throw_if_cancelled();
  done.outcome = CleanOutcome::kRefused;
  done.why = why.message();
}

CleanedPath clean_folder(const std::string& url, const CleanOptions& options) {
  CleanedPath done{.path = url};
  const StorePtr store = open_store(url, options.store);
  for (const ListEntry& entry : store->list("")) done.bytes += entry.size;
  const auto removed = try_call([&] {
    const FolderPtr folder = StoreFolder::open(store, url);
    orbax::check_leftover_in_store(folder, options.foreign);
    throw_if_cancelled();  // a check that was stopped does not make it less whole
    if (options.mode == CleanMode::kShow) return true;
    // Its save may end only now.
    orbax::remove_claimed_in_store(*store, "", orbax::claim_in_store(*store, "", *folder));
    return true;
  });
  if (!removed) set_refused(done, removed.error());
  return done;
}

CleanedPath clean_upload(KvStore& store, const UnfinishedUpload& upload, CleanMode mode) {
  CleanedPath done{.path = store.describe(upload.key)};
  done.why = "parts of an upload that has not ended";
  if (mode == CleanMode::kShow) return done;
  auto& uploads = dynamic_cast<UploadKeeper&>(store);
  const auto discarded = try_call([&] { return uploads.discard_upload(upload), true; });
  if (!discarded) set_refused(done, discarded.error());
  return done;
}

}  // namespace

std::vector<CleanedPath> clean_store(const std::string& url, const CleanOptions& options) {
  const Leftovers found =
      stoppable_by(options.cancel, [&] { return find_leftovers_in_store(url, options.store); });
  // From here on a request counts only while there is something left to do.
  const CancellationScope scope{Cancellation(options.cancel)};
  std::vector<CleanedPath> cleaned;
  for (const std::string& folder : found.folders) {
    throw_if_cancelled();
    cleaned.push_back(clean_folder(folder, options));
  }
  for (const UnfinishedUpload& upload : found.uploads) {
    throw_if_cancelled();
    cleaned.push_back(clean_upload(*found.store, upload, options.mode));
  }
  return cleaned;
}

}  // namespace cairn::inline v0
