// checkpoint_manager.cc -- the functions of the public class.
#include <cairn/checkpoint_manager.h>

#include <cairn/base/errors.h>
#include <cairn/base/observer/observe.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/manager/best_steps.h>
#include <cairn/orbax/manager/checkpoint_manager/state.h>
#include <cairn/orbax/manager/manager_options.h>
#include <cairn/orbax/restore/restored_items.h>
#include <cairn/orbax/save/composite_args.h>

#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kDefaultItem = "default";

}  // namespace

CheckpointManager::State::State(const std::string& directory, CheckpointManagerOptions given)
    : options(std::move(given)),
      group(options.handler.multiprocessing_options, options.handler.observer),
      saves((orbax::check_options(options), orbax::save_policy_of(options))),
      keeps(orbax::keep_policy_of(options)),
      handler(options.handler),
      root(made_root(directory)) {
  for (const std::string_view option : orbax::ignored_options(options))
    events.option_ignored(option);
  const Stopwatch watch;
  take(steps_for_all(), false, watch);
}

CheckpointManager::CheckpointManager(const std::string& directory, CheckpointManagerOptions options)
    : state_(std::make_unique<State>(directory, std::move(options))) {}
CheckpointManager::~CheckpointManager() = default;

const std::string& CheckpointManager::directory() const { return state_->root; }

std::vector<std::int64_t> CheckpointManager::all_steps() const {
  return state_->listing.get()->complete;
}

std::vector<IncompleteStep> CheckpointManager::incomplete_steps() const {
  return state_->listing.get()->incomplete;
}

std::optional<std::int64_t> CheckpointManager::latest_step() const {
  const auto listed = state_->listing.get();
  if (listed->complete.empty()) return std::nullopt;
  return listed->complete.back();
}

std::optional<std::int64_t> CheckpointManager::best_step() const {
  if (!state_->options.best_fn) return latest_step();
  state_->read_details();
  const std::vector<std::size_t> ranked =
      orbax::by_quality(state_->steps, state_->options.best_fn, state_->options.best_mode);
  if (ranked.empty()) return std::nullopt;
  return state_->steps[ranked.back()].step;
}

std::optional<Metrics> CheckpointManager::metrics(std::int64_t step) const {
  const auto there = state_->look();
  return there ? there->read_metrics(state_->name_of(step)) : std::nullopt;
}

StepMetadata CheckpointManager::metadata(std::int64_t step) const {
  return read_step_metadata(state_->existing(step), state_->options.handler.store);
}

std::string CheckpointManager::root_metadata() const {
  const auto there = state_->look();
  std::string stored = there ? there->read_root_metadata() : "";
  const CheckpointManagerOptions& options = state_->options;
  if (!stored.empty() || !options.read_only || options.root_metadata.empty()) return stored;
  return orbax::json_object_text(options.root_metadata, "the root metadata");
}

bool CheckpointManager::should_save(std::int64_t step) const {
  return state_->should_save(step, state_->is_preempted(step));
}

bool CheckpointManager::reached_preemption() const { return state_->reached_preemption; }

bool CheckpointManager::save(std::int64_t step, const PyTreeSaveArgs& tree,
                             const StepSaveOptions& options) {
  return state_->save(step, options, [&](orbax::CompositeArgs& args) {
    if (const auto& format = state_->options.step_format) {
      args.trees.push_back({.folder = "", .args = orbax::borrowed(tree), .format = format});
      args.folders.emplace_back("", "");  // the step's own folder, of no handler of Orbax
      return;
    }
    orbax::add_tree(std::string(kDefaultItem), tree, args);
  });
}

bool CheckpointManager::save(std::int64_t step, const CheckpointItems& items,
                             const StepSaveOptions& options) {
  state_->refuse_items();
  return state_->save(step, options, [&](orbax::CompositeArgs& args) {
    for (const auto& [name, item] : items) {
      if (name == orbax::kMetricsItem)
        invalid_argument("the item name '" + name + "' is reserved; give metrics as an option");
      orbax::add_item(name, item, args);
    }
  });
}

Tree CheckpointManager::restore(std::optional<std::int64_t> step, const PyTreeRestoreArgs& args,
                                std::string_view item) {
  state_->wait();
  if (const auto& format = state_->options.step_format)
    return format->restore(state_->existing(step), args, state_->options.handler);
  return state_->handler.restore(state_->existing(step, item), args);
}

RestoredItems CheckpointManager::restore_items(std::optional<std::int64_t> step,
                                               const ItemRequests& requests,
                                               const FilesReaders& readers) {
  state_->refuse_items();
  state_->wait();
  const State& state = *state_;
  return orbax::restore_items(
      state.existing(step), requests,
      {state.handler, readers, state.options.handler.observer, state.options.handler.store});
}

std::string CheckpointManager::restore_json(std::optional<std::int64_t> step,
                                            std::string_view item) {
  state_->wait();
  return orbax::read_json_file(state_->existing(step, item), item, state_->options.handler.store);
}

void CheckpointManager::remove(std::int64_t step) {
  if (state_->options.read_only) return state_->events.skipped_as_read_only("remove");
  state_->wait();
  state_->check_removable(step);
  state_->remove(step);
}

void CheckpointManager::reload() { state_->reload(); }

void CheckpointManager::wait_until_finished() { state_->wait(); }

void CheckpointManager::check_for_errors() {
  state_->looking_again([&] {
    state_->running.check();
    state_->removing.check();
  });
}

bool CheckpointManager::is_saving_in_progress() const { return state_->running.is_running(); }

void CheckpointManager::close() {
  state_->closed = true;
  state_->wait();
  state_->handler.close();
}

}  // namespace cairn::inline v0
