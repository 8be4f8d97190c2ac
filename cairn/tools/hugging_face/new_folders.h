// new_folders.h -- folders that are made for a result, and removed again if it does not appear.
#pragma once

#include <string>
#include <vector>

namespace cairn::inline v0 {

// Makes a folder and its missing parents. The destructor removes those that it has made itself and
// that are empty, so that an error leaves nothing behind.
class NewFolders {
 public:
  explicit NewFolders(const std::string& path);
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;
  ~NewFolders();

 private:
  NewFolders() = default;

  std::vector<std::string> made_;  // the outermost first
};

}  // namespace cairn::inline v0
