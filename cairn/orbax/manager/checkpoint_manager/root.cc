// root.cc -- makes, opens and cleans the directory of the steps, or the run in a store.
#include <cairn/orbax/manager/checkpoint_manager/state.h>

#include <cairn/distributed/consistency.h>
#include <cairn/io/file.h>
#include <cairn/orbax/manager/manager_options.h>

#include <memory>
#include <string>

namespace cairn::inline v0 {
namespace {

using distributed::StepKind;

}  // namespace

std::string CheckpointManager::State::made_root(const std::string& directory) {
  if (directory.empty()) invalid_argument("the directory of the steps has no name");
  // The primary has made the directory when this step ends. A manager that is read-only leaves
  // out steps that the others take.
  distributed::ConsistencyCheck consistency;
  const auto messages = group.gather("steps: make", StepKind::kControl, [&] {
    if (group.is_primary()) make_root(directory);
    consistency.add("read_only", options.read_only ? "true" : "false");
    consistency.add("runs in stores", is_store_url(directory) ? "true" : "false");
    return consistency.message();
  });
  consistency.check(messages, group, "steps: other managers");
  std::string opened;
  group.step("steps: open", StepKind::kControl, [&] {
    store = orbax::open_run_store(directory, options.handler.store);
    opened = store ? normal_path(directory) : Directory::open(directory).path();
  });
  return opened;
}

void CheckpointManager::State::make_root(const std::string& directory) const {
  const StorePtr made_in = orbax::open_run_store(directory, options.handler.store);
  if (made_in == nullptr) make_directory(directory);
  const std::string path = made_in ? normal_path(directory) : directory;
  const auto made = orbax::look_at_run(path, made_in);
  if (made_in != nullptr) check_root_in_store(*made);
  if (options.read_only) return;
  if (!options.root_metadata.empty()) made->write_root_metadata(options.root_metadata);
  if (options.cleanup_tmp_directories)
    made->remove_leftovers(options.step_name_format, orbax::commit_rule_of(options),
                           [&](const Error& why) { report_left(made->path(), why); });
}

void CheckpointManager::State::make_directory(const std::string& directory) const {
  refuse_url(directory);
  if (directory_exists(directory)) return;
  if (file_exists(directory))
    invalid_argument(directory + ": is " + kind_at(directory) + "; the steps need a directory");
  if (options.read_only || !options.create)
    throw Error(Code::kNotFound, directory + ": there is no such directory");
  make_directories(directory);
}

void CheckpointManager::State::check_root_in_store(const orbax::RunRoot& root_there) const {
  if (options.todelete_subdir && !options.read_only)
    throw Error(Code::kUnimplemented,
                root_there.path() +
                    ": todelete_subdir needs folders that can be renamed, which a store does not "
                    "have (Orbax ignores the option on gs://); leave it out");
  if ((options.read_only || !options.create) && !root_there.exists())
    throw Error(Code::kNotFound, root_there.path() + ": there is no such directory");
}

void CheckpointManager::State::report_left(const std::string& directory, const Error& why) const {
  observe(options.handler.observer, EventLevel::kWarning, "steps.not_removed",
          {{"path", directory}, {"message", why.message()}});
}

std::unique_ptr<orbax::RunRoot> CheckpointManager::State::look() const {
  return store || directory_exists(root) ? orbax::look_at_run(root, store) : nullptr;
}

}  // namespace cairn::inline v0
