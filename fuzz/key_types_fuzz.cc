// key_types_fuzz.cc -- parses any bytes as `cairn_key_types`, the record of the types of keys. A
// record that parses must round-trip, and is checked against a tree that has its dicts.
#include <cairn/error.h>
#include <cairn/tree/metadata/key_types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace cairn;

// The leaves of a tree in which each recorded dict has its recorded keys, or the key "0".
std::vector<KeyPath> leaves_of(const std::vector<DictKeyTypes>& record) {
  std::vector<KeyPath> leaves;
  for (const DictKeyTypes& entry : record) {
    KeyPath dict;
    for (const std::string& name : entry.dict) dict.push_back({name, KeyType::kDict});
    std::vector<std::string> keys;
    for (const auto& [key, type] : entry.types) keys.push_back(key);
    if (keys.empty()) keys.emplace_back("0");
    for (std::string& key : keys) {
      leaves.push_back(dict);
      leaves.back().push_back({std::move(key), KeyType::kDict});
    }
  }
  return leaves;
}

void check(const std::vector<DictKeyTypes>& record) {
  const std::vector<KeyPath> leaves = leaves_of(record);
  std::vector<const KeyPath*> paths;
  for (const KeyPath& leaf : leaves) paths.push_back(&leaf);
  const std::vector<std::string> faults = key_type_faults(record, paths);
  if (faults.size() != record.size()) std::abort();
  for (const std::string& fault : faults)
    if (fault == "the tree has no such dict") std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto record = parse_key_types({reinterpret_cast<const char*>(data), size});
    const std::string text = key_types_text(record);
    if (!record.empty() && parse_key_types(text) != record) std::abort();
    check(record);
  } catch (const Error& e) {
    if (e.code() != Code::kDataLoss) std::abort();
  }
  return 0;
}
