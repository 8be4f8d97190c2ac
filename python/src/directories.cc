// directories.cc -- binds checkpoint_directory.h.
#include "directories.h"

#include "gil.h"
#include "values/text.h"

#include <cairn/checkpoint_manager.h>
#include <cairn/orbax/checkpoint_directory.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using Unlocked = nb::call_guard<WithoutGil>;

// A manager's steps are removed whole, as in Orbax: the directory is the manager's.
constexpr ForeignFiles kForeign = ForeignFiles::kRemove;

CommitProtocol protocol_of(bool in_place) {
  return in_place ? CommitProtocol::kCommitMarker : CommitProtocol::kAtomicRename;
}

// Unlike in the library, a prefix that is empty has an underscore, as in Orbax: _12.
StepNameFormat name_format(const std::optional<std::string>& prefix, std::size_t digits) {
  StepNameFormat format(prefix.value_or(""), digits);
  if (!prefix || !prefix->empty()) return format;
  const StepNameFormat plain = format;
  format.name = [plain](std::int64_t step) { return "_" + step_name(step, plain); };
  format.parse = [plain](std::string_view name) {
    return name.starts_with('_') ? parse_step_name(name.substr(1), plain) : std::nullopt;
  };
  return format;
}

class PendingDirectory {
 public:
  // is_step: whether files that do not belong to a checkpoint go with the one that is replaced.
  // Else those at its top level stay, and others are refused.
  PendingDirectory(const std::string& target, bool replace, bool in_place, bool is_step,
                   std::optional<unsigned> mode, const std::string& custom_metadata) {
    directory_.emplace(target, replace ? IfExists::kReplace : IfExists::kFail,
                       protocol_of(in_place), is_step ? kForeign : ForeignFiles::kKeepFiles);
    if (mode) directory_->restrict_permissions(*mode);
    directory_->record_start(custom_metadata);
  }
  [[nodiscard]] std::string path() const { return directory_->path(); }
  // Removes the directory if it cannot be committed.
  void commit(const std::string& item_handlers) {
    try {
      directory_->commit_recorded(item_handlers);
    } catch (...) {
      close();
      throw;
    }
    close();
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
      .def_static(
          "create",
          [](const PathText& target, bool replace, bool in_place, bool is_step,
             std::optional<unsigned> mode, const std::string& custom_metadata) {
            std::unique_ptr<PendingDirectory> made;
            {
              const WithoutGil unlocked;
              made = std::make_unique<PendingDirectory>(target.place(), replace, in_place, is_step,
                                                        mode, custom_metadata);
            }
            const nb::object path = to_str(made->path());
            return nb::make_tuple(nb::cast(std::move(made)), path);
          },
          nb::arg("target"), nb::kw_only(), nb::arg("replace"), nb::arg("in_place"),
          nb::arg("is_step") = false, nb::arg("mode").none() = nb::none(),
          nb::arg("custom_metadata") = "{}")
      .def("commit", &PendingDirectory::commit, nb::arg("item_handlers"), Unlocked())
      .def("close", &PendingDirectory::close, Unlocked());
  module.def(
      "list_steps",
      [](const PathText& directory, const std::optional<std::string>& prefix, std::size_t digits,
         bool in_place, bool accepts_renamed) {
        std::vector<StepFolder> found;
        {
          const WithoutGil unlocked;
          found = list_step_folders(directory.place(), name_format(prefix, digits),
                                    protocol_of(in_place), accepts_renamed);
        }
        nb::list steps;
        for (const StepFolder& folder : found)
          steps.append(nb::make_tuple(folder.step, to_str(folder.name)));
        return steps;
      },
      nb::arg("directory"), nb::arg("prefix").none(), nb::arg("digits"), nb::arg("in_place"),
      nb::arg("accepts_renamed"));
  module.def(
      "restrict_permissions",
      [](const PathText& directory, unsigned mode) {
        restrict_permissions(directory.local(), mode);
      },
      nb::arg("directory"), nb::arg("mode"), Unlocked());
  module.def(
      "remove_checkpoint",
      [](const PathText& path, bool in_place) {
        remove_checkpoint(path.place(), protocol_of(in_place), kForeign);
      },
      nb::arg("path"), nb::arg("in_place") = false, Unlocked());
  module.def(
      "set_checkpoint_aside",
      [](const PathText& path, const std::string& subdirectory) {
        set_checkpoint_aside(path.local(), subdirectory, kForeign);
      },
      nb::arg("path"), nb::arg("subdirectory"), Unlocked());
  module.def(
      "copy_checkpoint",
      [](const PathText& url, const PathText& target) {
        copy_checkpoint(url.place(), target.place(), kForeign);
      },
      nb::arg("url"), nb::arg("target"), Unlocked());
}

}  // namespace cairn::python
