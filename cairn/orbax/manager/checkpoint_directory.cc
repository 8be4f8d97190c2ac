// checkpoint_directory.cc -- what the library does for its own checkpoints, for others.
#include <cairn/orbax/checkpoint_directory.h>

#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/manager/step_removal.h>

#include <sys/stat.h>

#include <cerrno>

namespace cairn::inline v0 {
namespace {

// The directory above a path, and the last name of it.
struct Place {
  Directory parent;
  std::string name;
};
Place place_of(const std::string& path) {
  const std::string full = absolute_path(path);
  return {Directory::open(parent_of(full)), std::string(name_of(full))};
}

// Files beside a checkpoint belong to it if a handler of the program's own wrote the whole of it.
ForeignFiles foreign_of(const std::string& target, ForeignFiles foreign) {
  if (foreign != ForeignFiles::kKeepFiles) return foreign;
  const auto metadata = try_call([&] {
    return orbax::read_checkpoint_metadata(orbax::join(target, orbax::kCheckpointMetadataFile));
  });
  if (!metadata) return foreign;
  const auto& handlers = metadata.value().item_handlers;
  const bool is_direct = handlers.size() == 1 && handlers.front().first.empty();
  return is_direct && orbax::owns_all_files(handlers.front().second) ? ForeignFiles::kRemove
                                                                     : foreign;
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
        ForeignFiles foreign)
      : given(target),
        pending(target, if_exists, Durability::kSynced, commit_protocol,
                foreign_of(target, foreign)),
        protocol(commit_protocol) {}

  void write_record(std::string_view item_handlers) const {
    orbax::write_pending_file(
        pending.path(), orbax::kCheckpointMetadataFile,
        orbax::checkpoint_metadata_text(record, item_handlers, custom_metadata));
  }

  std::string given;  // the target as the caller wrote it, which the commit file names, as in Orbax
  orbax::PendingDirectory pending;
  CommitProtocol protocol;
  orbax::CheckpointMetadata record;  // its times
  std::string custom_metadata = "{}";
};

CheckpointDirectory::CheckpointDirectory(const std::string& target, IfExists if_exists,
                                         CommitProtocol protocol, ForeignFiles foreign)
    : state_(std::make_unique<State>(target, if_exists, protocol, foreign)) {}

CheckpointDirectory::~CheckpointDirectory() = default;

std::string CheckpointDirectory::path() const { return state_->pending.path(); }

void CheckpointDirectory::restrict_permissions(unsigned mode) {
  cairn::restrict_permissions(path(), mode);
}

void CheckpointDirectory::record_start(std::string_view custom_metadata) {
  state_->custom_metadata = custom_metadata;
  state_->record.init_time_ns = orbax::now_ns();
  state_->write_record("null");
}

void CheckpointDirectory::commit(const std::function<void()>& write_metadata) {
  const std::function<void()> write = write_metadata ? write_metadata : [] {};
  if (state_->protocol == CommitProtocol::kCommitMarker)
    return state_->pending.commit_in_place(write);
  write();
  state_->pending.commit();
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

void remove_checkpoint(const std::string& path, CommitProtocol protocol, ForeignFiles foreign) {
  const Place place = place_of(path);
  orbax::remove_step(place.parent, place.name, protocol, foreign);
}

void set_checkpoint_aside(const std::string& path, const std::string& subdirectory,
                          ForeignFiles foreign) {
  const Place place = place_of(path);
  orbax::set_step_aside(place.parent, place.name, subdirectory, foreign);
}

}  // namespace cairn::inline v0
