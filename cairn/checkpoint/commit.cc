// commit.cc -- from temporary to final.
#include <cairn/base/directory.h>
#include <cairn/base/file.h>
#include <cairn/checkpoint/commit.h>
#include <cairn/checkpoint/layout.h>
#include <cairn/error.h>

#include <filesystem>
#include <utility>

namespace cairn::checkpoint {
namespace {

static_assert(kSetAsideMark.starts_with(kTemporaryMark));

// Absolute and without a '/' at its end: its name is its last part.
std::string absolute(const std::string& path) {
  if (path.empty()) throw Error(Code::kInvalidArgument, "the path of the checkpoint to be written is empty");
  std::string full = absolute_path(path);
  if (full == "/") throw Error(Code::kInvalidArgument, path + ": the root folder cannot be a checkpoint");
  return full;
}

[[noreturn]] void refuse_existing(const std::string& target) {
  throw Error(Code::kAlreadyExists, target + ": is there already; choose another path, or say that it may be replaced");
}

void restore_set_aside(const std::string& old, const std::string& target) {
  if (file_exists(target)) return remove_tree(old);
  rename_tree(old, target);
  sync_parent(target);
}

}  // namespace

std::string PendingDirectory::path_for(const std::string& target) {
  std::string full = absolute(target);
  if (full.find(kTemporaryMark) != std::string::npos)
    throw Error(Code::kInvalidArgument, full + ": a name with '" + std::string(kTemporaryMark) + "' is that of an unfinished checkpoint");
  return full += kTemporaryMark;
}

PendingDirectory::PendingDirectory(const std::string& target, bool replace, Durability durability)
    : target_(absolute(target)), path_(path_for(target)), replace_(replace), durability_(durability) {
  const std::string old = target_ + std::string(kSetAsideMark);
  // A crash between the two renames of a replacement: what was there comes back first.
  if (directory_exists(old)) restore_set_aside(old, target_);
  if (!replace_ && file_exists(target_)) refuse_existing(target_);
  if (replace_ && file_exists(target_) && !directory_exists(target_))
    throw Error(Code::kAlreadyExists, target_ + ": is a file; a checkpoint would be a folder");
  remove_tree(path_);
  make_directories(std::filesystem::path(path_).parent_path().string());
  make_directories(path_, Durability::kSyncedLater);
}

PendingDirectory::~PendingDirectory() {
  if (committed_ || leave_) return;
  try {
    remove_tree(path_);
  } catch (const Error&) {
    // The error that kept it from being committed says more.
  }
}

void PendingDirectory::commit() {
  if (durability_ != Durability::kUnsynced) sync_tree(path_);
  std::string old;
  if (replace_ && file_exists(target_))
    old = replace_target();
  else
    rename_tree(path_, target_);
  committed_ = true;  // whatever fails now, the path names the new checkpoint
  if (durability_ != Durability::kUnsynced) sync_parent(target_);
  if (!old.empty()) in([&] { return target_ + ": is in place, but the old one is still there"; }, [&] { remove_tree(old); });
}

std::string PendingDirectory::replace_target() {
  if (swap_trees(path_, target_)) return path_;  // what has the temporary name now is the old checkpoint
  std::string old = target_ + std::string(kSetAsideMark);
  rename_tree(target_, old);
  try {
    rename_tree(path_, target_);
  } catch (const Error&) {
    if (try_call([&] { return rename_tree(old, target_), true; })) throw;
    throw Error(Code::kIo, target_ + ": cannot be replaced nor restored; what was there is " + old + ", and the next save brings it back");
  }
  return old;
}

void write_pending_file(const std::string& folder, std::string_view name, std::string_view text) {
  AtomicFile file(join(folder, name));
  file.append(as_bytes(text));
  file.commit(Durability::kUnsynced);
}

}  // namespace cairn::checkpoint
