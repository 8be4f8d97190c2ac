// clean_store.cc -- removes the checkpoints that are not finished, and discards uploads.
#include <cairn/tools/maintain/clean_store.h>

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

void set_refused(CleanedPath& done, const Error& why) {
  done.outcome = CleanOutcome::kRefused;
  done.why = why.message();
}

CleanedPath clean_folder(const std::string& url, CleanMode mode, ForeignFiles foreign,
                         const StoreOptions& options) {
  CleanedPath done{.path = url};
  const StorePtr store = open_store(url, options);
  for (const ListEntry& entry : store->list("")) done.bytes += entry.size;
  const auto removed = try_call([&] {
    const FolderPtr folder = StoreFolder::open(store, url);
    orbax::check_leftover_in_store(folder, foreign);
    if (mode == CleanMode::kShow) return true;
    // Its save may end only now.
    orbax::remove_claimed_in_store(*store, "", orbax::claim_in_store(*store, "", *folder));
    return true;
  });
  if (!removed) set_refused(done, removed.error());
  return done;
}

CleanedPath clean_upload(KvStore& store, UploadKeeper& uploads, const UnfinishedUpload& upload,
                         CleanMode mode) {
  CleanedPath done{.path = store.describe(upload.key)};
  done.why = "parts of an upload that has not ended";
  if (mode == CleanMode::kShow) return done;
  const auto discarded = try_call([&] { return uploads.discard_upload(upload), true; });
  if (!discarded) set_refused(done, discarded.error());
  return done;
}

}  // namespace

std::vector<CleanedPath> clean_store(const std::string& url, CleanMode mode, ForeignFiles foreign,
                                     const StoreOptions& options) {
  const StorePtr store = orbax::open_run_store(url, options);
  const auto root = orbax::make_store_root(store, normal_path(url));
  std::vector<CleanedPath> cleaned;
  for (const std::string& found : find_unfinished_folders(root->path(), *root, options))
    cleaned.push_back(clean_folder(found, mode, foreign, options));
  if (auto* const uploads = dynamic_cast<UploadKeeper*>(store.get()))
    for (const UnfinishedUpload& upload : uploads->unfinished_uploads(""))
      cleaned.push_back(clean_upload(*store, *uploads, upload, mode));
  if (cleaned.empty() && !root->exists())
    throw Error(Code::kNotFound, url + ": no object has this prefix, and no upload is open there");
  return cleaned;
}

}  // namespace cairn::inline v0
