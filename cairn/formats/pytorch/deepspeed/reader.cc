// reader.cc -- finds the DeepSpeed checkpoint in a folder, and opens it.
#include <cairn/base/text.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/deepspeed/folder.h>
#include <cairn/formats/pytorch/deepspeed/universal_reader.h>
#include <cairn/formats/pytorch/deepspeed/zero_reader.h>

#include <memory>
#include <optional>
#include <string>

namespace cairn::inline v0 {

std::optional<std::string> find_deepspeed(const FileTree& tree, const std::string& folder) {
  const std::string place(without_final_slashes(folder));
  const pytorch::deepspeed::FolderNames names = tree.names_in(place);
  if (pytorch::deepspeed::is_tag_folder(tree, place, names)) return place;
  return pytorch::deepspeed::newest_tag_folder(tree, place, names);
}

std::unique_ptr<Checkpoint> open_deepspeed(const FileTree& tree, const std::string& folder,
                                           const OpenOptions& options) {
  const pytorch::deepspeed::FolderNames names = tree.names_in(folder);
  if (pytorch::deepspeed::is_universal(tree, folder, names))
    return pytorch::deepspeed::open_universal(tree, folder, names, options);
  const pytorch::deepspeed::StateFiles files = pytorch::deepspeed::list_state_files(folder, names);
  if (!files.optims.empty()) return pytorch::deepspeed::open_zero(tree, folder, files, options);
  return pytorch::deepspeed::open_model_alone(tree, folder, files, options);
}

}  // namespace cairn::inline v0
