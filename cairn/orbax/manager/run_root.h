// run_root.h -- RunRoot, the root of a training run as it is now: a directory of this machine, or a
// prefix of a store. It finds, describes and removes the folders of steps, for managers and for the
// tools that list and prune runs.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint_manager.h>
#include <cairn/error.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/orbax/commit/in_place.h>
#include <cairn/orbax/manager/step_links.h>
#include <cairn/storage/kvstore.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {

// Whether there is a folder of a step, and whether it counts as complete for a CommitRule.
enum class StepPresence : std::uint8_t { kAbsent, kUncommitted, kCommitted };

// One look at a root. What it has listed stays as it was; removals look again. A store is listed
// once, and if that does not show everything, each step that is asked about is listed once, too.
// Safe to use from many threads.
class RunRoot {
 public:
  RunRoot(const RunRoot&) = delete;
  RunRoot& operator=(const RunRoot&) = delete;
  virtual ~RunRoot() = default;

  // Absolute, or a URL. Without a final '/'.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(std::string_view name) const;
  // Runs the tasks in parallel. Those that ask a store wait most of the time, so more of them run
  // at once than there are cores.
  virtual void for_each(std::size_t n, Executor& executor,
                        const std::function<void(std::size_t)>& task) const = 0;

  // ---- look ----
  // False if there is nothing, not even an empty directory.
  [[nodiscard]] virtual bool exists() const = 0;
  // Whether an entry of the root, or a link to nowhere, has the name.
  [[nodiscard]] virtual bool exists(const std::string& name) const = 0;
  [[nodiscard]] virtual bool is_link(const std::string& name) const = 0;
  // `name` may have folders before it: "12/commit_success.txt".
  [[nodiscard]] virtual bool has_file(std::string_view name) const = 0;
  // The folders directly in the root, and the links, wherever they lead; sorted by name. A store
  // may list the prefix of a folder whose objects are gone.
  [[nodiscard]] virtual std::vector<std::string> folder_names() const = 0;
  // Whether the folder counts. In a store, a checkpoint without the marker may still count: where
  // the rule does not ask for the marker, it counts unless its records say that its save has not
  // ended; never on gs://.
  [[nodiscard]] virtual StepPresence presence(const std::string& name, CommitRule rule) const = 0;
  // Whether the folder is absent now, or no checkpoint any more.
  [[nodiscard]] virtual bool is_gone(const std::string& name) const = 0;
  // Throws not_found if the folder is absent.
  [[nodiscard]] virtual FolderPtr open_step(const std::string& name) const = 0;
  [[nodiscard]] virtual bool has_item(const std::string& name, std::string_view item) const = 0;
  // As the functions of step_directory.h.
  [[nodiscard]] virtual StepInfo read_step(const std::string& name, std::int64_t step) const = 0;
  [[nodiscard]] virtual std::optional<Metrics> read_metrics(const std::string& name) const = 0;
  // As StepLinks::find_needed(). A store has no links.
  [[nodiscard]] virtual std::map<std::string, std::string> needed_by_links(
      StepLinks& links, const std::set<std::string>& steps,
      const std::set<std::string>& going) const = 0;

  // ---- change ----
  // As the functions of step_removal.h. In a store, a removal takes the marker first and leaves
  // what looks unfinished until its last request. If another program saves there, it gives way.
  virtual void check_removable(const std::string& name, ForeignFiles foreign) const = 0;
  virtual void remove_step(const std::string& name, CommitProtocol protocol,
                           ForeignFiles foreign) const = 0;
  // Throws unimplemented for a store.
  virtual void set_step_aside(const std::string& name, const std::string& subfolder,
                              ForeignFiles foreign) const = 0;
  virtual void remove_leftovers(const StepNameFormat& format, CommitRule rule,
                                const std::function<void(const Error&)>& left) const = 0;
  // Stores the custom metadata of the run, a JSON object, unless some are stored.
  virtual void write_root_metadata(const std::string& custom_metadata) const = 0;
  // The stored ones as JSON; "" if there are none.
  [[nodiscard]] virtual std::string read_root_metadata() const = 0;

 protected:
  explicit RunRoot(std::string path) : path_(std::move(path)) {}

 private:
  std::string path_;
};

// A directory that is held open.
std::unique_ptr<RunRoot> make_local_root(Directory directory);
// The whole of a store; `url` names it.
std::unique_ptr<RunRoot> make_store_root(StorePtr store, std::string url);

// Looks at the root with that path() now; null if there is no such directory. `store` is the one
// of a URL, else null.
std::unique_ptr<RunRoot> look_at_run(const std::string& path, const StorePtr& store);

// The store of a URL in which a run can be; null for a path. Throws unimplemented for a URL of
// which no folders can be listed.
StorePtr open_run_store(const std::string& path, const StoreOptions& options);

}  // namespace cairn::inline v0::orbax
