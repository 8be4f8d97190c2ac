// checkpoint_directory.cc -- what the library does for its own checkpoints, for others.
#include <cairn/orbax/checkpoint_directory.h>

#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/manager/step_removal.h>

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

}  // namespace

struct CheckpointDirectory::State {
  State(const std::string& target, IfExists if_exists, CommitProtocol commit_protocol,
        ForeignFiles foreign)
      : pending(target, if_exists, Durability::kSynced, commit_protocol, foreign),
        protocol(commit_protocol) {}
  orbax::PendingDirectory pending;
  CommitProtocol protocol;
};

CheckpointDirectory::CheckpointDirectory(const std::string& target, IfExists if_exists,
                                         CommitProtocol protocol, ForeignFiles foreign)
    : state_(std::make_unique<State>(target, if_exists, protocol, foreign)) {}

CheckpointDirectory::~CheckpointDirectory() = default;

std::string CheckpointDirectory::path() const { return state_->pending.path(); }

void CheckpointDirectory::commit(const std::function<void()>& write_metadata) {
  const std::function<void()> write = write_metadata ? write_metadata : [] {};
  if (state_->protocol == CommitProtocol::kCommitMarker)
    return state_->pending.commit_in_place(write);
  write();
  state_->pending.commit();
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
