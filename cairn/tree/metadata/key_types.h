// key_types.h -- the types of keys that `_METADATA` loses: Orbax stores each key of a dict as text.
//
// Cairn adds a member to the file, which Orbax's readers ignore, as all members that they do not
// know. It lists the dicts whose keys are not str, and those whose keys are str but look like ints:
//
//   "cairn_key_types": [{"dict": ["opt", "state"], "type": "int"},
//                       {"dict": ["mixed"], "types": {"0": "int", "a": "str"}}]
#pragma once

#include <cairn/tree.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Formats the list; "" if it is empty.
std::string key_types_text(const std::vector<DictKeyTypes>& types);

// Parses the list. Throws data_loss for malformed text.
std::vector<DictKeyTypes> parse_key_types(std::string_view json);

// The reasons why the types do not fit the tree with these leaves, parallel to `types`; "" for
// those that fit: the tree has the dict and its keys, and the text of each key is one of its type.
std::vector<std::string> key_type_faults(const std::vector<DictKeyTypes>& types,
                                         const std::vector<const KeyPath*>& leaves);

// Throws an error with this code for the first fault, if there is one.
void check_key_types(const std::vector<DictKeyTypes>& types,
                     const std::vector<const KeyPath*>& leaves, Code code);

}  // namespace cairn::inline v0
