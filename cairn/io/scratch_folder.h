// scratch_folder.h -- a new folder for files that nobody keeps.
#pragma once

#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/temporaries.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace cairn::inline v0 {

// Makes the folder and those above it. The destructor, or a signal that ends the program, removes
// the folder and everything in it. Throws already_exists if something is at the path: the folder is
// removed later, so it must be one that nobody else has made.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {
    const std::filesystem::path full = absolute_path(path_);
    make_directories(full.parent_path().string());
    noted_.emplace(path_, NotedTemporary::Order::kFirst, [&] {
      return Directory::open(full.parent_path().string()).make(full.filename().string());
    });
    if (!noted_->made())
      throw Error(Code::kAlreadyExists, path_ + ": already exists; a new folder is needed");
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    try {
      remove_tree(path_);
    } catch (const Error&) {
      // The error that ended the work is more useful.
    }
  }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<NotedTemporary> noted_;
};

}  // namespace cairn::inline v0
