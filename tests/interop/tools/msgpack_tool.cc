// msgpack_tool.cc -- writes trees as msgpack, so that the tests can compare the bytes with flax's
// and Orbax's. Reads one JSON job a line, answers one JSON object a line.
//   job:     {"dialect": "flax" | "flax-state" | "orbax", "sorted": true, "chunk": 64, "file":
//            PATH,
//             "hex": MSGPACK (restored and written again)  or  "tree": NODE}
//   answer:  {"hex": ...}  or  {"code": "invalid_argument", "error": ...}
//   NODE:    ["none"] ["ellipsis"] ["bool", true] ["int", "-5"] ["float", HEX] ["complex", HEX,
//            HEX] ["text", "..."] ["raw text", HEX]
//            ["bytes", HEX] ["array", dtype, [shape], HEX] ["scalar", dtype, HEX] ["list",
//            [NODE...]] ["tuple", [NODE...]]
//            ["dict", [[key, NODE]...]] ["named", [[field, NODE]...]] ["custom"]       floats: 8
//            bytes, little-endian
// Every tree is written three times: in memory, to `file`, and to `file` with its arrays fetched
// piece by piece from a small buffer. Bytes that are not the same are an internal error.
#include <cairn/base/json.h>
#include <cairn/io/file.h>
#include <cairn/msgpack.h>
#include <cairn/tensor_source.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/interop/tools/answer_jobs.h"
#include "tests/support/hex.h"

namespace cairn {
namespace {

using testing::to_hex;

Bytes from_hex(const Json& json) {
  const std::string& hex = *json.as_string();
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

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

Tree array(const Json& dtype, const Json& shape, const Json& hex) {
  Shape extents;
  for (const Json& n : *shape.as_array()) extents.push_back(*n.as_int64());
  const Bytes bytes = from_hex(hex);
  Array made = Array::allocate(dtype_from_name(*dtype.as_string()).value(), extents);
  std::copy(bytes.begin(), bytes.end(), made.mutable_view().data);
  return Tree(made);
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
  if (type == "array") return array(n[1], n[2], n[3]);
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

MsgpackOptions options_of(const Json& job) {
  MsgpackOptions options;
  const std::string& dialect = *job.find("dialect")->as_string();
  options.dialect = dialect == "orbax"  ? MsgpackDialect::kOrbax
                    : dialect == "flax" ? MsgpackDialect::kFlax
                                        : MsgpackDialect::kFlaxState;
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

Json answer(const Json& job) {
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
