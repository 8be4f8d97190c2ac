// local_root.cc -- a run in a directory of this machine, and the choice of the kind of root.
#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/orbax/manager/step_directory.h>
#include <cairn/orbax/manager/step_removal.h>

#include <utility>

namespace cairn::inline v0::orbax {
namespace {

class LocalRoot final : public RunRoot {
 public:
  explicit LocalRoot(Directory directory)
      : RunRoot(directory.path()), directory_(std::move(directory)) {}

  void for_each(std::size_t n, Executor& executor,
                const std::function<void(std::size_t)>& task) const override {
    executor.for_each(n, task);
  }

  bool exists() const override { return true; }
  bool exists(const std::string& name) const override {
    return directory_.kind(name) != EntryKind::kAbsent;
  }
  bool is_link(const std::string& name) const override {
    return directory_.kind(name) == EntryKind::kLink;
  }
  bool has_file(std::string_view name) const override { return file_exists(path_of(name)); }
  std::vector<std::string> folder_names() const override {
    std::vector<std::string> names;
    for (DirectoryEntry& entry : directory_.list())
      if (entry.kind == EntryKind::kDirectory || entry.kind == EntryKind::kLink)
        names.push_back(std::move(entry.name));
    return names;
  }
  StepPresence presence(const std::string& name, CommitRule rule) const override {
    if (!directory_exists(path_of(name))) return StepPresence::kAbsent;
    return is_committed(directory_, name, rule) ? StepPresence::kCommitted
                                                : StepPresence::kUncommitted;
  }
  bool is_gone(const std::string& name) const override { return !exists(name); }
  FolderPtr open_step(const std::string& name) const override {
    return LocalFolder::open_once(directory_, name);
  }
  bool has_item(const std::string& name, std::string_view item) const override {
    return directory_exists(join(path_of(name), item));
  }
  StepInfo read_step(const std::string& name, std::int64_t step) const override {
    return orbax::read_step(path_of(name), step);
  }
  std::optional<Metrics> read_metrics(const std::string& name) const override {
    return orbax::read_metrics(path_of(name));
  }
  std::map<std::string, std::string> needed_by_links(
      StepLinks& links, const std::set<std::string>& steps,
      const std::set<std::string>& going) const override {
    return links.find_needed(directory_, steps, going);
  }

  void check_removable(const std::string& name, ForeignFiles foreign) const override {
    check_step_removable(directory_, name, foreign);
  }
  void remove_step(const std::string& name, CommitProtocol protocol,
                   ForeignFiles foreign) const override {
    orbax::remove_step(directory_, name, protocol, foreign);
  }
  void set_step_aside(const std::string& name, const std::string& subfolder,
                      ForeignFiles foreign) const override {
    orbax::set_step_aside(directory_, name, subfolder, foreign);
  }
  void remove_leftovers(const StepNameFormat& format, CommitRule rule,
                        const std::function<void(const Error&)>& left) const override {
    orbax::remove_leftovers(directory_, format, rule, left);
  }
  void write_root_metadata(const std::string& custom_metadata) const override {
    orbax::write_root_metadata(directory_, custom_metadata);
  }
  std::string read_root_metadata() const override { return orbax::read_root_metadata(path()); }

 private:
  Directory directory_;
};

}  // namespace

std::string RunRoot::path_of(std::string_view name) const { return join(path_, name); }

std::unique_ptr<RunRoot> make_local_root(Directory directory) {
  return std::make_unique<LocalRoot>(std::move(directory));
}

std::unique_ptr<RunRoot> look_at_run(const std::string& path, const StorePtr& store) {
  if (store != nullptr) return make_store_root(store, path);
  auto directory = try_call([&] { return Directory::open(path); });
  if (directory) return make_local_root(std::move(directory).value());
  if (directory.error().code() == Code::kNotFound) return nullptr;
  throw Error(directory.error());
}

StorePtr open_run_store(const std::string& path, const StoreOptions& options) {
  if (!is_store_url(path)) return nullptr;
  if (!can_list(path))
    throw Error(Code::kUnimplemented,
                path + ": a web server does not list folders, so Cairn finds no steps there");
  return open_store(without_final_slashes(path), options);
}

}  // namespace cairn::inline v0::orbax
