// directories.cc -- binds checkpoint_directory.h, and the removal of leftovers.
#include "directories.h"

#include "values/text.h"

#include <cairn/checkpoint_directory.h>
#include <cairn/maintain.h>

#include <optional>
#include <string>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

class PendingDirectory {
 public:
  PendingDirectory(const PathText& target, bool replace) {
    const nb::gil_scoped_release unlocked;
    directory_.emplace(target.local(), replace ? IfExists::kReplace : IfExists::kFail);
  }
  [[nodiscard]] nb::object path() const { return to_str(directory_->path()); }
  void commit() { directory_->commit(); }
  // Removes the directory, unless it is committed. Gives the lock of the target back.
  void close() { directory_.reset(); }

 private:
  std::optional<CheckpointDirectory> directory_;
};

}  // namespace

void define_directories(nb::module_& module) {
  nb::class_<PendingDirectory>(module, "CheckpointDirectory",
                               "A directory that appears complete or not at all.")
      .def(nb::init<const PathText&, bool>(), nb::arg("target"), nb::arg("replace"))
      .def("path", &PendingDirectory::path)
      .def("commit", &PendingDirectory::commit, Unlocked())
      .def("close", &PendingDirectory::close, Unlocked());
  module.def(
      "remove_checkpoint", [](const PathText& path) { remove_checkpoint(path.local()); },
      nb::arg("path"), Unlocked());
  module.def(
      "set_checkpoint_aside",
      [](const PathText& path, const std::string& subdirectory) {
        set_checkpoint_aside(path.local(), subdirectory);
      },
      nb::arg("path"), nb::arg("subdirectory"), Unlocked());
  module.def(
      "clean_json",
      [](const PathText& path, bool dry_run) {
        return clean_json(
            clean_leftovers(path.local(), dry_run ? CleanMode::kShow : CleanMode::kRemove));
      },
      nb::arg("path"), nb::arg("dry_run"), Unlocked());
}

}  // namespace cairn::python
