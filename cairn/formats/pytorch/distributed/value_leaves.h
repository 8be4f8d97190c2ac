// value_leaves.h -- makes the leaves of the values of a Distributed Checkpoint. A tensor is
// described by the metadata alone. Objects are read at once: only their pickles say what they are.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/pytorch/distributed/chunk_array.h>
#include <cairn/formats/pytorch/distributed/data_files.h>
#include <cairn/formats/pytorch/distributed/entry_decoder.h>
#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/raw/coverage.h>
#include <cairn/formats/raw/doubled_checkpoint.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/tree.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

struct LeafOptions {
  bool lacks_ranks = false;  // the metadata of some ranks is missing
  bool allow_missing = false;
  bool has_lists = false;  // Megatron-Core stores an object as a list of one
};

class ValueLeaves {
 public:
  // The arguments must outlive the object.
  ValueLeaves(const std::string& folder, const DataFiles& files,
              const DistributedMetadata& metadata, LeafOptions options);

  // Whether the value is left out, because a file or a rank of it is missing and that is allowed.
  [[nodiscard]] bool is_left_out(const SavedValue& value) const;

  // Each adds leaves at `path`, and returns their part of the tree, with the number of a leaf in
  // place of each leaf.
  Tree add(const SavedValue& value, const KeyPath& path);
  // An item of a list that PyTorch has not stored.
  Tree add_none(const KeyPath& path);
  // What a file of torch.save holds.
  Tree add_state(StateFile file, const KeyPath& path);

  RawCheckpoint::Contents contents;
  std::vector<DictKeyTypes> key_types;
  std::vector<std::string> opaque;
  std::vector<std::string> renamed, escaped;  // as in State
  std::vector<std::string> unsafe_globals;    // of the pickles of objects
  std::vector<std::string> transforms;        // the first that entries went through
  std::vector<DoubledPart> doubles;
  RawCheckpoint::Contents again;  // the leaves of `doubles`
  std::size_t chunks = 0;

 private:
  Tree add_leaf(RawLeaf leaf);
  // For verify: what has no slices is not looked at there.
  void note(const std::string& name, Code code, std::string message);
  // A leaf that cannot be read, and why.
  Tree add_lost(const KeyPath& path, const Error& why);
  void set_lost(RawLeaf& leaf, const Error& why);
  // Throws data_loss unless the entry is there, and if the entries are many times the files.
  void check(const Entry& entry);

  RawLeaf tensor_leaf(const SavedValue& value, const KeyPath& path);
  void fill(RawLeaf& leaf, const SavedValue& value);
  [[nodiscard]] std::shared_ptr<const ChunkArray> chunk_array(const SavedValue& value,
                                                              const SavedChunk& chunk,
                                                              const Box& part) const;
  void note_gaps(const TensorInfo& info, const SavedValue& value, std::int64_t covered);
  void add_double(const TensorInfo& info, const SavedValue& value, const SavedChunk& chunk,
                  const Box& part);

  Tree add_object(const SavedValue& value, const KeyPath& path);
  // Takes the memory for the path of the object in the paths of its leaves.
  bool takes_paths(const KeyPath& path, const State& state);
  StateFile object_state(const SavedValue& value);
  StateFile state_in(const Entry& placed, const File& file);

  const std::string& folder_;
  const DataFiles& files_;
  LeafOptions options_;
  std::uint64_t steps_ = kCoverSteps;
  std::uint64_t bytes_left_;    // of entries, however often they are named
  std::uint64_t decoded_left_;  // bytes that objects with transforms may still decode to
  std::uint64_t memory_;        // for the leaves of objects
  std::shared_ptr<DecoderPool> pool_ = std::make_shared<DecoderPool>();
};

}  // namespace cairn::inline v0::pytorch
