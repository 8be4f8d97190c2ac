// folder.h -- the files of a DeepSpeed checkpoint, by their names.
//
//   RUN/latest                                                the name of the newest TAG folder
//   RUN/TAG/mp_rank_00_model_states.pt                        ZeRO 1 and 2: the module
//   RUN/TAG/zero_pp_rank_<D>_mp_rank_00_model_states.pt       ZeRO 3: one of each rank
//   RUN/TAG/[bf16_]zero_pp_rank_<D>_mp_rank_00_optim_states.pt  weights and moments of rank D
//   RUN/TAG/zero/<parameter>/{fp32,exp_avg,exp_avg_sq}.pt     a Universal checkpoint
//
// Source of the rules: the names that deepspeed 0.19.8 writes.
#pragma once

#include <cairn/io/tree/file_tree.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {

using FolderNames = std::set<std::string, std::less<>>;

struct StateFiles {
  // Names of the files; both by rank.
  std::vector<std::string> models;  // one, or with ZeRO 3 one of each rank
  std::vector<std::string> optims;  // empty if ZeRO was not used, and in a Universal checkpoint
};

// Whether a folder has files of DeepSpeed's, or is a Universal checkpoint.
bool is_tag_folder(const FileTree& tree, const std::string& folder, const FolderNames& names);
// Whether a tag folder is a Universal checkpoint, finished or not.
bool is_universal(const FileTree& tree, const std::string& folder, const FolderNames& names);

// Sorts the files of a tag folder. Throws data_loss for a missing rank or a missing model file,
// failed_precondition for files of two saves, unimplemented for files of other ranks of a parallel
// model, of pipeline stages and of experts.
StateFiles list_state_files(const std::string& folder, const FolderNames& names);
// The file of model states of rank 0, beside a Universal checkpoint. nullopt: it is missing.
std::optional<std::string> first_model_file(const FolderNames& names);
// The name of the file of a rank, given that of another rank.
std::string name_of_rank(std::string_view name, std::size_t rank);

// The tag folder that a run folder's `latest` names, or else its `latest_universal`. nullopt: the
// folder is not a run folder. Throws failed_precondition if the tag folder is not there.
std::optional<std::string> newest_tag_folder(const FileTree& tree, const std::string& folder,
                                             const FolderNames& names);

}  // namespace cairn::inline v0::pytorch::deepspeed
