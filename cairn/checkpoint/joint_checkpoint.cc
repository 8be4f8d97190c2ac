// joint_checkpoint.cc -- the steps of a save around the writing.
#include <cairn/checkpoint/commit.h>
#include <cairn/checkpoint/joint_checkpoint.h>
#include <cairn/checkpoint/layout.h>

#include <utility>
#include <vector>

namespace cairn::checkpoint {

using distributed::Before;

JointCheckpoint::JointCheckpoint(const std::string& path, const SaveOptions& options, const std::string& custom_metadata,
                                 distributed::Team team)
    : team_(std::move(team)) {
  const std::vector<Bytes> folders = team_.exchange("save: start", Before::kShortWork, [&] {
    folder_ = PendingDirectory::path_for(path);
    const ByteView text = as_bytes(folder_);
    return Bytes(text.begin(), text.end());
  });
  for (std::size_t p = 0; p < folders.size() && !team_.apart(); ++p)
    if (folders[p] != folders[team_.primary()])
      throw Error(Code::kInvalidArgument, "the processes do not save the same checkpoint: process " + std::to_string(p) + " writes to " +
                                              std::string(as_text(folders[p])) + ", process " + std::to_string(team_.primary()) + " to " +
                                              std::string(as_text(folders[team_.primary()])));
  team_.step("save: temporary directory", Before::kShortWork, [&] {
    if (!team_.is_primary()) {
      if (options.item) folder_ = join(folder_, *options.item);
      return;
    }
    pending_.emplace(path, options, custom_metadata);
    folder_ = pending_->folder();
    if (!team_.alone()) pending_->share();
  });
}

void JointCheckpoint::give_up() {
  if (team_.alone()) return;
  const auto all_here = try_call([&] {
    team_.step("save: give up", Before::kReadingOrWriting, [] {});
    return true;
  });
  if (all_here && pending_) pending_->remove();
}

void JointCheckpoint::commit(const std::function<void()>& finalize) {
  bool in_place = false;
  try {
    team_.step("save: commit", Before::kReadingOrWriting, [&] {
      if (!pending_) return;
      finalize();
      pending_->commit();
      in_place = true;
    });
  } catch (Error& e) {
    if (in_place) e.add_context(folder_ + ": is in place under its final name, but not all processes know");
    throw;
  }
}

}  // namespace cairn::checkpoint
