// tree_metadata_fuzz.cc -- parses any bytes as `_METADATA` or as the small JSON files beside it.
// The first byte chooses the parser, so that one corpus serves all.
#include <cairn/base/json/scan.h>
#include <cairn/error.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/tree.h>
#include <cairn/tree/metadata/key_faults.h>
#include <cairn/tree/metadata/rich_types.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

void build_tree(const cairn::TreeMetadata& metadata) {
  std::vector<cairn::TreeEntry> entries;
  for (const auto& leaf : metadata.leaves)
    entries.push_back({leaf.path, cairn::Tree(leaf.value_type)});
  if (!entries.empty()) (void)cairn::flatten(cairn::unflatten(std::move(entries)));
}

// The record of types that parse_tree_metadata has passed over is a string for every reader.
void read_record(const std::string& record) {
  try {
    (void)cairn::JsonScanner(record).string();
  } catch (const cairn::Error&) {
    __builtin_trap();
  }
  (void)cairn::flatten(cairn::parse_rich_types(record));
}

// Leaves in the form in which Orbax writes them are read in a faster way than others. A space makes
// the parser read them as the others. No string has such text, because its quotes are escaped.
void check_other_form(std::string text, const std::vector<cairn::LeafMetadata>& leaves) {
  const std::string usual = "{\"key_metadata\": ";
  for (std::size_t at = text.find(usual); at != std::string::npos; at = text.find(usual, at + 1))
    text.insert(at + usual.size(), " ");
  if (cairn::parse_tree_metadata(text).leaves != leaves) __builtin_trap();
}

// What verify says of the keys. A tree whose faulty nodes are dicts now has no faults.
void check_keys(std::string_view text, const cairn::TreeMetadata& metadata) {
  (void)cairn::find_misnamed_leaves(text);
  std::vector<cairn::KeyPath> paths;
  for (const auto& leaf : metadata.leaves) paths.push_back(leaf.path);
  std::vector<cairn::KeyPath*> nodes;
  for (cairn::KeyPath& path : paths) nodes.push_back(&path);
  cairn::turn_faulty_nodes_into_dicts(nodes);
  const std::vector<const cairn::KeyPath*> mended(nodes.begin(), nodes.end());
  if (!cairn::find_key_faults(mended).empty()) __builtin_trap();
}

void parse_tree(std::string_view text) {
  const cairn::TreeMetadata metadata = cairn::parse_tree_metadata(text);
  check_other_form(std::string(text), metadata.leaves);
  check_keys(text, metadata);
  build_tree(metadata);
  if (!metadata.rich_types.empty()) read_record(metadata.rich_types);
}

void parse(char which, std::string_view text) {
  switch (which) {
    case 'c':
      (void)cairn::orbax::parse_checkpoint_metadata(text);
      break;
    case 'a':
      (void)cairn::orbax::parse_array_metadatas(text);
      break;
    case 's':
      (void)cairn::orbax::parse_shardings(text);
      break;
    case 't':
      (void)cairn::orbax::parse_strings(text);
      break;
    case 'r':
      (void)cairn::flatten(cairn::parse_rich_types(text));
      break;
    default:
      parse_tree(text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    parse(static_cast<char>(data[0]), {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const cairn::Error&) {  // most inputs are rejected
  }
  return 0;
}
