// store_root.cc -- a run in a store: the steps are prefixes, and their markers say which count.
#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/orbax/commit/in_store.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/orbax/manager/step_directory.h>
#include <cairn/orbax/manager/store_removal.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::size_t kMostStepsAtOnce = 16;

// Only the marker counts: always on gs://, as for Orbax.
bool asks_for_marker(const std::string& path, CommitRule rule) {
  return path.starts_with("gs://") ||
         (rule.protocol == CommitProtocol::kCommitMarker && !rule.allow_legacy_atomic_rename);
}

std::string key_of(std::string_view folder, std::string_view name) {
  return std::string(folder) + "/" + std::string(name);
}

std::chrono::system_clock::time_point clock_time(std::int64_t ns) {
  using Clock = std::chrono::system_clock;
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(ns)));
}

class StoreRoot final : public RunRoot {
 public:
  StoreRoot(StorePtr store, std::string url) : RunRoot(std::move(url)), store_(std::move(store)) {}

  void for_each(std::size_t n, Executor& executor,
                const std::function<void(std::size_t)>& task) const override {
    if (n < 2 || executor.threads() >= kMostStepsAtOnce) return executor.for_each(n, task);
    Executor(std::min(n, kMostStepsAtOnce)).for_each(n, task);
  }

  bool exists() const override { return listed() != nullptr; }
  bool exists(const std::string& name) const override {
    const auto step = try_call([&] { return open_step(name); });
    if (!step && step.error().code() != Code::kNotFound) throw Error(step.error());
    return step.ok();
  }
  bool is_link(const std::string& /*name*/) const override { return false; }
  bool has_file(std::string_view name) const override {
    if (!knows_all_names()) return store_->size(name).has_value();
    const FolderPtr root = listed();
    return root != nullptr && root->file_size(path_of(name)).has_value();
  }
  std::vector<std::string> folder_names() const override {
    const FolderPtr root = listed();
    std::vector<std::string> names;
    if (root == nullptr) return names;
    for (FolderEntry& entry : root->entries(root->path()))
      if (entry.is_folder) names.push_back(std::move(entry.name));
    std::ranges::sort(names);
    return names;
  }

  StepPresence presence(const std::string& name, CommitRule rule) const override {
    if (has_file(key_of(name, kCommitFile))) return StepPresence::kCommitted;
    if (!exists(name)) return StepPresence::kAbsent;
    const FolderPtr step = open_step(name);
    // PyTorch writes this file last.
    if (step->exists(join(step->path(), kDistributedFile))) return StepPresence::kCommitted;
    return asks_for_marker(path(), rule) || !why_unfinished(step).empty()
               ? StepPresence::kUncommitted
               : StepPresence::kCommitted;
  }
  bool is_gone(const std::string& name) const override {
    return StoreRoot(store_, path()).presence(name, {}) != StepPresence::kCommitted;
  }

  FolderPtr open_step(const std::string& name) const override {
    if (knows_all_names()) {
      const FolderPtr root = listed();
      if (root != nullptr) return root->open_below(path_of(name));
      throw Error(Code::kNotFound, path_of(name) + ": no object has this prefix");
    }
    {
      const std::scoped_lock lock(mutex_);
      if (const auto known = steps_.find(name); known != steps_.end()) return known->second;
    }
    FolderPtr step = StoreFolder::open(prefix_store(store_, name + "/"), path_of(name));
    const std::scoped_lock lock(mutex_);
    return steps_.emplace(name, std::move(step)).first->second;
  }
  bool has_item(const std::string& name, std::string_view item) const override {
    return !store_->list_values(key_of(name, item) + "/", 1).values.empty();
  }

  StepInfo read_step(const std::string& name, std::int64_t step) const override {
    return {.step = step, .time = time_of(name), .metrics = read_metrics(name)};
  }
  std::optional<Metrics> read_metrics(const std::string& name) const override {
    const std::string key = key_of(key_of(name, kMetricsItem), kMetricsItem);
    const auto text = store_->read_at_most(key, kMaxMetadataFile);
    if (!text) return std::nullopt;
    return numbers_of(with_context([&] { return store_->describe(key); },
                                   [&] { return parse_json(as_text(*text)); }));
  }
  std::map<std::string, std::string> needed_by_links(
      StepLinks& /*links*/, const std::set<std::string>& /*steps*/,
      const std::set<std::string>& /*going*/) const override {
    return {};
  }

  void check_removable(const std::string& name, ForeignFiles foreign) const override {
    check_removable_in_store(StoreFolder::open(prefix_store(store_, name + "/"), path_of(name)),
                             foreign);
  }
  void remove_step(const std::string& name, CommitProtocol /*protocol*/,
                   ForeignFiles foreign) const override {
    remove_checkpoint_in_store(store_, name + "/", path_of(name), foreign);
  }
  void set_step_aside(const std::string& name, const std::string& /*subfolder*/,
                      ForeignFiles /*foreign*/) const override {
    throw Error(Code::kUnimplemented,
                path_of(name) + ": a store cannot rename folders, so no step can be set aside");
  }
  void remove_leftovers(const StepNameFormat& format, CommitRule rule,
                        const std::function<void(const Error&)>& left) const override {
    for (const std::string& name : folder_names()) {
      const std::size_t mark = name.find(kTemporaryMark);
      if (!parse_step_name(name.substr(0, mark), format)) continue;
      const auto removed = try_call([&] {
        if (mark == std::string::npos && presence(name, rule) != StepPresence::kUncommitted)
          return false;
        const FolderPtr step = open_step(name);
        check_leftover_in_store(step);
        // Its save may end only now.
        remove_claimed_in_store(*store_, name + "/", claim_in_store(*store_, name + "/", *step));
        return true;
      });
      if (!removed && removed.error().code() != Code::kNotFound) left(removed.error());
    }
  }

  void write_root_metadata(const std::string& custom_metadata) const override {
    const std::string text = root_metadata_text(custom_metadata);
    // False if some are stored; those stay.
    (void)store_->replace_if(key_of(kRootMetadataFolder, kRootMetadataFile), std::nullopt,
                             as_bytes(text));
  }
  std::string read_root_metadata() const override {
    for (const std::string_view name : {kRootMetadataFile, kLegacyRootMetadataFile}) {
      const std::string key = key_of(kRootMetadataFolder, name);
      const auto text = store_->read_at_most(key, kMaxMetadataFile);
      if (!text) continue;
      const Json custom = with_context([&] { return store_->describe(key); },
                                       [&] { return parse_root_metadata(as_text(*text)); });
      return custom.is_null() ? "" : to_text(custom, JsonStyle::kPython);
    }
    return "";
  }

 private:
  // The root as it was listed first; null if it has no objects.
  FolderPtr listed() const {
    const std::scoped_lock lock(mutex_);
    if (is_listed_) return root_;
    auto root = try_call([&] { return StoreFolder::open(store_, path()); });
    if (root)
      root_ = std::move(root).value();
    else if (root.error().code() != Code::kNotFound || !is_empty())
      throw Error(root.error());
    is_listed_ = true;
    return root_;
  }
  // Throws not_found if the bucket is missing, not only the objects.
  [[nodiscard]] bool is_empty() const { return store_->list_values("", 1).values.empty(); }

  // Whether the root has been listed, and that has shown all names below it.
  bool knows_all_names() const {
    const std::scoped_lock lock(mutex_);
    return is_listed_ && (root_ == nullptr || StoreFolder::of(*root_)->knows_all_names());
  }

  // When the step was committed or, if it does not say so, when its newest object was written.
  [[nodiscard]] std::chrono::system_clock::time_point time_of(const std::string& name) const {
    const auto recorded = try_call([&] {
      const auto text =
          store_->read_at_most(key_of(name, kCheckpointMetadataFile), kMaxMetadataFile);
      return text ? parse_checkpoint_metadata(as_text(*text)).commit_time_ns : std::nullopt;
    });
    if (recorded && recorded.value()) return clock_time(*recorded.value());
    std::int64_t newest = 0;
    for (const StoredValue& value : store_->list_values(name + "/", SIZE_MAX).values)
      newest = std::max(newest, value.modified_ns);
    return clock_time(newest);
  }

  StorePtr store_;
  mutable std::mutex mutex_;  // guards the members below
  mutable bool is_listed_ = false;
  mutable FolderPtr root_;                          // null: no objects
  mutable std::map<std::string, FolderPtr> steps_;  // by name; of a root with too many names
};

}  // namespace

std::unique_ptr<RunRoot> make_store_root(StorePtr store, std::string url) {
  return std::make_unique<StoreRoot>(std::move(store), std::move(url));
}

}  // namespace cairn::inline v0::orbax
