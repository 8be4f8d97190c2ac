// pytorch.h -- reads the files of torch.save. Nothing in them is executed.
#pragma once

#include <cairn/checkpoint.h>

#include <memory>
#include <string>

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

}  // namespace cairn::inline v0
#pragma GCC visibility pop
