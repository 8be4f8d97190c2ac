// state_tree.h -- collects the leaves of a DeepSpeed checkpoint.
//
//   fp32.<parameter>, exp_avg.<parameter>, ...   what is known of each parameter
//   model_states, optim_states                   other values of the files of rank 0
#pragma once

#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/tree.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {

// The state that has a parameter's weights.
inline constexpr const char* kWeights = "fp32";

// Keys from the root of a file to a value.
using TextPath = std::vector<std::string>;
using HiddenPaths = std::set<TextPath>;

class StateTree {
 public:
  // `warnings` go to `info`, whose path is that of the checkpoint; it must outlive the object.
  explicit StateTree(CheckpointInfo& info) : info_(info) {}

  // Adds what is known of a parameter: `state` is "fp32", "exp_avg", ... Sets the leaf's path.
  void add(const std::string& state, const std::string& parameter, RawLeaf leaf);
  // Adds the values of a file as the member `key`, without those at and below the hidden paths.
  void add_rest(const std::string& key, StateFile file, const HiddenPaths& hidden);
  // Notes a file of which no value is shown: its storages are still verified, and what unpickling
  // it runs is named.
  void add_file(const File& file, const StateFile& read);

  // Makes the checkpoint. `files`: of all runs of the leaves.
  std::unique_ptr<Checkpoint> checkpoint(const OpenOptions& options, std::vector<File> files) &&;

 private:
  Tree add_leaf(KeyPath path, RawLeaf leaf);
  Tree shown_part(const Tree& tree, TextPath& path, const HiddenPaths& hidden,
                  std::vector<StateLeaf>& leaves);
  [[nodiscard]] std::vector<UnusedStorage> unused() const;

  CheckpointInfo& info_;
  RawCheckpoint::Contents contents_;
  Tree::Dict root_;
  std::map<std::string, std::size_t, std::less<>> states_;  // index in root_
  std::vector<DictKeyTypes> key_types_;
  std::vector<std::string> renamed_, escaped_;
  std::set<std::string> opaque_;  // classes of leaves that are not read
  std::set<std::string> unsafe_globals_;
  std::vector<UnusedStorage> storages_;  // of all files
  std::set<const CommonBytes*> shown_;   // bytes of leaves
};

}  // namespace cairn::inline v0::pytorch::deepspeed
