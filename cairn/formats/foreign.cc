// foreign.cc -- refuses PyTorch, GGUF and Keras files, old TensorFlow checkpoints, web pages and
// others by name.
#include <cairn/formats/foreign.h>

#include <cairn/error.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/tensorflow/index/v1_checkpoint.h>
#include <cairn/io/file.h>
#include <cairn/io/folder_handle.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostFiles = 1000;

}  // namespace

void refuse_foreign_file(const std::string& path) {
  refuse_v1_checkpoint(path);
  const auto content = foreign_content(File::open(path));
  if (!content) return;
  throw Error(
      content->kind == ForeignKind::kProgram ? Code::kUnimplemented : Code::kInvalidArgument,
      path + " " + content->message());
}

void refuse_foreign_files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (auto& [name, is_folder] : FolderHandle::open(folder)->list(folder))
    if (!is_folder) files.push_back(std::move(name));
  std::sort(files.begin(), files.end());
  if (files.size() > kMostFiles) files.resize(kMostFiles);
  for (const std::string& name : files) {
    try {
      refuse_foreign_file(folder + "/" + name);
    } catch (const Error& error) {
      if (error.code() == Code::kUnimplemented) throw;
    }
  }
}

}  // namespace cairn::inline v0
