// tree_json.cc -- trees as JSON and back.
#include "tests/interop/tools/tree_json.h"

#include <cairn/error.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/sharding.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

#include "tests/support/hex.h"

namespace cairn::testing {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("tree description: " + what);
}

const Json& member(const Json& json, const char* name) {
  const Json* found = json.find(name);
  if (found == nullptr) fail(std::string("no member ") + name + " in " + to_text(json));
  return *found;
}
const Json* given(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}
std::string text(const Json& json, const char* name) { return *member(json, name).as_string(); }

Shape shape_of(const Json& list) {
  Shape shape;
  for (const Json& n : *list.as_array()) shape.push_back(n.as_int64().value());
  return shape;
}
Json shape_json(std::span<const std::int64_t> shape) {
  JsonArray out;
  for (const std::int64_t n : shape) out.emplace_back(n);
  return out;
}

DType dtype_of(const Json& json) {
  const auto dtype = dtype_from_name(*json.as_string());
  if (!dtype) fail("dtype " + *json.as_string());
  return *dtype;
}

Array array_of(const Json& json) {
  const Shape shape = shape_of(member(json, "shape"));
  const Json* opaque = given(json, "element_size");
  Array array = opaque
                    ? Array::allocate(DType::kOpaque,
                                      static_cast<std::size_t>(opaque->as_int64().value()), shape)
                    : Array::allocate(dtype_of(member(json, "dtype")), shape);
  const Bytes bytes = from_hex(text(json, "hex"));
  if (bytes.size() != array.bytes().size()) fail("bytes of an array");
  if (!bytes.empty()) std::memcpy(array.mutable_view().data, bytes.data(), bytes.size());
  return array;
}

template <class T>
T number_of(const std::string& digits) {
  T value;
  const Bytes bytes = from_hex(digits);
  if (bytes.size() != sizeof value) fail("bytes of a number");
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}
template <class T>
std::string number_hex(const T& value) {
  return to_hex({reinterpret_cast<const std::byte*>(&value), sizeof value});
}

SaveArgs save_args(const Json& json) {
  SaveArgs args;
  if (const Json* of = given(json, "aggregate")) args.aggregate = *of->as_bool();
  if (const Json* of = given(json, "dtype")) args.dtype = dtype_of(*of);
  if (const Json* of = given(json, "chunk_byte_size")) args.chunk_byte_size = of->as_int64();
  if (const Json* of = given(json, "shard_axes")) args.shard_axes = shape_of(*of);
  if (const Json* of = given(json, "write_chunk_shape")) args.write_chunk_shape = shape_of(*of);
  if (const Json* of = given(json, "read_chunk_shape")) args.read_chunk_shape = shape_of(*of);
  return args;
}

std::optional<RestoreType> restore_type(const Json& json, std::optional<RestoreType> otherwise) {
  const Json* of = json.find("restore_type");
  if (of == nullptr) return otherwise;
  if (of->is_null()) return std::nullopt;
  const std::map<std::string, std::type_index> kTypes = {{"int", typeid(std::int64_t)},
                                                         {"float", typeid(double)},
                                                         {"bool", typeid(bool)},
                                                         {"str", typeid(std::string)},
                                                         {"np.ndarray", typeid(Array)},
                                                         {"jax.Array", typeid(ShardedArray)},
                                                         {"complex", typeid(std::complex<double>)}};
  const auto it = kTypes.find(*of->as_string());
  return it == kTypes.end() ? RestoreType(*of->as_string()) : RestoreType(it->second);
}

Tree restore_args(const Json& json) {
  RestoreArgs args;
  args.restore_type = restore_type(json, std::nullopt);
  if (const Json* of = given(json, "dtype")) args.dtype = dtype_of(*of);
  return Tree(args);
}

void set_array_args(const Json& json, ArrayRestoreArgs& args) {
  args.restore_type = restore_type(json, args.restore_type);
  if (const Json* of = given(json, "dtype")) args.dtype = dtype_of(*of);
  if (const Json* of = given(json, "sharding")) args.sharding = parse_sharding(*of->as_string());
  if (const Json* of = given(json, "global_shape")) args.global_shape = shape_of(*of);
  if (const Json* of = given(json, "shape")) args.shape = shape_of(*of);
  if (const Json* of = given(json, "strict")) args.strict = *of->as_bool();
  if (const Json* of = given(json, "mesh"))
    args.mesh = std::get<NamedSharding>(parse_sharding(*of->as_string())).mesh;
  if (const Json* of = given(json, "mesh_axes")) {
    args.mesh_axes.emplace();
    for (const Json& axes : *of->as_array()) {
      auto& names = args.mesh_axes->emplace_back();
      for (const Json& axis : *axes.as_array()) names.push_back(*axis.as_string());
    }
  }
}

Tree array_restore_args(const Json& json) {
  ArrayRestoreArgs args;
  set_array_args(json, args);
  return Tree(args);
}

Tree single_replica_restore_args(const Json& json) {
  SingleReplicaArrayRestoreArgs args;
  set_array_args(json, args);
  if (const Json* of = given(json, "single_replica_sharding"))
    args.single_replica_sharding = std::get<NamedSharding>(parse_sharding(*of->as_string()));
  return Tree(args);
}

ExplicitSharding explicit_sharding(const Json& parts) {
  ExplicitSharding out;
  for (const Json& part : *parts.as_array()) {
    const JsonArray& fields = *part.as_array();
    out.parts.push_back({fields[0].as_int64().value(), {shape_of(fields[1]), shape_of(fields[2])}});
  }
  return out;
}

Tree sharded(const Json& json) {
  const Json* parts = given(json, "parts");
  ShardedArray array =
      ShardedArray::from_array(array_of(json), parts ? Sharding(explicit_sharding(*parts))
                                                     : parse_sharding(text(json, "sharding")));
  if (const Json* key = given(json, "key")) array.random_key_impl = *key->as_string();
  return Tree(std::move(array));
}

Tree abstract(const Json& json) {
  ShapeDtypeStruct out{shape_of(member(json, "shape")), dtype_of(member(json, "dtype")),
                       std::nullopt};
  if (const Json* of = given(json, "sharding")) out.sharding = parse_sharding(*of->as_string());
  return Tree(std::move(out));
}

Tree::Dict members(const Json& json) {
  Tree::Dict out;
  for (const Json& pair : *json.as_array())
    out.emplace_back(*(*pair.as_array())[0].as_string(), tree_from_json((*pair.as_array())[1]));
  return out;
}
Tree::List items(const Json& json) {
  Tree::List out;
  for (const Json& item : *json.as_array()) out.push_back(tree_from_json(item));
  return out;
}

Tree empty_node(const std::string& name) {
  if (const auto node = empty_node_from_name(name)) return Tree(*node);
  fail("empty node " + name);
}

Json one(const char* name, Json value) {
  Json out;
  out.set(name, std::move(value));
  return out;
}

Json array_json(const Array& array) {
  Json out;
  out.set("dtype", dtype_name(array.dtype()));
  out.set("shape", shape_json(array.shape()));
  out.set("hex", to_hex(array.bytes()));
  return out;
}

Json members_json(const Tree::Dict& dict) {
  JsonArray out;
  for (const auto& [key, child] : dict) out.emplace_back(JsonArray{Json(key), tree_to_json(child)});
  return out;
}
Json items_json(const Tree::List& list) {
  JsonArray out;
  for (const Tree& child : list) out.push_back(tree_to_json(child));
  return out;
}

// The name of the type in Python.
std::string python_type(const RestoreType& type) {
  if (const std::string* typestr = type.typestr()) return *typestr == "string" ? "str" : *typestr;
  if (*type.type() == typeid(bool)) return "bool";
  if (*type.type() == typeid(std::int64_t)) return "int";
  return *type.type() == typeid(double) ? "float" : "complex";
}

Json restore_args_json(const std::optional<RestoreType>& type, std::optional<DType> dtype) {
  Json out;
  out.set("restore_type", type ? Json(python_type(*type)) : Json());
  out.set("dtype", dtype ? Json(dtype_name(*dtype)) : Json());
  return out;
}

Json zarr_json(const ZarrMetadata& zarr) {
  Json out;
  out.set("zarr_format", zarr.zarr_format);
  out.set("shape", shape_json(zarr.shape));
  out.set("dtype", zarr.dtype);
  out.set("chunk_shape", shape_json(zarr.chunk_shape));
  if (zarr.compression)
    out.set("compression",
            JsonArray{zarr.compression->algorithm,
                      zarr.compression->level ? Json(*zarr.compression->level) : Json()});
  if (zarr.zarr_format == 2) {
    out.set("order", zarr.order);
    out.set("dimension_separator", zarr.dimension_separator);
  }
  if (zarr.inner_chunk_shape) out.set("inner_chunk_shape", shape_json(*zarr.inner_chunk_shape));
  return out;
}

Json custom_json(const Tree& tree) {
  if (const auto* array = tree.custom<ShardedArray>()) {
    Json out = array_json(gather_shards(*array));
    out.set("sharding", sharding_json(array->sharding).value_or(""));
    out.set("key", array->random_key_impl);
    out.set("shards", std::int64_t(array->shards.size()));
    return one("sharded", std::move(out));
  }
  if (const auto* value = tree.custom<ValueMetadata>()) {
    Json out;
    out.set("typestr", value->typestr);
    out.set("name", value->name);
    if (value->shape) out.set("shape", shape_json(*value->shape));
    if (value->dtype) out.set("dtype", dtype_name(*value->dtype));
    if (value->sharding) out.set("sharding", sharding_json(*value->sharding).value_or(""));
    if (value->storage && value->storage->chunk_shape)
      out.set("chunk_shape", shape_json(*value->storage->chunk_shape));
    if (value->storage && value->storage->write_shape)
      out.set("write_shape", shape_json(*value->storage->write_shape));
    if (value->storage && value->storage->zarr_metadata)
      out.set("zarr", zarr_json(*value->storage->zarr_metadata));
    return one("metadata", std::move(out));
  }
  if (const auto* value = tree.custom<ShapeDtypeStruct>()) {
    Json out;
    out.set("dtype", dtype_name(value->dtype));
    out.set("shape", shape_json(value->shape));
    out.set("sharding",
            value->sharding ? Json(sharding_json(*value->sharding).value_or("")) : Json());
    return one("abstract", std::move(out));
  }
  if (const auto* args = tree.custom<RestoreArgs>())
    return one("restore_args", restore_args_json(args->restore_type, args->dtype));
  if (const auto* args = tree.custom<ArrayRestoreArgs>()) {
    Json out = restore_args_json(args->restore_type, args->dtype);
    out.set("sharding",
            args->sharding ? Json(sharding_json(*args->sharding).value_or("")) : Json());
    // Orbax gives the shape under both names.
    const auto& shape = args->global_shape ? args->global_shape : args->shape;
    out.set("global_shape", shape ? shape_json(*shape) : Json());
    out.set("shape", shape ? shape_json(*shape) : Json());
    out.set("strict", args->strict);
    return one("array_restore_args", std::move(out));
  }
  fail("a custom leaf");
}

struct ToJson {
  const Tree& tree;
  Json operator()(EmptyNode node) const { return one("empty", empty_node_name(node)); }
  Json operator()(Placeholder) const { return one("placeholder", true); }
  Json operator()(bool value) const { return one("bool", value); }
  Json operator()(std::int64_t value) const { return one("int", value); }
  Json operator()(std::uint64_t value) const { return one("int", value); }
  Json operator()(double value) const { return one("float", number_hex(value)); }
  Json operator()(const std::complex<double>& value) const {
    return one("complex", number_hex(value));
  }
  Json operator()(const std::string& value) const { return one("str", value); }
  Json operator()(const Bytes& value) const { return one("bytes", to_hex(value)); }
  Json operator()(const NumpyScalar& value) const {
    Json out;
    out.set("dtype", dtype_name(value.dtype));
    out.set("hex", to_hex(ByteView(value.value).first(dtype_size(value.dtype))));
    return one("numpy", std::move(out));
  }
  Json operator()(const Array& value) const { return one("array", array_json(value)); }
  Json operator()(const CustomLeaf&) const { return custom_json(tree); }
  Json operator()(const Tree::List& value) const { return one("list", items_json(value)); }
  Json operator()(const Tree::Dict& value) const { return one("dict", members_json(value)); }
  Json operator()(const Tree::Tuple& value) const { return one("tuple", items_json(value.items)); }
  Json operator()(const Tree::NamedTuple& value) const {
    Json out;
    out.set("module", value.module);
    out.set("name", value.name);
    out.set("fields", members_json(value.fields));
    return one("named", std::move(out));
  }
};

}  // namespace

Tree tree_from_json(const Json& json) {
  const JsonObject* object = json.as_object();
  if (object == nullptr || object->size() != 1) fail(to_text(json));
  const auto& [kind, value] = object->front();
  if (kind == "none") return Tree();
  if (kind == "empty") return empty_node(*value.as_string());
  if (kind == "placeholder") return Tree(Placeholder{});
  if (kind == "bool") return Tree(*value.as_bool());
  if (kind == "int") {
    const auto fits = value.as_int64();
    return fits ? Tree(*fits) : Tree(value.as_uint64().value());
  }
  if (kind == "float") return Tree(number_of<double>(*value.as_string()));
  if (kind == "complex") return Tree(number_of<std::complex<double>>(*value.as_string()));
  if (kind == "str") return Tree(*value.as_string());
  if (kind == "bytes") return Tree(from_hex(*value.as_string()));
  if (kind == "numpy") {
    NumpyScalar scalar{dtype_of(member(value, "dtype")), {}};
    const Bytes bytes = from_hex(text(value, "hex"));
    std::memcpy(scalar.value.data(), bytes.data(), bytes.size());
    return Tree(scalar);
  }
  if (kind == "array") return Tree(array_of(value));
  if (kind == "sharded") return sharded(value);
  if (kind == "abstract") return abstract(value);
  if (kind == "dict") return Tree(members(value));
  if (kind == "list") return Tree(items(value));
  if (kind == "tuple") return Tree(Tree::Tuple{items(value)});
  if (kind == "named")
    return Tree(Tree::NamedTuple{text(value, "module"), text(value, "name"),
                                 members(member(value, "fields"))});
  if (kind == "save_args") return Tree(save_args(value));
  if (kind == "restore_args") return restore_args(value);
  if (kind == "array_restore_args") return array_restore_args(value);
  if (kind == "single_replica_restore_args") return single_replica_restore_args(value);
  fail(kind);
}

Json tree_to_json(const Tree& tree) { return std::visit(ToJson{tree}, tree.value()); }

}  // namespace cairn::testing
