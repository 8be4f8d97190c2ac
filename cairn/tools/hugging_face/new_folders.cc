#include <cairn/tools/hugging_face/new_folders.h>

#include <cairn/base/text.h>
#include <cairn/io/file.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

// The folders of a path that do not exist, the outermost first.
std::vector<std::string> missing_folders(const std::string& path) {
  std::vector<std::string> missing;
  for (std::string folder = path; !directory_exists(folder); folder = parent_of(folder)) {
    missing.push_back(folder);
    if (folder == parent_of(folder)) break;
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

}  // namespace

// The other constructor has ended before an error, so the destructor runs.
NewFolders::NewFolders(const std::string& path) : NewFolders() {
  for (const std::string& folder : missing_folders(path)) {
    if (mkdir(folder.c_str(), 0777) != 0) continue;  // another process may have made it
    made_.push_back(folder);
    sync_parent(folder);
  }
  make_directories(path);  // throws if it is not there
}

NewFolders::~NewFolders() {
  for (std::size_t i = made_.size(); i-- > 0;)
    if (rmdir(made_[i].c_str()) != 0) break;  // it is not empty
}

}  // namespace cairn::inline v0
