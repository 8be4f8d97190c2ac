// pending_checkpoint.cc -- fills a pending directory with the files that describe the checkpoint,
// and commits it.
#include <cairn/orbax/commit/pending_checkpoint.h>

#include <cairn/base/executor.h>
#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/layout.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

const SaveOptions& checked(const SaveOptions& options, const CheckpointContent& content) {
  const auto refuse = [](const std::string& what) { throw Error(Code::kInvalidArgument, what); };
  if (options.item) check_item_name(*options.item);
  std::set<std::string_view> names;
  for (const auto& [name, handler] : content.items) {
    if (!names.insert(name).second) refuse("two items would be named '" + name + "'");
  }
  if (options.v1 && !options.item && content.items.empty())
    refuse(
        "version 1 of Orbax's API stores a tree as an item; give the item's name (it looks for "
        "'state')");
  if (options.chunk_bytes && *options.chunk_bytes <= 0)
    refuse("the chunk size is " + std::to_string(*options.chunk_bytes) +
           " bytes; it must be positive");
  if (options.target_file_bytes < 0)
    refuse("the data file size is " + std::to_string(options.target_file_bytes) +
           " bytes; it must not be negative (0: no limit)");
  if (!options.item_metadata.empty() &&
      given_json(options.item_metadata, "the item metadata").is_null())
    refuse("the item metadata is null");
  return options;
}

CheckpointMetadata new_metadata(const CheckpointContent& content) {
  CheckpointMetadata metadata;
  metadata.init_time_ns = now_ns();
  metadata.metrics = content.metrics;
  metadata.performance_metrics = content.performance_metrics;
  if (!content.custom_metadata.empty())
    metadata.custom_metadata =
        given_object(content.custom_metadata, "the checkpoint's custom metadata");
  return metadata;
}

std::vector<std::pair<std::string, std::string>> items_of(const SaveOptions& options,
                                                          const CheckpointContent& content) {
  if (!content.items.empty()) return content.items;
  return {{options.item.value_or(""), std::string(pytree_handler_name(options.v1))}};
}

}  // namespace

void check_item_name(const std::string& name) {
  const auto refuse = [](const std::string& what) { throw Error(Code::kInvalidArgument, what); };
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
    refuse("'" + name + "' cannot be the name of an item, because the name becomes a folder");
  if (name.find('\0') != std::string::npos) refuse("the name of an item has a NUL byte");
  // TensorStore takes a backslash as a slash, and a folder with this ending as a lock.
  if (name.find('\\') != std::string::npos || name.ends_with(".__lock"))
    refuse("the item name '" + name +
           "' has a backslash or ends with '.__lock', so Orbax cannot restore the item");
  if (name.find(kTemporaryMark) != std::string::npos)
    refuse("the item name '" + name + "' is reserved for unfinished items");
  // Beside the items, a checkpoint has files of these names.
  for (const std::string_view own :
       {kCommitFile, kCheckpointMetadataFile, kV1Marker, kDeletionFile})
    if (name == own) refuse("the item name '" + name + "' is that of a file of each checkpoint");
}

std::string_view pytree_handler_name(bool v1) { return v1 ? kV1PyTreeHandler : kPyTreeHandler; }

PendingCheckpoint::PendingCheckpoint(const std::string& path, const SaveOptions& options,
                                     const CheckpointContent& content)
    : options_(checked(options, content)),
      items_(items_of(options, content)),
      metadata_(new_metadata(content)),
      pending_(make_pending_place(path, options)),
      folder_(content.items.empty() ? folder_of(items_.front().first) : pending_->folder()) {
  const bool in_place = pending_->is_in_place();
  if (in_place) write_metadata();
  for (const auto& [name, handler] : items_) folder_of(name).make();
  // The next save may then remove what is left of this one, although it does not know such files.
  // A directory that is written at its path would look finished with handlers.
  if (!in_place && std::ranges::any_of(
                       items_, [](const auto& item) { return is_foreign_handler(item.second); })) {
    record_handlers();
    write_metadata();
  }
}

OutputFolder PendingCheckpoint::folder_of(const std::string& item) const {
  return pending_->folder().child(item);
}

void PendingCheckpoint::share() {
  pending_->leave_if_not_committed();
  if (!pending_->is_in_place()) write_metadata();
}

void PendingCheckpoint::record_handlers() {
  metadata_.item_handlers.clear();
  for (const auto& [name, handler] : items_)
    if (!handler.empty()) metadata_.item_handlers.emplace_back(name, handler);
}

void PendingCheckpoint::write_metadata() const {
  pending_->write_record(kCheckpointMetadataFile, checkpoint_metadata_text(metadata_));
}

// The markers of the items.
void PendingCheckpoint::mark_items() const {
  if (options_.v1) return;
  std::vector<OutputFolder> folders;
  for (const auto& [name, handler] : items_)
    if (!name.empty()) folders.push_back(folder_of(name));
  write_each(pending_->folder(), default_executor(), folders.size(),
             [&](std::size_t i) { folders[i].write(kCommitFile, commit_text(folders[i].path())); });
}

void PendingCheckpoint::commit(SyncedFiles* synced) {
  mark_items();
  const auto write_last = [&] {
    if (options_.v1) pending_->folder().write(kV1Marker, "");
    record_handlers();
    metadata_.commit_time_ns = now_ns();
    write_metadata();
  };
  pending_->commit(write_last, synced);
}

}  // namespace cairn::inline v0::orbax
