// trees.h -- Python's containers and leaves as a Tree, and back.
#pragma once

#include <cairn/tree.h>

#include <nanobind/nanobind.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::python {

// The tree of a Python object: dict, list, tuple, namedtuple, None, numbers, str, bytes, `...` (a
// placeholder), arrays and scalars of NumPy, ForeignArray, ShardedArray and LeafType.
// cairn._leaves.convert turns any other object into one of these, or throws. Keys of dicts become
// strings, as in Orbax; `key_types` gets the types of those that are not str, and of those that
// look like ints. Arrays are borrowed: the tree keeps the Python objects alive. Throws
// invalid_argument for a tree more than 1000 levels deep (also one that contains itself) and for
// two keys with one text.
Tree tree_from(nanobind::handle object, std::vector<DictKeyTypes>* key_types = nullptr);

// The Python object of a tree. Arrays become arrays of NumPy that share the memory of `tree`,
// writable ones: only arrays that nobody else uses may be in it. A named tuple becomes an object of
// its class, if the program has imported that, else of a new namedtuple. `opaque` names the NumPy
// type of an array of opaque elements by the array's address.
using OpaqueName = std::function<std::string(const Array&)>;
// Keys of the types int, bool, float and None are made where `key_types` names them. Throws
// data_loss for keys that are then equal.
nanobind::object to_python(const Tree& tree, const OpaqueName& opaque = {},
                           const std::vector<DictKeyTypes>& key_types = {});

// Whether to_python() makes keys of this type of Python.
bool makes_keys_of(std::string_view type);
// Whether a key is the decimal text of an int of Python.
bool is_int_text(std::string_view key);

}  // namespace cairn::python
