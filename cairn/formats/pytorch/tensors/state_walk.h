// state_walk.h -- the leaves of a pickled state: its tensors, numbers and texts, with their paths.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/meaning.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/tree.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

// A leaf, and its tensor if its elements are in a storage.
struct StateLeaf {
  RawLeaf leaf;
  std::optional<TorchTensor> tensor;
};

struct State {
  std::vector<StateLeaf> leaves;
  Tree structure;                       // with the number of its leaf in place of each leaf
  std::vector<DictKeyTypes> key_types;  // of dicts whose keys are not all str
  std::vector<std::string> opaque;      // classes of objects that have no values that Cairn reads
  // Names of keys that stand under another text than their own, because it is taken.
  std::vector<std::string> renamed;
  // Names of texts, and of keys, with escapes for surrogates, which a Tree cannot hold.
  std::vector<std::string> escaped;
};

// Walks the value from `root` on. Containers become dicts, lists and tuples; an object of an
// unknown class becomes a dict of its attributes. What a value has beside its contents (Described)
// stands beside it in a dict: "w" and "w.__dict__"; in a list, a tuple and at the root, the value
// becomes a dict with the member "value". Takes the memory of the leaves and their names from
// `memory`, in bytes, and throws data_loss if that does not suffice: shared values may stand for
// any number of leaves.
State walk_state(const pickle::Pickle& pickle, pickle::Value root, std::uint64_t& memory);
// The memory for the leaves of one pickle: 64 MiB and 8 times its size.
std::uint64_t walk_memory(const pickle::Pickle& pickle);

}  // namespace cairn::inline v0::pytorch
