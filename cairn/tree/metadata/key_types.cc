// key_types.cc -- formats, parses and checks the types of keys.
#include <cairn/tree/metadata/key_types.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/scan.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

using Names = std::vector<std::string>;

std::string list_text(const Names& names) {
  std::string text = "[";
  for (const std::string& name : names)
    text += (text.size() == 1 ? "" : ", ") + python_quoted(name);
  return text + "]";
}

std::string entry_text(const DictKeyTypes& entry) {
  std::string text = "{\"dict\": " + list_text(entry.dict);
  if (entry.types.empty()) return text + ", \"type\": " + python_quoted(entry.type) + "}";
  text += ", \"types\": {";
  for (const auto& [key, type] : entry.types) {
    if (text.back() != '{') text += ", ";
    text += python_quoted(key) + ": " + python_quoted(type);
  }
  return text + "}}";
}

Names parse_names(JsonScanner& in) {
  Names names;
  in.begin_array();
  while (in.next_item()) names.push_back(in.string());
  return names;
}

DictKeyTypes parse_entry(JsonScanner& in) {
  DictKeyTypes entry;
  std::string_view member;
  bool has_dict = false;
  in.begin_object();
  while (in.next_member(member)) {
    if (member == "dict") {
      entry.dict = parse_names(in);
      has_dict = true;
    } else if (member == "type") {
      entry.type = in.string();
    } else if (member == "types") {
      in.begin_object();
      while (in.next_member(member)) {
        std::string key(member);
        entry.types.emplace_back(std::move(key), in.string());
      }
    } else {
      in.skip();
    }
  }
  if (!has_dict) in.fail("types of keys without 'dict'");
  if (entry.type.empty() == entry.types.empty())
    in.fail("types of keys with neither or both of 'type' and 'types'");
  return entry;
}

bool is_int(std::string_view text) {
  if (text.starts_with('-'))
    text.remove_prefix(1);
  else if (text == "0")
    return true;
  return !text.empty() && text[0] != '0' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool may_be(std::string_view key, std::string_view type) {
  if (type == "int") return is_int(key);
  if (type == "bool") return key == "True" || key == "False";
  if (type == "NoneType") return key == "None";
  return true;
}

// Why the types do not fit a dict with these keys; "" if they do.
std::string fault(const DictKeyTypes& entry, const std::set<std::string>& keys) {
  if (keys.empty()) return "the tree has no such dict";
  for (const auto& [key, type] : entry.types) {
    if (!keys.contains(key)) return "the dict has no key " + python_quoted(key);
    if (!may_be(key, type)) return "the key " + python_quoted(key) + " is not of type " + type;
  }
  if (!entry.types.empty()) return "";
  for (const std::string& key : keys)
    if (!may_be(key, entry.type))
      return "the key " + python_quoted(key) + " is not of type " + entry.type;
  return "";
}

}  // namespace

std::string key_types_text(const std::vector<DictKeyTypes>& types) {
  std::string text;
  for (const DictKeyTypes& entry : types) text += (text.empty() ? "[" : ", ") + entry_text(entry);
  return text.empty() ? text : text + "]";
}

std::vector<DictKeyTypes> parse_key_types(std::string_view json) {
  std::vector<DictKeyTypes> types;
  JsonScanner in(json);
  in.begin_array();
  while (in.next_item()) types.push_back(parse_entry(in));
  in.finish();
  return types;
}

std::vector<std::string> key_type_faults(const std::vector<DictKeyTypes>& types,
                                         const std::vector<const KeyPath*>& leaves) {
  std::map<Names, std::set<std::string>> keys;  // of the listed dicts
  for (const DictKeyTypes& entry : types) keys.try_emplace(entry.dict);
  for (const KeyPath* leaf : leaves) {
    Names dict;
    for (const Key& key : *leaf) {
      if (key.type == KeyType::kDict)
        if (const auto found = keys.find(dict); found != keys.end()) found->second.insert(key.text);
      dict.push_back(key.text);
    }
  }
  std::vector<std::string> faults;
  faults.reserve(types.size());
  for (const DictKeyTypes& entry : types) faults.push_back(fault(entry, keys[entry.dict]));
  return faults;
}

void check_key_types(const std::vector<DictKeyTypes>& types,
                     const std::vector<const KeyPath*>& leaves, Code code) {
  const std::vector<std::string> faults = key_type_faults(types, leaves);
  for (std::size_t i = 0; i < faults.size(); ++i)
    if (!faults[i].empty())
      throw Error(code, "types of keys of the dict " + list_text(types[i].dict) + ": " + faults[i]);
}

}  // namespace cairn::inline v0
