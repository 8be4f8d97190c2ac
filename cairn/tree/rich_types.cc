// rich_types.cc -- formats and parses trees with their tuples.
#include <cairn/tree/rich_types.h>

#include <cairn/base/json/json.h>
#include <cairn/error.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// a node takes at most four levels of JSON, and the parser accepts 1000
constexpr std::size_t kMaxRichDepth = 100;

class Writer {
 public:
  using Describe = std::function<LeafMetadata(const KeyPath&, const Tree&)>;
  explicit Writer(const Describe& describe) : describe_(describe) {}

  std::string text(const Tree& node) {
    if (path_.size() > kMaxRichDepth)
      throw Error(Code::kInvalidArgument, "a tree of more than " + std::to_string(kMaxRichDepth) +
                                              " levels cannot be recorded with its tuples");
    const auto* dict = node.dict();
    const auto* list = node.list();
    const auto* tuple = node.tuple();
    const auto* named = node.named_tuple();
    if (dict != nullptr && !dict->empty()) return "{" + members(sorted(*dict)) + "}";
    if (list != nullptr && !list->empty()) return "[" + items(*list) + "]";
    if (tuple != nullptr && !tuple->items.empty())
      return R"({"category": "custom", "clazz": "tuple", "entries": [)" + items(tuple->items) +
             "]}";
    if (named != nullptr && !named->fields.empty())
      return R"({"category": "namedtuple", "module": )" + python_quoted(named->module) +
             R"(, "clazz": )" + python_quoted(named->name) + R"(, "entries": [)" +
             fields(named->fields) + "]}";
    return leaf(describe_(path_, node));
  }

 private:
  static Tree::Dict sorted(Tree::Dict dict) {
    std::stable_sort(dict.begin(), dict.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return dict;
  }
  std::string child(Key key, const Tree& node) {
    path_.push_back(std::move(key));
    std::string out = text(node);
    path_.pop_back();
    return out;
  }
  std::string members(const Tree::Dict& dict) {
    std::string out;
    for (const auto& [key, node] : dict)
      out += (out.empty() ? "" : ", ") + python_quoted(key) + ": " +
             child({key, KeyType::kDict}, node);
    return out;
  }
  std::string fields(const Tree::Dict& dict) {
    std::string out;
    for (const auto& [key, node] : dict)
      out += (out.empty() ? "" : ", ") + (R"({"key": )" + python_quoted(key)) + R"(, "value": )" +
             child({key, KeyType::kDict}, node) + "}";
    return out;
  }
  std::string items(const Tree::List& list) {
    std::string out;
    for (std::size_t i = 0; i < list.size(); ++i)
      out += (i > 0 ? ", " : "") + child({std::to_string(i), KeyType::kSequence}, list[i]);
    return out;
  }
  static std::string leaf(const LeafMetadata& leaf) {
    std::string out =
        R"({"category": "custom", "clazz": "ValueMetadataEntry", "data": {"value_type": )" +
        python_quoted(leaf.value_type) + R"(, "skip_deserialize": )" +
        (leaf.skip_deserialize ? "true" : "false");
    if (leaf.write_shape) {
      out += R"(, "write_shape": [)";
      for (std::size_t d = 0; d < leaf.write_shape->size(); ++d)
        (out += d > 0 ? ", " : "") += std::to_string((*leaf.write_shape)[d]);
      out += "]";
    }
    return out + "}}";
  }

  const Describe& describe_;
  KeyPath path_;
};

class Reader {
 public:
  Tree node(const Json& json) {
    if (path_.size() > kMaxRichDepth)
      fail("more than " + std::to_string(kMaxRichDepth) + " levels");
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
    const Tree& tree, const std::function<LeafMetadata(const KeyPath&, const Tree&)>& describe) {
  return Writer(describe).text(tree);
}

Tree parse_rich_types(std::string_view json) {
  JsonLimits limits;
  limits.max_depth = 4 * kMaxRichDepth + 8;
  return Reader().node(parse_json(json, limits));
}

}  // namespace cairn::inline v0
