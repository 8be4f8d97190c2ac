// checkpoint_directory.cc -- what the library does for its own checkpoints, for others.
#include <cairn/orbax/checkpoint_directory.h>

#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/kvstore/folders/open_claims.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/commit/pending_upload.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/manager/step_removal.h>
#include <cairn/orbax/manager/store_removal.h>

#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

namespace cairn::inline v0 {
namespace {

// The directory above a path, and the last name of it.
struct Place {
  Directory parent;
  std::string name;
};
Place place_of(const std::string& path) {
  const std::string full = absolute_path(local_path(path));
  return {Directory::open(parent_of(full)), std::string(name_of(full))};
}

// What may be replaced at a path that need not exist.
ForeignFiles foreign_at(const std::string& target, ForeignFiles foreign) {
  const auto folder = try_call([&] { return LocalFolder::open(target); });
  return folder ? orbax::foreign_of(*folder.value(), foreign) : foreign;
}

// s3://bucket of s3://bucket/key.
std::string bucket_of(const std::string& url) {
  return url.substr(0, url.find('/', url.find("://") + 3));
}

}  // namespace

void restrict_permissions(const std::string& directory, unsigned mode) {
  struct stat status {};
  constexpr mode_t kAll = 0777;
  if (::stat(directory.c_str(), &status) != 0 ||
      ::chmod(directory.c_str(), status.st_mode & ((mode & kAll) | (~kAll & 07777))) != 0)
    fail_file_call(directory, "change the permissions", errno);
}

struct CheckpointDirectory::State {
  State(const std::string& target, IfExists if_exists, CommitProtocol commit_protocol,
        ForeignFiles foreign, const StoreOptions& store)
      : given(target), protocol(commit_protocol) {
    if (!is_store_url(target)) {
      const std::string path = local_path(target);
      auto local = std::make_unique<orbax::PendingDirectory>(path, if_exists, Durability::kSynced,
                                                             protocol, foreign_at(path, foreign));
      directory = local.get();
      pending = std::move(local);
      return;
    }
    protocol = CommitProtocol::kCommitMarker;
    pending = std::make_unique<orbax::PendingUpload>(target, if_exists, store, foreign);
    claim.emplace(pending->target(), pending->folder().files(Durability::kSynced));
    // The program writes to the store, too.
    pending->leave_if_not_committed();
    pending->remove_if_not_committed();
  }

  void write_record(std::string_view item_handlers) const {
    pending->write_record(orbax::kCheckpointMetadataFile,
                          orbax::checkpoint_metadata_text(record, item_handlers, custom_metadata));
  }

  std::string given;  // the target as the caller wrote it, which the commit file names, as in Orbax
  std::unique_ptr<orbax::PendingPlace> pending;
  orbax::PendingDirectory* directory = nullptr;  // `pending`, if that is local
  std::optional<OpenClaim> claim;                // for handlers that write to the store
  CommitProtocol protocol;
  orbax::CheckpointMetadata record;  // its times
  std::string custom_metadata = "{}";
};

CheckpointDirectory::CheckpointDirectory(const std::string& target, IfExists if_exists,
                                         CommitProtocol protocol, ForeignFiles foreign,
                                         const StoreOptions& store)
    : state_(std::make_unique<State>(target, if_exists, protocol, foreign, store)) {}

CheckpointDirectory::~CheckpointDirectory() = default;

std::string CheckpointDirectory::path() const { return state_->pending->folder().path(); }

void CheckpointDirectory::restrict_permissions(unsigned mode) {
  if (state_->directory) cairn::restrict_permissions(path(), mode);
}

void CheckpointDirectory::record_start(std::string_view custom_metadata) {
  state_->custom_metadata = custom_metadata;
  state_->record.init_time_ns = orbax::now_ns();
  state_->write_record("null");
}

void CheckpointDirectory::commit(const std::function<void()>& write_metadata) {
  const std::function<void()> write = write_metadata ? write_metadata : [] {};
  if (state_->protocol == CommitProtocol::kCommitMarker)
    return state_->pending->commit(write, nullptr);
  write();
  state_->directory->commit();
}

void CheckpointDirectory::commit_recorded(std::string_view item_handlers) {
  const State& state = *state_;
  if (state.protocol == CommitProtocol::kAtomicRename)  // else the commit adds it, as the last file
    orbax::write_pending_file(path(), orbax::kCommitFile, orbax::commit_text(state.given));
  commit([&] {
    state_->record.commit_time_ns = orbax::now_ns();
    state.write_record(item_handlers);
  });
}

void remove_checkpoint(const std::string& path, CommitProtocol protocol, ForeignFiles foreign,
                       const StoreOptions& store) {
  if (is_store_url(path)) {
    const std::string url = orbax::PendingUpload::url_for(path);
    const std::string folder = std::string(name_of(url)) + "/";
    return orbax::remove_checkpoint_in_store(open_store(parent_of(url), store), folder, url,
                                             foreign);
  }
  const Place place = place_of(path);
  orbax::remove_step(place.parent, place.name, protocol, foreign);
}

void set_checkpoint_aside(const std::string& path, const std::string& subdirectory,
                          ForeignFiles foreign) {
  const Place place = place_of(path);
  orbax::set_step_aside(place.parent, place.name, subdirectory, foreign);
}

void copy_checkpoint(const std::string& url, const std::string& target, ForeignFiles foreign,
                     const StoreOptions& store) {
  const std::string from = orbax::PendingUpload::url_for(url);
  const std::string to = orbax::PendingUpload::url_for(target);
  const std::string bucket = bucket_of(from);
  if (bucket != bucket_of(to) || from == to || from.starts_with(to + "/") ||
      to.starts_with(from + "/"))
    throw Error(Code::kInvalidArgument, from + ": can be copied to another place of " + bucket +
                                            " that is not inside it, but not to " + to);
  const auto folder = [&](const std::string& path) { return path.substr(bucket.size() + 1) + "/"; };
  orbax::copy_checkpoint_in_store(open_store(bucket, store), {from, folder(from)}, {to, folder(to)},
                                  foreign);
}

}  // namespace cairn::inline v0
