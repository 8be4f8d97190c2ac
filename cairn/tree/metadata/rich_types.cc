// rich_types.cc -- formats and parses trees with their tuples.
#include <cairn/tree/metadata/rich_types.h>

#include <cairn/base/json/json.h>
#include <cairn/base/json/scan.h>
#include <cairn/error.h>
#include <cairn/tree/depth.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// A named tuple takes three levels of JSON, and so does a leaf. Room for one level too many, which
// Reader reports.
constexpr std::size_t kMaxJsonDepth = 3 * (kMaxTreeDepth + 2);

// Writes the text directly as it stands inside the string, so each quote has a backslash.
class Writer {
 public:
  using Describe = std::function<const LeafMetadata&(const KeyPath&, const Tree&)>;
  explicit Writer(const Describe& describe) : describe_(describe) {}

  std::string text(const Tree& tree, std::size_t leaves) {
    constexpr std::size_t kLeafBytes = 160;  // about; with the key
    out_.reserve(leaves * kLeafBytes);
    out_ += '"';
    node(tree);
    out_ += '"';
    return std::move(out_);
  }

 private:
  void node(const Tree& node) {
    check_tree_depth(path_);
    const auto* dict = node.dict();
    const auto* list = node.list();
    const auto* tuple = node.tuple();
    const auto* named = node.named_tuple();
    if (dict != nullptr && !dict->empty()) {
      members(*dict);
    } else if (list != nullptr && !list->empty()) {
      items(*list);
    } else if (tuple != nullptr && !tuple->items.empty()) {
      out_ += R"({\"category\": \"custom\", \"clazz\": \"tuple\", \"entries\": )";
      items(tuple->items);
      out_ += '}';
    } else if (named != nullptr && !named->fields.empty()) {
      fields(*named);
    } else {
      leaf(describe_(path_, node));
    }
  }
  void child(const std::string& key, KeyType type, const Tree& child) {
    path_.push_back({key, type});
    node(child);
    path_.pop_back();
  }
  void members(const Tree::Dict& dict) {
    std::vector<const Tree::Dict::value_type*> sorted;
    sorted.reserve(dict.size());
    for (const auto& member : dict) sorted.push_back(&member);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto* a, const auto* b) { return a->first < b->first; });
    out_ += '{';
    for (const auto* member : sorted) {
      if (member != sorted.front()) out_ += ", ";
      string(member->first);
      out_ += ": ";
      child(member->first, KeyType::kDict, member->second);
    }
    out_ += '}';
  }
  void fields(const Tree::NamedTuple& named) {
    out_ += R"({\"category\": \"namedtuple\", \"module\": )";
    string(named.module);
    out_ += R"(, \"clazz\": )";
    string(named.name);
    out_ += R"(, \"entries\": [)";
    for (const auto& [key, node] : named.fields) {
      if (&key != &named.fields.front().first) out_ += ", ";
      out_ += R"({\"key\": )";
      string(key);
      out_ += R"(, \"value\": )";
      child(key, KeyType::kDict, node);
      out_ += '}';
    }
    out_ += "]}";
  }
  void items(const Tree::List& list) {
    out_ += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += ", ";
      child(std::to_string(i), KeyType::kSequence, list[i]);
    }
    out_ += ']';
  }
  void leaf(const LeafMetadata& leaf) {
    out_ += R"({\"category\": \"custom\", \"clazz\": \"ValueMetadataEntry\", )"
            R"(\"data\": {\"value_type\": )";
    string(leaf.value_type);
    out_ += leaf.skip_deserialize ? R"(, \"skip_deserialize\": true)"
                                  : R"(, \"skip_deserialize\": false)";
    if (leaf.write_shape) {
      out_ += R"(, \"write_shape\": [)";
      for (std::size_t d = 0; d < leaf.write_shape->size(); ++d)
        (out_ += d > 0 ? ", " : "") += std::to_string((*leaf.write_shape)[d]);
      out_ += ']';
    }
    out_ += "}}";
  }
  // A string of the inner JSON.
  void string(const std::string& text) {
    if (is_plain_text(text)) {
      ((out_ += R"(\")") += text) += R"(\")";
      return;
    }
    const std::string quoted = python_quoted(python_quoted(text));
    out_.append(quoted, 1, quoted.size() - 2);
  }

  const Describe& describe_;
  std::string out_;
  KeyPath path_;
};

class Reader {
 public:
  Tree node(const Json& json) {
    if (path_.size() > kMaxTreeDepth)
      throw Error(Code::kDataLoss, "value_metadata_tree: " + too_deep_text(path_));
    if (const JsonArray* array = json.as_array()) return Tree(items(*array));
    const JsonObject* object = json.as_object();
    if (object == nullptr)
      fail("a node is " + std::string(json.type_text()) + ", expected an object");
    const std::string* category = text_of(json, "category");
    const std::string* clazz = text_of(json, "clazz");
    // A user's dict may have a key of that name. Its value is then a node, not a string.
    if (category == nullptr || clazz == nullptr) return dict(*object);
    if (*category == "namedtuple") return named_tuple(json, *clazz);
    if (*category == "custom" && *clazz == "tuple")
      return Tree(Tree::Tuple{items(array_of(json, "entries"))});
    if (*category == "custom" && *clazz == "ValueMetadataEntry") return leaf(json);
    fail("unknown node of category '" + *category + "' and class '" + *clazz + "'");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::kDataLoss, "value_metadata_tree at " + quoted_leaf_text(path_) + ": " + what);
  }
  static const std::string* text_of(const Json& json, std::string_view key) {
    const Json* member = json.find(key);
    return member == nullptr ? nullptr : member->as_string();
  }
  const JsonArray& array_of(const Json& json, std::string_view key) const {
    const Json* member = json.find(key);
    if (member == nullptr || member->as_array() == nullptr)
      fail("no list '" + std::string(key) + "'");
    return *member->as_array();
  }
  Tree child(Key key, const Json& json) {
    path_.push_back(std::move(key));
    Tree made = node(json);
    path_.pop_back();
    return made;
  }
  Tree dict(const JsonObject& object) {
    Tree::Dict out;
    for (const auto& [key, value] : object)
      out.emplace_back(key, child({key, KeyType::kDict}, value));
    return Tree(std::move(out));
  }
  Tree::List items(const JsonArray& array) {
    Tree::List out;
    for (std::size_t i = 0; i < array.size(); ++i)
      out.push_back(child({std::to_string(i), KeyType::kSequence}, array[i]));
    return out;
  }
  Tree named_tuple(const Json& json, const std::string& clazz) {
    Tree::NamedTuple out;
    const std::string* module = text_of(json, "module");
    if (module == nullptr) fail("a named tuple without 'module'");
    out.module = *module;
    out.name = clazz;
    for (const Json& entry : array_of(json, "entries")) {
      const std::string* key = text_of(entry, "key");
      const Json* value = entry.find("value");
      if (key == nullptr || value == nullptr) fail("a field without 'key' or 'value'");
      out.fields.emplace_back(*key, child({*key, KeyType::kDict}, *value));
    }
    return Tree(std::move(out));
  }
  Tree leaf(const Json& json) {
    const Json* data = json.find("data");
    const std::string* type = data == nullptr ? nullptr : text_of(*data, "value_type");
    if (type == nullptr) fail("a leaf without 'value_type'");
    if (const auto empty = empty_node_from_name(*type)) return Tree(*empty);
    LeafMetadata leaf;
    leaf.path = path_;
    leaf.value_type = *type;
    if (const Json* skip = data->find("skip_deserialize");
        skip != nullptr && skip->as_bool() != nullptr)
      leaf.skip_deserialize = *skip->as_bool();
    if (const Json* shape = data->find("write_shape"); shape != nullptr && !shape->is_null())
      leaf.write_shape = shape_of(*shape);
    return Tree(CustomLeaf::of(std::move(leaf)));
  }
  Shape shape_of(const Json& json) const {
    Shape shape;
    if (json.as_array() == nullptr)
      fail("'write_shape' is " + std::string(json.type_text()) + ", expected a list");
    for (const Json& extent : *json.as_array()) {
      const auto n = extent.as_int64();
      if (!n || *n < 0) fail("'write_shape' has an extent that is not a non-negative integer");
      shape.push_back(*n);
    }
    return shape;
  }

  KeyPath path_;
};

}  // namespace

std::string rich_types_text(
    const Tree& tree,
    const std::function<const LeafMetadata&(const KeyPath&, const Tree&)>& describe,
    std::size_t leaves) {
  return Writer(describe).text(tree, leaves);
}

Tree parse_rich_types(std::string_view json_string) {
  JsonLimits limits;
  limits.max_depth = kMaxJsonDepth;
  return Reader().node(parse_json(JsonScanner(json_string).string(), limits));
}

bool may_say_more(std::string_view json_string, std::size_t leaves) {
  constexpr std::string_view kLeaf = "ValueMetadataEntry";
  for (const std::string_view sign : {"tuple", "\\u"})  // \u may hide any word
    if (json_string.find(sign) != std::string_view::npos) return true;
  std::size_t found = 0;
  for (std::size_t at = json_string.find(kLeaf); at != std::string_view::npos;
       at = json_string.find(kLeaf, at + kLeaf.size()))
    ++found;
  return found != leaves;
}

}  // namespace cairn::inline v0
