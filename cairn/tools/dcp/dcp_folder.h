// dcp_folder.h -- writes a tree as a Distributed Checkpoint of PyTorch (torch.distributed.
// checkpoint): a folder with `.metadata` and a data file of each process. The folder of PyTorch
// itself may be half-written; this one appears complete or not at all.
#pragma once

#include <cairn/bytes.h>
#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/formats/pytorch/write/distributed_file.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>

#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0 {

struct DcpOptions {
  std::vector<DictKeyTypes> key_types = {};  // of dicts inside of objects
  pytorch::ChunkRules chunks = {};
  IfExists if_exists = IfExists::kFail;
  Durability durability = Durability::kSynced;
  StoreOptions store = {};
  Resources resources = {};
  ProgressFn progress = {};
  MultiprocessingOptions multiprocessing = {};
};

// Writes the folder `target`, a path or a URL. SourceLeaf leaves name the sources. On this machine
// it is written beside its place and renamed; in a store, `.metadata` comes last. All processes of
// a job call it with trees of the same structure, and each writes a data file: its share of the
// sources, and the shards of its devices. The primary writes the arrays and the objects. Throws
// invalid_argument, naming the leaf, for a leaf that PyTorch cannot load, and for trees that
// differ; already_exists as if_exists says: only a checkpoint is replaced; io, and the errors of
// `fetch`.
void write_dcp(const std::string& target, const Tree& tree, std::span<const TensorSource> sources,
               const FetchFn& fetch, const DcpOptions& options);

}  // namespace cairn::inline v0
