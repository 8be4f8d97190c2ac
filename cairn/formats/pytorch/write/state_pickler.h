// state_pickler.h -- pickles a tree as torch.save does: containers, numbers and texts, and for each
// array a call that rebuilds a tensor from a storage, whose bytes lie outside of the pickle.
#pragma once

#include <cairn/formats/pytorch/pickle/pickle_writer.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

// The bytes of one or several tensors.
struct WrittenStorage {
  std::size_t source = 0;    // index into the sources, or behind them into the arrays
  std::uint64_t nbytes = 0;  // as stored
};

// Why PyTorch has no tensor of this type and shape; "" if it has.
std::string tensor_obstacle(DType dtype, std::span<const std::int64_t> shape);
// The bytes of a tensor that has no obstacle, as stored.
std::uint64_t torch_nbytes(DType dtype, std::span<const std::int64_t> shape);

// Whether two elements are stored in one byte.
bool is_packed_type(DType dtype);

// Writes a call that rebuilds a contiguous tensor, whose storage has the key.
void write_tensor(pickle::PickleWriter& out, DType dtype, std::span<const std::int64_t> shape,
                  const std::string& key);

// A pickled tree and what it names.
struct PickledState {
  Bytes pickle;
  std::vector<WrittenStorage> storages;  // by key: "0", "1", ...
  // The arrays in the tree, whose numbers follow those of the sources.
  std::vector<Array> arrays;
};
// Pickles the tree. SourceLeaf leaves name the sources. Arrays that share their bytes share a
// storage. Named tuples become dicts. Throws invalid_argument, naming the leaf, for leaves that
// torch.load(weights_only=True) does not read.
PickledState pickle_state(const Tree& tree, std::span<const TensorSource> sources,
                          const std::vector<DictKeyTypes>& key_types);

}  // namespace cairn::inline v0::pytorch
