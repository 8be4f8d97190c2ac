// lost_keys.cc -- compares the keys of dicts with the recorded types.
#include "lost_keys.h"

#include "values/trees.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using Names = std::vector<std::string>;

KeyPath path_of(const TensorInfo& tensor) {
  KeyPath path = tensor.path;
  if (tensor.item) path.insert(path.begin(), {*tensor.item, KeyType::kDict});
  return path;
}

// The dicts above a leaf, outermost first: f(the keys to the dict, the leaf's key in it).
template <class F>
void for_each_dict(const TensorInfo& tensor, const F& f) {
  Names dict;
  for (const Key& key : path_of(tensor)) {
    if (key.type == KeyType::kDict) f(dict, key.text);
    dict.push_back(key.text);
  }
}

bool has_int_key(const TensorInfo& tensor) {
  return std::any_of(tensor.path.begin(), tensor.path.end(), [](const Key& key) {
    return key.type == KeyType::kDict && is_int_text(key.text);
  });
}

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ".") + name;
  return text;
}

// The type of keys that come back as str; "" if all are what they were.
std::string lost_type(const DictKeyTypes& entry) {
  if (entry.types.empty()) return makes_keys_of(entry.type) ? "" : entry.type;
  for (const auto& [key, type] : entry.types)
    if (!makes_keys_of(type)) return type;
  return "";
}

// Whether the format stores the keys of dicts as text, and tells dicts from lists.
bool has_keys_of_text(const CheckpointInfo& info) {
  return info.format == "orbax" || info.layout == "PyTorch Distributed Checkpoint";
}

// The dicts without a record, all of whose keys look like ints.
void add_unrecorded(const Checkpoint& checkpoint, const std::vector<std::size_t>& tensors,
                    std::map<Names, std::string>& found) {
  if (!has_keys_of_text(checkpoint.info())) return;
  const auto& all = checkpoint.tensors();
  std::map<Names, bool> all_ints;
  for (const std::size_t i : tensors)
    if (has_int_key(all[i]))
      for_each_dict(all[i], [&](const Names& dict, const std::string& key) {
        if (is_int_text(key)) all_ints.try_emplace(dict, true);
      });
  if (all_ints.empty()) return;
  for (const TensorInfo& tensor : all)
    for_each_dict(tensor, [&](const Names& dict, const std::string& key) {
      if (const auto at = all_ints.find(dict); at != all_ints.end() && !is_int_text(key))
        at->second = false;
    });
  for (auto& [dict, is_lost] : all_ints)
    if (is_lost) found.try_emplace(dict, "");
}

}  // namespace

std::vector<LostKeys> find_lost_keys(const Checkpoint& checkpoint,
                                     const std::optional<std::vector<std::size_t>>& tensors) {
  std::vector<std::size_t> chosen(checkpoint.tensors().size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (tensors) chosen = *tensors;
  std::map<Names, std::string> found;
  add_unrecorded(checkpoint, chosen, found);
  const std::vector<DictKeyTypes> recorded = checkpoint.key_types();
  std::map<Names, std::string> known;
  for (const DictKeyTypes& entry : recorded) {
    found.erase(entry.dict);
    if (std::string type = lost_type(entry); !type.empty()) known.emplace(entry.dict, type);
  }
  if (!known.empty())
    for (const std::size_t i : chosen)
      for_each_dict(checkpoint.tensors()[i], [&](const Names& dict, const std::string&) {
        if (const auto at = known.find(dict); at != known.end()) found.insert(*at);
      });
  std::vector<LostKeys> lost;
  for (auto& [dict, type] : found) lost.push_back({joined(dict), type});
  return lost;
}

void warn_of_lost_keys(const std::string& format, const std::vector<DictKeyTypes>& key_types) {
  const auto is_lost = [](const DictKeyTypes& entry) { return entry.type != "str"; };
  const auto first = std::find_if(key_types.begin(), key_types.end(), is_lost);
  if (first == key_types.end()) return;
  const auto count = std::count_if(key_types.begin(), key_types.end(), is_lost);
  std::string name;
  for (const std::string& key : first->dict) name += (name.empty() ? "" : ".") + key;
  const std::string text =
      format + " stores the keys of dicts as str and does not record their types: those of " +
      (name.empty() ? "the tree" : "'" + name + "'") +
      (first->type.empty() ? " have several types" : " are " + first->type) +
      (count > 1 ? ", and " + std::to_string(count - 1) + " more dicts have such keys" : "") +
      "; load() with a target that has these keys returns them, and Orbax checkpoints record them";
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 2) < 0) throw nb::python_error();
}

}  // namespace cairn::python
