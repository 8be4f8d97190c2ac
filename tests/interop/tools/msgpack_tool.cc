// msgpack_tool.cc -- writes trees as msgpack and reads them, so that the tests can compare with
// flax and Orbax. Reads one JSON job a line, answers one JSON object a line.
//   job:     {"dialect": "flax" | "flax-state" | "orbax", "sorted": true, "chunk": 64, "file":
//            PATH,
//             "hex": MSGPACK (restored and written again)  or  "tree": NODE}
//            {"dialect": ..., "read": MSGPACK}
//            {"dialect": ..., "sorted": true, "chunk": 64, "file": PATH,
//             "large": "bytes" | "array" | "list" | "tuple", "size": N}: of N bytes, none of which
//             may be read; answers with an error
//   answer:  {"hex": ...}  or  {"tree": NODE}  or  {"code": "invalid_argument", "error": ...}
//   NODE:    ["none"] ["ellipsis"] ["bool", true] ["int", "-5"] ["float", HEX] ["complex", HEX,
//            HEX] ["text", "..."] ["raw text", HEX]
//            ["bytes", HEX] ["array", dtype, [shape], HEX] ["scalar", dtype, HEX] ["list",
//            [NODE...]] ["tuple", [NODE...]]
//            ["dict", [[key, NODE]...]] ["named", [[field, NODE]...]] ["custom"]       floats: 8
//            bytes, little-endian
//            ["time", "seconds", nanoseconds] ["numpy", dtype, [shape], HEX, is it a scalar]
//            ["sharded", dtype, [shape], HEX, [[device, [starts], [stops]]...]] ["key"]
// Every tree is written three times: in memory, to `file`, and to `file` with its arrays fetched
// piece by piece from a small buffer. Bytes that are not the same are an internal error.
#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/msgpack.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tensor_source.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/interop/tools/answer_jobs.h"
#include "tests/support/hex.h"

namespace cairn {
namespace {

using testing::to_hex;

Bytes from_hex(const Json& json) { return testing::from_hex(*json.as_string()); }

double to_double(const Json& json) {
  double value = 0;
  std::memcpy(&value, from_hex(json).data(), sizeof value);
  return value;
}

Tree integer(const std::string& digits) {
  if (digits[0] == '-') return Tree(std::int64_t{std::stoll(digits)});
  const std::uint64_t value = std::stoull(digits);
  return value > INT64_MAX ? Tree(value) : Tree(static_cast<std::int64_t>(value));
}

Shape to_shape(const Json& json) {
  Shape extents;
  for (const Json& n : *json.as_array()) extents.push_back(*n.as_int64());
  return extents;
}

Array array(const Json& dtype, const Json& shape, const Json& hex) {
  const Bytes bytes = from_hex(hex);
  Array made = Array::allocate(dtype_from_name(*dtype.as_string()).value(), to_shape(shape));
  std::copy(bytes.begin(), bytes.end(), made.mutable_view().data);
  return made;
}

Tree sharded(const Array& whole, const Json& shards) {
  ExplicitSharding sharding;
  for (const Json& shard : *shards.as_array()) {
    const JsonArray& parts = *shard.as_array();
    Box box{to_shape(parts[1]), to_shape(parts[2])};
    for (std::size_t d = 0; d < box.shape.size(); ++d) box.shape[d] -= box.origin[d];
    sharding.parts.push_back({*parts[0].as_int64(), box});
  }
  return Tree(ShardedArray::from_array(whole, sharding));
}

Tree build(const Json& node);

Tree::List items(const Json& nodes) {
  Tree::List out;
  for (const Json& node : *nodes.as_array()) out.push_back(build(node));
  return out;
}

Tree::Dict members(const Json& nodes) {
  Tree::Dict out;
  for (const Json& pair : *nodes.as_array())
    out.emplace_back(*(*pair.as_array())[0].as_string(), build((*pair.as_array())[1]));
  return out;
}

Tree build(const Json& node) {
  const JsonArray& n = *node.as_array();
  const std::string& type = *n[0].as_string();
  if (type == "ellipsis") return Tree(Placeholder{});
  if (type == "bool") return Tree(*n[1].as_bool());
  if (type == "int") return integer(*n[1].as_string());
  if (type == "float") return Tree(to_double(n[1]));
  if (type == "complex") return Tree(std::complex<double>(to_double(n[1]), to_double(n[2])));
  if (type == "text") return Tree(*n[1].as_string());
  if (type == "raw text") return Tree(std::string(as_text(from_hex(n[1]))));
  if (type == "bytes") return Tree(from_hex(n[1]));
  if (type == "array") return Tree(array(n[1], n[2], n[3]));
  if (type == "sharded") return sharded(array(n[1], n[2], n[3]), n[4]);
  if (type == "key")
    return Tree(
        ShardedArray{.shape = {2}, .dtype = DType::kUint32, .random_key_impl = "threefry2x32"});
  if (type == "time")
    return Tree(MsgpackTimestamp{std::stoll(*n[1].as_string()),
                                 static_cast<std::uint32_t>(*n[2].as_int64())});
  if (type == "numpy")
    return Tree(NumpyArray{*n[1].as_string(), to_shape(n[2]), from_hex(n[3]), *n[4].as_bool()});
  if (type == "list") return Tree(items(n[1]));
  if (type == "tuple") return Tree(Tree::Tuple{items(n[1])});
  if (type == "dict") return Tree(members(n[1]));
  if (type == "named") return Tree(Tree::NamedTuple{"module", "Name", members(n[1])});
  if (type == "custom") return Tree(CustomLeaf::of(1));
  if (type == "scalar") {
    NumpyScalar scalar{.dtype = dtype_from_name(*n[1].as_string()).value()};
    const Bytes bytes = from_hex(n[2]);
    std::copy(bytes.begin(), bytes.end(), scalar.value.begin());
    return Tree(scalar);
  }
  return {};
}

// ---- the other way: a tree as NODE ----

template <class T>
std::string hex_of(const T& value) {
  return to_hex(ByteView(reinterpret_cast<const std::byte*>(&value), sizeof value));
}

Json shape_node(const Shape& shape) {
  JsonArray out;
  for (const auto n : shape) out.emplace_back(n);
  return out;
}

Json node_of(const Tree& tree);

Json items_node(const Tree::List& items) {
  JsonArray out;
  for (const Tree& item : items) out.push_back(node_of(item));
  return out;
}

Json custom_node(const Tree& tree) {
  if (const auto* time = tree.custom<MsgpackTimestamp>())
    return JsonArray{"time", std::to_string(time->seconds), std::int64_t{time->nanoseconds}};
  if (const auto* array = tree.custom<NumpyArray>())
    return JsonArray{"numpy", array->dtype_name, shape_node(array->shape), to_hex(array->bytes),
                     array->scalar};
  return JsonArray{"custom"};
}

Json node_of(const Tree& tree) {
  const Tree::Value& value = tree.value();
  if (const auto* dict = tree.dict()) {
    JsonArray members;
    for (const auto& [key, child] : *dict) members.push_back(JsonArray{key, node_of(child)});
    return JsonArray{"dict", members};
  }
  if (const auto* list = tree.list()) return JsonArray{"list", items_node(*list)};
  if (tree.tuple() != nullptr) return JsonArray{"tuple", items_node(tree.tuple()->items)};
  if (const auto* empty = std::get_if<EmptyNode>(&value))
    return *empty == EmptyNode::kNone    ? Json(JsonArray{"none"})
           : *empty == EmptyNode::kDict  ? Json(JsonArray{"dict", JsonArray{}})
           : *empty == EmptyNode::kTuple ? Json(JsonArray{"tuple", JsonArray{}})
                                         : Json(JsonArray{"list", JsonArray{}});
  if (const auto* truth = std::get_if<bool>(&value)) return JsonArray{"bool", *truth};
  if (const auto* i = std::get_if<std::int64_t>(&value))
    return JsonArray{"int", std::to_string(*i)};
  if (const auto* u = std::get_if<std::uint64_t>(&value))
    return JsonArray{"int", std::to_string(*u)};
  if (const auto* real = std::get_if<double>(&value)) return JsonArray{"float", hex_of(*real)};
  if (const auto* z = std::get_if<std::complex<double>>(&value))
    return JsonArray{"complex", hex_of(z->real()), hex_of(z->imag())};
  if (const auto* text = std::get_if<std::string>(&value)) return JsonArray{"text", *text};
  if (const auto* bytes = std::get_if<Bytes>(&value)) return JsonArray{"bytes", to_hex(*bytes)};
  if (const auto* scalar = std::get_if<NumpyScalar>(&value))
    return JsonArray{"scalar", std::string(dtype_name(scalar->dtype)),
                     to_hex(ByteView(scalar->value).first(dtype_size(scalar->dtype)))};
  if (const Array* made = tree.array())
    return JsonArray{"array", std::string(dtype_name(made->dtype())), shape_node(made->shape()),
                     to_hex(made->bytes())};
  return custom_node(tree);
}

MsgpackDialect dialect_of(const Json& job) {
  const std::string& dialect = *job.find("dialect")->as_string();
  return dialect == "orbax"  ? MsgpackDialect::kOrbax
         : dialect == "flax" ? MsgpackDialect::kFlax
                             : MsgpackDialect::kFlaxState;
}

MsgpackOptions options_of(const Json& job) {
  MsgpackOptions options{.dialect = dialect_of(job)};
  options.order = *job.find("sorted")->as_bool() ? DictOrder::kSorted : DictOrder::kBuilt;
  if (const Json* chunk = job.find("chunk")) options.chunk_bytes = *chunk->as_uint64();
  return options;
}

// The same tree with its arrays and bytes to be fetched.
Bytes write_fetched(const std::string& path, const Tree& tree, const MsgpackWriteOptions& options) {
  std::vector<TensorSource> sources;
  std::vector<Bytes> values;
  const Tree with_sources = map_leaves(tree, [&](const KeyPath& /*path*/, const Tree& leaf) {
    const auto* bytes = std::get_if<Bytes>(&leaf.value());
    if (leaf.array() == nullptr && bytes == nullptr) return leaf;
    const ByteView content = bytes != nullptr ? ByteView(*bytes) : leaf.array()->bytes();
    values.emplace_back(content.begin(), content.end());
    const Shape flat{static_cast<std::int64_t>(content.size())};
    sources.push_back({"", bytes != nullptr ? DType::kUint8 : leaf.array()->dtype(),
                       bytes != nullptr ? flat : leaf.array()->shape()});
    const auto as = bytes != nullptr ? SourceLeaf::As::kBytes : SourceLeaf::As::kArray;
    return Tree(SourceLeaf{sources.size() - 1, as});
  });
  const FetchFn fetch = [&](std::span<const TensorPiece> pieces) {
    for (const TensorPiece& piece : pieces)
      std::copy_n(values[piece.tensor].begin() + static_cast<std::ptrdiff_t>(piece.offset),
                  piece.out.size(), piece.out.begin());
  };
  write_msgpack(path, with_sources, sources, fetch, options);
  return read_file(path);
}

// A list or a tuple has the bytes as two arrays.
[[noreturn]] void write_large(const Json& job) {
  const std::string& kind = *job.find("large")->as_string();
  const std::int64_t size = *job.find("size")->as_int64();
  std::vector<TensorSource> sources;
  const auto source = [&](std::int64_t bytes, SourceLeaf::As as) {
    sources.push_back({"", DType::kUint8, {bytes}});
    return Tree(SourceLeaf{sources.size() - 1, as});
  };
  Tree tree;
  if (kind == "bytes" || kind == "array") {
    tree = source(size, kind == "bytes" ? SourceLeaf::As::kBytes : SourceLeaf::As::kArray);
  } else {
    const Tree::List halves{source(size / 2, SourceLeaf::As::kArray),
                            source(size - size / 2, SourceLeaf::As::kArray)};
    tree = kind == "list" ? Tree(halves) : Tree(Tree::Tuple{halves});
  }
  const FetchFn fetch = [](std::span<const TensorPiece>) {
    throw Error(Code::kUnavailable, "elements were read");
  };
  MsgpackWriteOptions options{.encoding = options_of(job)};
  options.if_exists = IfExists::kReplace;
  write_msgpack(*job.find("file")->as_string(), Tree{{"w", tree}}, sources, fetch, options);
  throw Error(Code::kUnavailable, "it was written");
}

Json answer(const Json& job) {
  if (job.find("large") != nullptr) write_large(job);
  if (const Json* read = job.find("read"))
    return JsonObject{
        {"tree", node_of(msgpack_restore(from_hex(*read), nullptr, dialect_of(job)))}};
  const Json* hex = job.find("hex");
  const Tree tree = hex != nullptr ? msgpack_restore(from_hex(*hex)) : build(*job.find("tree"));
  MsgpackWriteOptions options{.encoding = options_of(job)};
  options.if_exists = IfExists::kReplace;
  options.resources.memory = 1000;
  const Bytes bytes = msgpack_serialize(tree, options.encoding);
  const std::string& path = *job.find("file")->as_string();
  write_msgpack(path, tree, options);
  if (read_file(path) != bytes) throw Error(Code::kDataLoss, "the file holds other bytes");
  if (write_fetched(path, tree, options) != bytes)
    throw Error(Code::kDataLoss, "fetched arrays make other bytes");
  return JsonObject{{"hex", to_hex(bytes)}};
}

}  // namespace
}  // namespace cairn

int main() { cairn::testing::answer_lines(cairn::answer, {.max_depth = 1000}); }
