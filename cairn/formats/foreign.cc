// foreign.cc -- refuses PyTorch, GGUF and Keras files, old TensorFlow checkpoints, web pages and
// others by name.
#include <cairn/formats/foreign.h>

#include <cairn/error.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/tensorflow/index/v1_checkpoint.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostFiles = 1000;

bool is_pytorch(const FileTree& tree, const std::string& path) {
  const auto content = try_call([&] { return foreign_content(tree.open(path)); });
  return content && content.value() && content.value()->kind == ForeignKind::kPytorch;
}

}  // namespace

void refuse_foreign_file(const FileTree& tree, const std::string& path) {
  refuse_v1_checkpoint(tree, path);
  const auto content = foreign_content(tree.open(path));
  if (!content) return;
  throw Error(
      content->kind == ForeignKind::kProgram ? Code::kUnimplemented : Code::kInvalidArgument,
      path + " " + content->message());
}

void refuse_foreign_files_in(const FileTree& tree, const std::string& folder) {
  std::vector<std::string> files;
  for (FolderEntry& entry : tree.entries(folder))
    if (!entry.is_folder) files.push_back(std::move(entry.name));
  std::sort(files.begin(), files.end());
  if (files.size() > kMostFiles) files.resize(kMostFiles);
  for (const std::string& name : files) {
    const std::string path = folder + "/" + name;
    try {
      refuse_foreign_file(tree, path);
    } catch (const Error& error) {
      if (error.code() == Code::kUnimplemented) throw;
    }
    if (is_pytorch(tree, path))
      throw Error(Code::kInvalidArgument,
                  path + " is a PyTorch checkpoint, but the folder is not one; open this file");
  }
}

}  // namespace cairn::inline v0
