#include <cairn/tools/hugging_face/config_file.h>

#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/tree/file_tree.h>
#include <cairn/kvstore/folders/resolve.h>

#include <cstdint>

namespace cairn::inline v0 {
namespace {

FileTree tree_of(const std::string& path, const StoreOptions& store) {
  return is_store_url(path) ? tree_around(path, store) : FileTree();
}

ConfigFile read_from(const FileTree& tree, const std::string& path) {
  constexpr std::uint64_t kMostConfigBytes = std::uint64_t{16} << 20U;  // bytes
  return with_context(
      [&] { return path; },
      [&] {
        const Buffer text = tree.read_text(path, kMostConfigBytes);
        return ConfigFile{path, std::string(without_byte_order_mark(as_text(text)))};
      });
}

}  // namespace

std::optional<ConfigFile> find_config_file(const std::string& path, const StoreOptions& store) {
  if (is_store_url(path) && !can_list(path)) return std::nullopt;
  const FileTree tree = tree_of(path, store);
  const std::string folder = tree.is_folder(path) ? path : parent_of(path);
  std::string file = folder + "/config.json";
  if (!tree.is_file(file)) return std::nullopt;
  return read_from(tree, file);
}

ConfigFile read_config_file(const std::string& path, const StoreOptions& store) {
  const FileTree tree = tree_of(path, store);
  if (!tree.is_file(path)) throw Error(Code::kNotFound, path + ": there is no such file");
  return read_from(tree, path);
}

}  // namespace cairn::inline v0
