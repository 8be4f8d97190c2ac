// lost_keys.h -- dicts whose keys are str after a load, although they may have been something else.
#pragma once

#include <cairn/checkpoint.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cairn::python {

// A dict of a checkpoint.
struct LostKeys {
  std::string dict;  // its keys from the root, joined with dots
  std::string type;  // the recorded type of its keys, which cannot be made; "": none is recorded
};

// The dicts above these tensors (none: above all), in the order of their names. Without a record,
// only keys that look like ints are suspected, and only in Orbax and Distributed Checkpoints: Orbax
// and PyTorch store ints as text. Other formats have names like "0" for the items of lists.
std::vector<LostKeys> find_lost_keys(const Checkpoint& checkpoint,
                                     const std::optional<std::vector<std::size_t>>& tensors);

// Warns (UserWarning) before a save in a format that holds names and no types of keys.
void warn_of_lost_keys(const std::string& format, const std::vector<DictKeyTypes>& key_types);

}  // namespace cairn::python
