// tree_metadata.cc -- parses `_METADATA` in one pass, because it may list a hundred thousand
// leaves.
#include <cairn/tree/metadata/tree_metadata.h>

#include <cairn/base/json/json.h>
#include <cairn/base/json/scan.h>
#include <cairn/tree/metadata/python_tuple.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

// trees are processed recursively; Python has the same recursion limit
constexpr std::size_t kMaxLevels = 1000;
// dimensions in metadata; NumPy's limit, and JAX has none in practice
constexpr std::size_t kMaxRank = 64;
constexpr std::size_t kMaxShownName = 200;
constexpr std::size_t kMaxReserved = std::size_t{1} << 20U;  // leaves before they are parsed
constexpr std::size_t kMaxIndexDigits = 18;                  // of a sequence key; fits 64 bits

// "007" and "7" are the same index: Orbax converts the string to an integer, too.
std::string canonical_index(const JsonScanner& in, const std::string& text) {
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || text.size() > kMaxIndexDigits)
    in.fail("the sequence key '" + text + "' is not an index");
  return text.substr(std::min(text.find_first_not_of('0'), text.size() - 1));
}

// Reads an integer as Python compares it: 2.0 is 2, and true is 1.
std::int64_t scan_python_integer(JsonScanner& in) {
  const Json value = parse_json(in.skip());
  if (const bool* truth = value.as_bool()) return *truth ? 1 : 0;
  const auto number = value.as_int64(true);
  if (!number) in.fail("expected an integer");
  return *number;
}

// Reads a value as Python's `if` does: null, 0 and everything empty are false.
bool scan_python_truth(JsonScanner& in) {
  const Json value = parse_json(in.skip());
  if (const auto* text = value.as_string()) return !text->empty();
  if (const auto* items = value.as_array()) return !items->empty();
  if (const auto* members = value.as_object()) return !members->empty();
  if (const bool* truth = value.as_bool()) return *truth;
  return value.is_number() && value.as_double() != 0.0;
}

// Parses one {"key": string, "key_type": 1 or 2}. Old writers may have stored an index as a number.
void parse_key(JsonScanner& in, Key& key) {
  std::string_view member;
  bool has_text = false;
  std::int64_t type = 0;
  in.begin_object();
  while (in.next_member(member)) {
    if (member == "key") {
      has_text = true;
      if (in.peek() == '"')
        in.string(key.text);
      else
        key.text = std::to_string(in.integer());
    } else if (member == "key_type") {
      type = scan_python_integer(in);
    } else {
      in.skip();
    }
  }
  if (!has_text) in.fail("a key without 'key'");
  if (type != 1 && type != 2)
    in.fail("key_type " + std::to_string(type) + ", expected 1 (sequence) or 2 (dict)");
  key.type = static_cast<KeyType>(type);
  if (key.type == KeyType::kSequence) key.text = canonical_index(in, key.text);
}

void parse_key_metadata(JsonScanner& in, KeyPath& path) {
  path.clear();
  in.begin_array();
  while (in.next_item()) {
    if (path.size() == kMaxLevels)
      in.fail("a key path of more than " + std::to_string(kMaxLevels) + " levels");
    if (path.empty()) path.reserve(4);
    parse_key(in, path.emplace_back());
  }
}

void parse_value_metadata(JsonScanner& in, LeafMetadata& leaf) {
  std::string_view member;
  bool has_type = false;
  bool has_skip = false;
  in.begin_object();
  while (in.next_member(member)) {
    if (member == "value_type") {
      in.string(leaf.value_type);
      has_type = true;
    } else if (member == "skip_deserialize") {
      leaf.skip_deserialize = scan_python_truth(in);
      has_skip = true;
    } else if (member == "write_shape") {
      leaf.write_shape = scan_shape(in);
    } else {
      in.skip();
    }
  }
  if (!has_type) in.fail("value_metadata without 'value_type'");
  if (!has_skip) in.fail("value_metadata without 'skip_deserialize'");
}

// Parses a key in the form in which Python's json.dumps writes it. Returns false for another form.
bool parse_usual_key(JsonScanner& in, Key& key) {
  if (!in.accept(R"({"key": )")) return false;
  const auto text = in.plain_string();
  if (!text) return false;
  if (in.accept(R"(, "key_type": 2})")) {
    key = {std::string(*text), KeyType::kDict};
    return true;
  }
  if (!in.accept(R"(, "key_type": 1})")) return false;
  key = {canonical_index(in, std::string(*text)), KeyType::kSequence};
  return true;
}

bool parse_usual_key_metadata(JsonScanner& in, KeyPath& path) {
  path.reserve(4);
  if (!in.accept(R"({"key_metadata": [)")) return false;
  do {
    if (path.size() == kMaxLevels || !parse_usual_key(in, path.emplace_back())) return false;
  } while (in.accept(", "));
  return in.accept("], ");
}

bool parse_usual_value_metadata(JsonScanner& in, LeafMetadata& leaf) {
  if (!in.accept(R"("value_metadata": {"value_type": )")) return false;
  const auto type = in.plain_string();
  if (!type) return false;
  leaf.value_type = *type;
  leaf.skip_deserialize = in.accept(R"(, "skip_deserialize": true)");
  if (!leaf.skip_deserialize && !in.accept(R"(, "skip_deserialize": false)")) return false;
  if (in.accept(R"(, "write_shape": )")) {
    if (in.null()) return false;
    leaf.write_shape = scan_shape(in);
  }
  return in.accept("}}");
}

// Parses a leaf in the form in which json.dumps writes it: nearly all leaves have it, and it takes
// a third of the time. Returns false for another form, with the scanner where it was.
bool parse_usual_leaf(JsonScanner& in, LeafMetadata& leaf) {
  in.peek();  // skips white space
  const std::size_t start = in.offset();
  if (parse_usual_key_metadata(in, leaf.path) && parse_usual_value_metadata(in, leaf)) return true;
  in.return_to(start);
  leaf = {};
  return false;
}

void parse_leaf(JsonScanner& in, LeafMetadata& leaf) {
  if (parse_usual_leaf(in, leaf)) return;
  std::string_view member;
  bool has_key = false;
  bool has_value = false;
  in.begin_object();
  while (in.next_member(member)) {
    if (member == "key_metadata") {
      parse_key_metadata(in, leaf.path);
      has_key = true;
    } else if (member == "value_metadata") {
      parse_value_metadata(in, leaf);
      has_value = true;
    } else {
      in.skip();
    }
  }
  if (!has_key) in.fail("a leaf without 'key_metadata'");
  if (!has_value) in.fail("a leaf without 'value_metadata'");
}

std::vector<LeafMetadata> parse_leaves(JsonScanner& in) {
  std::vector<LeafMetadata> leaves;
  std::string_view member;
  std::string name;  // must outlive the members below
  in.begin_object();
  const std::size_t start = in.offset();
  while (in.next_member(member)) {
    name.assign(member.substr(0, kMaxShownName));
    // The second leaf: as many more as the text has room for, if all are like the first.
    if (leaves.size() == 1)
      leaves.reserve(1 + std::min(kMaxReserved, in.remaining() / (in.offset() - start) + 1));
    try {
      parse_leaf(in, leaves.emplace_back());
    } catch (Error& e) {
      e.add_context(name);
      throw;
    }
  }
  return leaves;
}

// A leaf that counts only as long as the leaf `by` does not exist.
struct Superseded {
  std::size_t leaf = 0;
  std::size_t by = 0;
};

// Whether `next`, the successor of `leaf` in key path order, replaces it. A leaf that occurs twice
// counts once (the last one, as in a Python dict). A leaf that others extend is a container that a
// partial save left as an empty node.
bool replaces(const LeafMetadata& next, const LeafMetadata& leaf) {
  return leaf.path.size() <= next.path.size() &&
         std::equal(leaf.path.begin(), leaf.path.end(), next.path.begin());
}

std::vector<Superseded> find_superseded(const std::vector<LeafMetadata>& leaves) {
  std::vector<std::size_t> order(leaves.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto less = [&](std::size_t a, std::size_t b) {
    return key_path_less(leaves[a].path, leaves[b].path);
  };
  if (!std::is_sorted(order.begin(), order.end(), less))
    std::stable_sort(order.begin(), order.end(), less);
  std::vector<Superseded> found;
  for (std::size_t i = 0; i + 1 < order.size(); ++i)
    if (replaces(leaves[order[i + 1]], leaves[order[i]])) found.push_back({order[i], order[i + 1]});
  return found;
}

// Reads the names of the members of an object. Leaves those empty that are not wanted.
std::vector<std::string> member_names(JsonScanner& in, const std::vector<bool>& wanted) {
  std::vector<std::string> names(wanted.size());
  std::string_view name;
  in.begin_object();
  for (std::size_t i = 0; in.next_member(name); ++i) {
    if (wanted[i]) names[i] = name;
    in.skip();
  }
  return names;
}

// Throws if a leaf would be lost because its keys, or those of the leaf that replaces it, are
// damaged: then an entry's name, which repeats the keys, is the tuple of other keys. Orbax refuses
// some of these trees, and restores others without the leaf unless the caller gives a target. A
// name that is not a tuple states nothing. `in` is at the start of the leaves.
void check_superseded(JsonScanner& in, const std::vector<LeafMetadata>& leaves,
                      const std::vector<Superseded>& superseded) {
  std::vector<bool> wanted(leaves.size());
  for (const Superseded& each : superseded) wanted[each.leaf] = wanted[each.by] = true;
  const std::vector<std::string> names = member_names(in, wanted);
  const auto contradicts = [&](std::size_t i) {
    const auto tuple = parse_python_tuple(names[i]);
    return tuple && !has_keys_of(*tuple, leaves[i].path);
  };
  for (const auto& [leaf, by] : superseded) {
    if (names[leaf] == names[by] || (!contradicts(leaf) && !contradicts(by))) continue;
    const auto described = [&](std::size_t i) {
      return names[i].substr(0, kMaxShownName) + " has the keys " + path_text(leaves[i].path);
    };
    throw Error(Code::kDataLoss, described(leaf) + ", and " + described(by) +
                                     ": one of them would replace the other, so the keys are "
                                     "damaged");
  }
}

void drop_superseded(std::vector<LeafMetadata>& leaves, const std::vector<Superseded>& superseded) {
  std::vector<bool> drop(leaves.size());
  for (const Superseded& each : superseded) drop[each.leaf] = true;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (drop[i]) continue;
    if (kept != i) leaves[kept] = std::move(leaves[i]);
    ++kept;
  }
  leaves.resize(kept);
}

// Parses all leaves and drops those that others replace.
std::vector<LeafMetadata> parse_tree(JsonScanner& in) {
  in.peek();
  const std::size_t start = in.offset();
  std::vector<LeafMetadata> leaves = parse_leaves(in);
  const std::vector<Superseded> superseded = find_superseded(leaves);
  if (superseded.empty()) return leaves;
  in.return_to(start);
  check_superseded(in, leaves, superseded);
  drop_superseded(leaves, superseded);
  return leaves;
}

void parse_members(JsonScanner& in, TreeMetadata& out, const TakeLeaves& take_leaves) {
  std::string_view name;
  bool has_tree = false;
  in.begin_object();
  while (in.next_member(name)) {
    if (name == "tree_metadata") {
      out.leaves = parse_tree(in);
      if (take_leaves) take_leaves(std::exchange(out.leaves, {}));
      has_tree = true;
    } else if (name == "use_ocdbt") {
      out.use_ocdbt = in.null() ? std::nullopt : std::optional(scan_python_truth(in));
    } else if (name == "use_zarr3") {
      out.use_zarr3 = scan_python_truth(in);
    } else if (name == "store_array_data_equal_to_fill_value") {
      out.store_array_data_equal_to_fill_value = scan_python_truth(in);
    } else if (name == "custom_metadata") {
      out.custom_metadata = in.null() ? std::string_view() : in.skip();
    } else if (name == "value_metadata_tree" && in.peek() == '"') {
      if (const std::string_view text = in.skip(); text != R"("")") out.rich_types = text;
    } else if (name == "cairn_key_types") {
      out.key_types = in.skip();
    } else {
      in.skip();
    }
  }
  if (!has_tree) in.fail("no 'tree_metadata'");
}

}  // namespace

Shape scan_shape(JsonScanner& in) {
  Shape shape;
  in.begin_array();
  while (in.next_item()) {
    if (shape.size() == kMaxRank)
      in.fail("a shape of more than " + std::to_string(kMaxRank) + " dimensions");
    shape.push_back(in.integer());
    if (shape.back() < 0) in.fail("a negative extent");
  }
  return shape;
}

bool is_empty_node_type(std::string_view value_type) {
  return empty_node_from_name(value_type).has_value();
}

TreeMetadata parse_tree_metadata(std::string_view json, const TakeLeaves& take_leaves) {
  TreeMetadata metadata;
  JsonScanner in(json);
  parse_members(in, metadata, take_leaves);
  in.finish();
  return metadata;
}

std::vector<MisnamedLeaf> find_misnamed_leaves(std::string_view json) {
  std::vector<MisnamedLeaf> found;
  JsonScanner in(json);
  std::string_view member;
  std::string name;
  LeafMetadata leaf;
  in.begin_object();
  while (in.next_member(member)) {
    if (member != "tree_metadata") {
      in.skip();
      continue;
    }
    found.clear();  // of members with the same name, the last one counts
    in.begin_object();
    while (in.next_member(member)) {
      name.assign(member);
      leaf = {};
      parse_leaf(in, leaf);
      const auto tuple = parse_python_tuple(name);
      if (!tuple || !has_keys_of(*tuple, leaf.path))
        found.push_back({name.substr(0, kMaxShownName), std::move(leaf.path)});
    }
  }
  in.finish();
  return found;
}

}  // namespace cairn::inline v0
