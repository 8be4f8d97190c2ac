// step_metadata.cc -- collects what a checkpoint records about itself.
#include <cairn/orbax/step_metadata.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/manager/step_directory.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

bool is_empty(const Json& object) {
  return object.as_object() == nullptr || object.as_object()->empty();
}

// The folder of a step of Orbax, and its items.
FolderPtr find_step(const std::string& path, const StoreOptions& store,
                    std::vector<std::string>& items) {
  const orbax::Layout layout = orbax::find_layout(path, {.store = store});
  if (!layout.root.empty())
    invalid_argument(path + ": is a directory of steps; give the path of one of them");
  for (const orbax::Item& item : layout.items)
    if (!item.name.empty()) items.push_back(item.name);
  std::ranges::sort(items);
  return layout.folder;
}

}  // namespace

StepMetadata read_step_metadata(const std::string& path, const StoreOptions& store) {
  StepMetadata found;
  const std::string where = normal_path(path);
  FolderPtr folder = orbax::open_checkpoint_folder(where, store);
  // A Distributed Checkpoint of PyTorch has no items.
  if (!folder->exists(orbax::join(folder->path(), orbax::kDistributedFile)))
    folder = find_step(where, store, found.items);
  const FolderHandle& step = *folder;
  found.metrics = orbax::read_metrics(step);
  const std::string file = orbax::join(step.path(), orbax::kCheckpointMetadataFile);
  if (!step.exists(file)) return found;
  const orbax::CheckpointMetadata recorded = orbax::read_checkpoint_metadata(step, file);
  found.init_timestamp_ns = recorded.init_time_ns;
  found.commit_timestamp_ns = recorded.commit_time_ns;
  found.item_handlers.insert(recorded.item_handlers.begin(), recorded.item_handlers.end());
  if (!found.metrics && !is_empty(recorded.metrics))
    found.metrics = orbax::numbers_of(recorded.metrics);
  if (!is_empty(recorded.custom_metadata))
    found.custom_metadata = to_text(recorded.custom_metadata, JsonStyle::kPython);
  return found;
}

}  // namespace cairn::inline v0
