// pending_checkpoint.cc -- fills a pending directory with the files that describe the checkpoint, and
// commits it.
#include <cairn/orbax/save/pending_checkpoint.h>

#include <cairn/base/json.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>

#include <chrono>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

// Orbax's names for the handlers of such items.
constexpr const char* kHandler =
    "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler";
constexpr const char* kV1Handler =
    "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler.PyTreeHandler";

std::int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

const SaveOptions& checked(const SaveOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(Code::kInvalidArgument, what); };
  if (options.item && (options.item->empty() || options.item->find('/') != std::string::npos ||
                       *options.item == "." || *options.item == ".."))
    refuse("'" + *options.item +
           "' cannot be the name of an item, because the name becomes a folder");
  if (options.item && options.item->find(kTemporaryMark) != std::string::npos)
    refuse("the item name '" + *options.item + "' is reserved for unfinished items");
  if (options.v1 && !options.item)
    refuse(
        "version 1 of Orbax's API stores a tree as an item; give the item's name (it looks for "
        "'state')");
  if (options.chunk_bytes && *options.chunk_bytes <= 0)
    refuse("the chunk size is " + std::to_string(*options.chunk_bytes) +
           " bytes; it must be positive");
  if (options.target_file_bytes < 0)
    refuse("the data file size is " + std::to_string(options.target_file_bytes) +
           " bytes; it must not be negative (0: no limit)");
  if (!options.custom_metadata.empty())
    with_context([] { return "the custom metadata"; },
                 [&] {
                   if (parse_json(options.custom_metadata).is_null()) refuse("is null");
                 });
  return options;
}

CheckpointMetadata new_metadata(const std::string& custom_metadata) {
  CheckpointMetadata metadata;
  metadata.init_time_ns = now_ns();
  if (custom_metadata.empty()) return metadata;
  metadata.custom_metadata = with_context([] { return "the checkpoint's custom metadata"; },
                                          [&] { return parse_json(custom_metadata); });
  if (metadata.custom_metadata.as_object() == nullptr)
    throw Error(Code::kInvalidArgument, "the checkpoint's custom metadata is " +
                                            std::string(metadata.custom_metadata.type_text()) +
                                            "; it must be a JSON object");
  return metadata;
}

}  // namespace

PendingCheckpoint::PendingCheckpoint(const std::string& path, const SaveOptions& options,
                                     const std::string& custom_metadata)
    : options_(checked(options)),
      metadata_(new_metadata(custom_metadata)),
      pending_(path, options.if_exists, options.durability),
      folder_(options.item ? join(pending_.path(), *options.item) : pending_.path()) {
  make_directories(folder_, Durability::kDeferredSync);
}

void PendingCheckpoint::share() {
  pending_.leave_if_not_committed();
  write_pending_file(pending_.path(), kCheckpointMetadataFile, checkpoint_metadata_text(metadata_));
}

void PendingCheckpoint::commit() {
  const std::string committed = "Checkpoint commit was successful to ";
  if (options_.item && !options_.v1) write_pending_file(folder_, kCommitFile, committed + folder_);
  if (options_.v1) write_pending_file(pending_.path(), kV1Marker, "");
  metadata_.item_handlers = {{options_.item.value_or(""), options_.v1 ? kV1Handler : kHandler}};
  metadata_.commit_time_ns = now_ns();
  write_pending_file(pending_.path(), kCheckpointMetadataFile, checkpoint_metadata_text(metadata_));
  write_pending_file(pending_.path(), kCommitFile, committed + pending_.target());
  pending_.commit();
}

}  // namespace cairn::inline v0::orbax
