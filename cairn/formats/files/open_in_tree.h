// open_in_tree.h -- the functions that open one format, for a path that a FileTree looks up. The
// public functions of the same names look around the path or URL that they get.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/io/tree/file_tree.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Which record of an archive says where its members are.
enum class ZipReading : std::uint8_t {
  kDirectory,     // the directory, as every reader does
  kLocalHeaders,  // the headers before the members: for archives without a valid directory
};

std::unique_ptr<Checkpoint> open_safetensors(const FileTree& tree, const std::string& path,
                                             const OpenOptions& options);
std::unique_ptr<Checkpoint> open_npz(const FileTree& tree, const std::string& path,
                                     const OpenOptions& options,
                                     ZipReading reading = ZipReading::kDirectory);
std::unique_ptr<Checkpoint> open_npy(const FileTree& tree, const std::string& path,
                                     const OpenOptions& options);
std::unique_ptr<Checkpoint> open_msgpack(const FileTree& tree, const std::string& path,
                                         const OpenOptions& options);
// Opens what is left of a damaged msgpack file: the leaves before the damage, and those behind it
// if the lengths of the objects are right.
std::unique_ptr<Checkpoint> salvage_msgpack(const FileTree& tree, const std::string& path,
                                            const OpenOptions& options);
// kLocalHeaders also counts for files of the legacy form: it reads the storages that are left of a
// truncated one.
std::unique_ptr<Checkpoint> open_pytorch(const FileTree& tree, const std::string& path,
                                         const OpenOptions& options,
                                         ZipReading reading = ZipReading::kDirectory);
// The model in a folder of PyTorch's: pytorch_model.bin, or the index of its files. nullopt: none.
// Throws invalid_argument for both.
std::optional<std::string> find_pytorch_model(const FileTree& tree, const std::string& folder);
// Whether a folder is a Distributed Checkpoint of PyTorch: it has its metadata.
bool is_distributed(const FileTree& tree, const std::string& folder);
// Whether it has the data files of one, or the metadata.json of Megatron-Core. Then
// open_distributed() says what is missing.
bool is_unfinished_distributed(const FileTree& tree, const std::string& folder);
// Opens the folder of a Distributed Checkpoint. Throws failed_precondition for one whose save has
// not ended.
std::unique_ptr<Checkpoint> open_distributed(const FileTree& tree, const std::string& folder,
                                             const OpenOptions& options);
// Whether the file is a part of the tree of the Distributed Checkpoint in `folder`.
bool is_common_file(const FileTree& tree, const std::string& folder, const std::string& name);
// The checkpoint that a run folder's `latest_checkpointed_iteration.txt` names. nullopt: it has no
// such file. Throws failed_precondition if it names a folder that is not there, data_loss if it
// names none.
std::optional<std::string> find_megatron_iteration(const FileTree& tree, const std::string& folder);
// The folder of a DeepSpeed checkpoint: this one, or the one that its file `latest` names. nullopt:
// neither. Throws failed_precondition if `latest` names a folder that is not there.
std::optional<std::string> find_deepspeed(const FileTree& tree, const std::string& folder);
std::unique_ptr<Checkpoint> open_deepspeed(const FileTree& tree, const std::string& folder,
                                           const OpenOptions& options);
// Whether a folder is one of torch_checkpointing: it has metadata.pkl, or files <item>_<rank>.pt of
// all ranks and no other .pt files.
bool is_torch_checkpointing(const FileTree& tree, const std::string& folder);
std::unique_ptr<Checkpoint> open_torch_checkpointing(const FileTree& tree,
                                                     const std::string& folder,
                                                     const OpenOptions& options);
std::unique_ptr<Checkpoint> open_tensorflow(const FileTree& tree, const std::string& path,
                                            const OpenOptions& options);
bool is_tensorflow(const FileTree& tree, const std::string& path);
// What is left of a TensorFlow checkpoint whose index is damaged.
struct TensorflowRemains {
  std::unique_ptr<Checkpoint> checkpoint;
  std::vector<std::string> notes;  // what is damaged, and what was done about it
  bool lacks_names = false;        // there may be more tensors, whose names are lost
  bool assumes_order = false;      // nothing says that the byte order is little-endian
};
// Opens the tensors in the whole blocks of the index. Each has a checksum, so that one at a wrong
// place is noticed. Throws data_loss if no entry is left, or if the header is lost and the data
// files do not tell how many there are.
TensorflowRemains salvage_tensorflow(const FileTree& tree, const std::string& path,
                                     const OpenOptions& options);

}  // namespace cairn::inline v0
