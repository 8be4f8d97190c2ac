// pending_place.cc -- chooses between a directory and the prefix of a store.
#include <cairn/orbax/commit/pending_place.h>

#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/commit/pending_upload.h>

namespace cairn::inline v0::orbax {

std::unique_ptr<PendingPlace> make_pending_place(const std::string& target,
                                                 const SaveOptions& options) {
  if (is_store_url(target))
    return std::make_unique<PendingUpload>(target, options.if_exists, options.store);
  return std::make_unique<PendingDirectory>(local_path(target), options.if_exists,
                                            options.durability, options.commit_protocol);
}

std::string pending_path(const std::string& target, const SaveOptions& options) {
  if (is_store_url(target)) return PendingUpload::url_for(target);
  return PendingDirectory::path_for(local_path(target), options.commit_protocol);
}

std::string commit_text(const std::string& path) {
  return "Checkpoint commit was successful to " + path;
}

}  // namespace cairn::inline v0::orbax
