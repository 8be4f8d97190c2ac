// foreign.cc -- refuses PyTorch, GGUF and Keras files, old TensorFlow checkpoints, web pages and
// others by name.
#include <cairn/formats/foreign.h>

#include <cairn/error.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/tensorflow/index/v1_checkpoint.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostFiles = 1000;

// Throws for the files of V1 Savers.
std::optional<ForeignContent> content_at(const FileTree& tree, const std::string& path) {
  refuse_v1_checkpoint(tree, path);
  return foreign_content(tree.open(path));
}

[[noreturn]] void refuse_content(const std::string& path, const ForeignContent& content) {
  throw Error(content.kind == ForeignKind::kProgram ? Code::kUnimplemented : Code::kInvalidArgument,
              path + " " + content.message());
}

}  // namespace

void refuse_foreign_file(const FileTree& tree, const std::string& path) {
  if (const auto content = content_at(tree, path)) refuse_content(path, *content);
}

void refuse_foreign_files_in(const FileTree& tree, const std::string& folder) {
  std::vector<std::string> files;
  for (FolderEntry& entry : tree.entries(folder))
    if (!entry.is_folder) files.push_back(std::move(entry.name));
  std::sort(files.begin(), files.end());
  if (files.size() > kMostFiles) files.resize(kMostFiles);
  for (const std::string& name : files) {
    const std::string path = folder + "/" + name;
    const auto content = try_call([&] { return content_at(tree, path); });
    if (!content && content.error().code() == Code::kUnimplemented) throw Error(content.error());
    if (!content || !content.value()) continue;
    if (content.value()->kind == ForeignKind::kProgram) refuse_content(path, *content.value());
    if (content.value()->kind == ForeignKind::kPytorch)
      throw Error(Code::kInvalidArgument,
                  path + " is a PyTorch checkpoint, but the folder is not one; open this file");
  }
}

}  // namespace cairn::inline v0
