// pytorch.h -- reads and writes the files of torch.save. Nothing in them is executed.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Opens a file of torch.save: a zip archive (.pt, .pth, .bin, .ckpt), or one of the forms that
// PyTorch wrote before 1.6; or the index of a model in several files, pytorch_model.bin.index.json.
// Its pickle is parsed to plain values: no class is imported, no function is called. Tensors become
// arrays of the shapes and strides that they had; numbers, texts, bytes, lists and dicts keep their
// types; objects of other classes become dicts of their attributes, and what Cairn cannot read
// becomes a custom leaf. A sparse, nested or quantised tensor becomes a dict of its parts. The
// CRC-32 of a storage is verified before any of its bytes are returned; PyTorch verifies none.
// `path` is a path or a URL. Throws as cairn::open.
std::unique_ptr<Checkpoint> open_pytorch(const std::string& path, const OpenOptions& options = {});

// Options of write_torch.
struct TorchWriteOptions {
  // The dicts of the tree whose keys are not str in Python. Keys that are int, float, bool and None
  // get their type back; others stay text.
  std::vector<DictKeyTypes> key_types = {};
  IfExists if_exists = IfExists::kFail;  // what to do if the target exists
  StoreOptions store = {};               // how to reach the store, if the path is a URL
  Resources resources = {};
  ProgressFn progress = {};
  MultiprocessingOptions multiprocessing = {};  // as in SafetensorsWriteOptions
};
// Writes a file as torch.save does, byte for byte but for its id. torch.load(weights_only=True)
// reads it, also with mmap=True and under FakeTensorMode. Arrays become contiguous tensors, NumPy
// scalars tensors of rank 0, named tuples dicts; arrays that share their memory share a storage.
// The CRC-32 of every member is stored. The file appears complete or not at all. Throws
// invalid_argument, naming the leaf, for a leaf that PyTorch would not load: elements of a type
// that it lacks, placeholders, strings that are not UTF-8, typed PRNG keys, other custom leaves and
// more than 1000 levels; already_exists as if_exists says; io.
void write_torch(const std::string& path, const Tree& tree, const TorchWriteOptions& options = {});
// As above, for a tree with SourceLeaf leaves. Values are fetched one buffer at a time, in the
// order of the file. Throws also the errors of `fetch`.
void write_torch(const std::string& path, const Tree& tree, std::span<const TensorSource> sources,
                 const FetchFn& fetch, const TorchWriteOptions& options);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
