// directories.cc -- binds checkpoint_directory.h.
#include "directories.h"

#include "gil.h"
#include "values/text.h"

#include <cairn/orbax/checkpoint_directory.h>

#include <optional>
#include <string>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using Unlocked = nb::call_guard<WithoutGil>;

// A manager's steps are removed whole, as in Orbax: the directory is the manager's.
constexpr ForeignFiles kForeign = ForeignFiles::kRemove;

CommitProtocol protocol_of(bool in_place) {
  return in_place ? CommitProtocol::kCommitMarker : CommitProtocol::kAtomicRename;
}

class PendingDirectory {
 public:
  // foreign: whether files that do not belong to a checkpoint go with the one that is replaced.
  // Else those at its top level stay, and others are refused.
  PendingDirectory(const PathText& target, bool replace, bool in_place, bool foreign) {
    const WithoutGil unlocked;
    directory_.emplace(target.local(), replace ? IfExists::kReplace : IfExists::kFail,
                       protocol_of(in_place),
                       foreign ? ForeignFiles::kRemove : ForeignFiles::kKeepFiles);
  }
  [[nodiscard]] nb::object path() const { return to_str(directory_->path()); }
  // `write_metadata` is a function of Python.
  void commit(nb::handle write_metadata) {
    directory_->commit([&] {
      const WithGil locked;
      call_python(write_metadata);
    });
  }
  // Removes the directory, unless it is committed. Gives the lock of the target back.
  void close() { directory_.reset(); }

 private:
  std::optional<CheckpointDirectory> directory_;
};

}  // namespace

void define_directories(nb::module_& module) {
  nb::class_<PendingDirectory>(module, "CheckpointDirectory",
                               "A directory that appears complete or not at all.")
      .def(nb::init<const PathText&, bool, bool, bool>(), nb::arg("target"), nb::arg("replace"),
           nb::arg("in_place"), nb::arg("foreign"))
      .def("path", &PendingDirectory::path)
      .def("commit", &PendingDirectory::commit, nb::arg("write_metadata"), Unlocked())
      .def("close", &PendingDirectory::close, Unlocked());
  module.def(
      "remove_checkpoint",
      [](const PathText& path, bool in_place) {
        remove_checkpoint(path.local(), protocol_of(in_place), kForeign);
      },
      nb::arg("path"), nb::arg("in_place") = false, Unlocked());
  module.def(
      "set_checkpoint_aside",
      [](const PathText& path, const std::string& subdirectory) {
        set_checkpoint_aside(path.local(), subdirectory, kForeign);
      },
      nb::arg("path"), nb::arg("subdirectory"), Unlocked());
}

}  // namespace cairn::python
