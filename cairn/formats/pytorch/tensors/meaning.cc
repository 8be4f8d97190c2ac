// meaning.cc -- follows the calls that PyTorch's pickles consist of.
#include <cairn/formats/pytorch/tensors/meaning.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/pytorch/tensors/fields.h>
#include <cairn/formats/pytorch/tensors/numpy_value.h>
#include <cairn/formats/pytorch/tensors/objects.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace cairn::inline v0::pytorch {
namespace {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

constexpr int kMostWrapped = 64;  // parameters of parameters of ... tensors

// A call without its callee. The arguments are those of one tuple.
struct Call {
  const Pickle& p;
  std::string name;
  std::span<const Value> arguments;

  [[nodiscard]] Value at(std::size_t i) const {
    if (i >= arguments.size())
      data_loss(fmt::format("{} has {} arguments, which are too few", name, arguments.size()));
    return arguments[i];
  }
  [[nodiscard]] bool has(std::size_t i) const {
    return i < arguments.size() && p.kind(arguments[i]) != Kind::kNone;
  }
};

// Either what a call makes, or another value that it passes on.
using Made = std::variant<Meaning, Value, Call>;

// ---- tensors ----

TorchTensor strided(const Call& call, const StorageName& storage, const TorchElement& element) {
  TorchTensor tensor{.storage = storage,
                     .element = element,
                     .offset = count_field(call.p, call.at(1)),
                     .shape = extents_field(call.p, call.at(2)),
                     .strides = extents_field(call.p, call.at(3))};
  if (tensor.shape.size() != tensor.strides.size())
    data_loss(fmt::format("a tensor has {} dimensions and {} strides", tensor.shape.size(),
                          tensor.strides.size()));
  return tensor;
}

// {'conj': True, 'neg': True}
void take_view(const Pickle& p, Value metadata, TorchTensor& tensor) {
  if (p.kind(metadata) != Kind::kDict) return;
  const auto is_set = [&](const char* name) {
    const auto found = find_member(p, metadata, name);
    return found && p.kind(*found) == Kind::kBool && p.boolean(*found);
  };
  tensor.conjugated = is_set("conj");
  tensor.negated = is_set("neg");
}

TorchElement element_of(const StorageName& storage) {
  if (!storage.element) data_loss("a tensor has a storage without a type, and no type of its own");
  return *storage.element;
}

TorchElement element_field(const Pickle& p, Value dtype) {
  const auto element = element_of_dtype(global_text(p, dtype));
  if (!element) data_loss(global_text(p, dtype) + " is not an element type of PyTorch");
  return *element;
}

Made tensor_v2(const Call& call) {
  const StorageName storage = storage_field(call.p, call.at(0));
  TorchTensor tensor = strided(call, storage, element_of(storage));
  if (call.has(6)) take_view(call.p, call.at(6), tensor);
  return Meaning(std::move(tensor));
}

// PyTorch counts the bytes, which hold two elements each, along the last dimension.
void count_halves(TorchTensor& tensor) {
  if (tensor.shape.empty() || tensor.strides.back() != 1 ||
      std::ranges::any_of(tensor.shape, [](std::int64_t n) { return n > INT64_MAX / 2; }) ||
      std::ranges::any_of(tensor.strides, [](std::int64_t n) { return n > INT64_MAX / 2; }))
    throw Error(Code::kUnimplemented,
                "elements of torch.float4_e2m1fn_x2 that do not lie in order");
  tensor.shape.back() *= 2;
  tensor.offset *= 2;
  for (std::size_t d = 0; d + 1 < tensor.strides.size(); ++d) tensor.strides[d] *= 2;
}

Made tensor_v3(const Call& call) {
  const StorageName storage = storage_field(call.p, call.at(0));
  TorchTensor tensor = strided(call, storage, element_field(call.p, call.at(6)));
  if (tensor.element.name == "float4_e2m1fn_x2") count_halves(tensor);
  if (call.has(7)) take_view(call.p, call.at(7), tensor);
  return Meaning(std::move(tensor));
}

Made meta_tensor(const Call& call) {
  return Meaning(MetaTensor{element_field(call.p, call.at(0)), extents_field(call.p, call.at(1))});
}

// (per_tensor_affine, scale, zero_point) or (per_channel_affine, scales, zero_points, axis)
Made quantised(const Call& call) {
  const StorageName storage = storage_field(call.p, call.at(0));
  const Value parameters = call.at(4);
  if (call.p.kind(parameters) != Kind::kTuple || call.p.items(parameters).size() < 3)
    data_loss("a quantised tensor has no parameters");
  const auto items = call.p.items(parameters);
  const bool is_one = items.size() == 3;
  Members parts;
  parts.members.push_back({{"int_repr"}, strided(call, storage, element_of(storage))});
  parts.members.push_back({{is_one ? "scale" : "scales"}, items[1]});
  parts.members.push_back({{is_one ? "zero_point" : "zero_points"}, items[2]});
  if (!is_one) parts.members.push_back({{"axis"}, items[3]});
  return Meaning(std::move(parts));
}

Members named_parts(std::span<const std::string_view> names, std::span<const Value> values) {
  Members parts;
  for (std::size_t i = 0; i < names.size() && i < values.size(); ++i)
    parts.members.push_back({{std::string(names[i])}, values[i]});
  return parts;
}

// (layout, (indices, values, size, is_coalesced)); the compressed layouts have two kinds of
// indices.
Made sparse(const Call& call) {
  constexpr std::array<std::string_view, 4> kCoo = {"indices", "values", "size", "is_coalesced"};
  constexpr std::array<std::string_view, 4> kRows = {"crow_indices", "col_indices", "values",
                                                     "size"};
  constexpr std::array<std::string_view, 4> kColumns = {"ccol_indices", "row_indices", "values",
                                                        "size"};
  const std::string layout = layout_text(call.p, call.at(0));
  const Value data = call.at(1);
  if (call.p.kind(data) != Kind::kTuple || call.p.items(data).size() < 3)
    data_loss("a sparse tensor has no parts");
  const bool by_rows = layout == "torch.sparse_csr" || layout == "torch.sparse_bsr";
  const bool by_columns = layout == "torch.sparse_csc" || layout == "torch.sparse_bsc";
  if (!by_rows && !by_columns && layout != "torch.sparse_coo")
    data_loss("\"" + layout + "\" is not a layout of sparse tensors");
  return Meaning(named_parts(by_rows ? kRows : by_columns ? kColumns : kCoo, call.p.items(data)));
}

Made nested(const Call& call) {
  constexpr std::array<std::string_view, 4> kNames = {"values", "sizes", "strides", "offsets"};
  static_cast<void>(call.at(kNames.size() - 1));
  return Meaning(named_parts(kNames, call.arguments));
}

// (dict with the parts `values` and `offsets` among others)
Made jagged(const Call& call) {
  constexpr std::array<std::string_view, 2> kNames = {"values", "offsets"};
  std::vector<Value> parts;
  for (const std::string_view name : kNames) {
    const auto part = find_member(call.p, call.at(0), name);
    if (!part) data_loss("a nested tensor has no " + std::string(name));
    parts.push_back(*part);
  }
  return Meaning(named_parts(kNames, parts));
}

// (function, class, arguments, state): the tensor that the function makes. A DTensor has no storage
// of its own: its local part is in the state.
Made from_type(const Call& call) {
  const std::string function = global_text(call.p, call.at(0));
  if (function == "torch._utils._rebuild_wrapper_subclass") {
    const Value state = call.at(3);
    if (const auto local = find_member(call.p, state, "_local_tensor")) return *local;
    return Meaning(members_of_state(call.p, state));
  }
  const Value arguments = call.at(2);
  if (call.p.kind(arguments) != Kind::kTuple)
    data_loss("the arguments of a tensor are not a tuple");
  return Call{call.p, function, call.p.items(arguments)};
}

Made first_argument(const Call& call) { return call.at(0); }

// ---- values ----

// Text of Latin-1: the only way in which protocol 2 stores bytes.
Made encoded(const Call& call) {
  if (text_field(call.p, call.at(1)) != "latin1")
    data_loss("_codecs.encode with another codec than latin1");
  return Meaning(ByteText{latin1_bytes(text_field(call.p, call.at(0)))});
}

Made byte_array(const Call& call) {
  if (call.arguments.empty()) return Meaning(ByteText{});
  const Value first = call.at(0);
  if (is_text(call.p, first)) return Meaning(ByteText{latin1_bytes(text_field(call.p, first))});
  if (call.p.kind(first) == Kind::kInt) return Meaning(Opaque{call.name, "it has only a length"});
  return first;
}

Made complex_number(const Call& call) {
  return Meaning(
      std::complex<double>(real_field(call.p, call.at(0)), real_field(call.p, call.at(1))));
}

Made set_of(const Call& call) {
  if (call.arguments.empty()) return Meaning(Sequence{});
  return call.at(0);
}

// torch.device('cuda', 0)
Made device(const Call& call) {
  std::string text = text_field(call.p, call.at(0));
  if (call.has(1)) text += ":" + std::to_string(count_field(call.p, call.at(1)));
  return Meaning(Text{std::move(text)});
}

Made layout(const Call& call) { return Meaning(Text{text_field(call.p, call.at(0))}); }

struct Function {
  std::string_view name;
  Made (*make)(const Call& call);
};
constexpr Function kFunctions[] = {
    {"torch._utils._rebuild_tensor", tensor_v2},
    {"torch._utils._rebuild_tensor_v2", tensor_v2},
    {"torch._utils._rebuild_tensor_v3", tensor_v3},
    {"torch._utils._rebuild_parameter", first_argument},
    {"torch._utils._rebuild_parameter_with_state", first_argument},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", first_argument},
    {"torch._utils._rebuild_qtensor", quantised},
    {"torch._utils._rebuild_sparse_tensor", sparse},
    {"torch._utils._rebuild_sparse_csr_tensor", sparse},
    {"torch._utils._rebuild_nested_tensor", nested},
    {"torch._utils._rebuild_meta_tensor_no_storage", meta_tensor},
    {"torch._tensor._rebuild_from_type_v2", from_type},
    {"torch.nested._internal.nested_tensor._rebuild_njt", jagged},
    {"torch.nn.parameter.Parameter", first_argument},
    {"torch.Size", set_of},
    {"torch.device", device},
    {"torch.serialization._get_layout", layout},
    {"_codecs.encode", encoded},
    {"builtins.bytearray", byte_array},
    {"__builtin__.bytearray", byte_array},
    {"builtins.bytes", byte_array},
    {"__builtin__.bytes", byte_array},
    {"builtins.complex", complex_number},
    {"__builtin__.complex", complex_number},
    {"builtins.set", set_of},
    {"__builtin__.set", set_of},
    {"builtins.frozenset", set_of},
    {"__builtin__.frozenset", set_of},
    {"builtins.list", set_of},
    {"builtins.tuple", set_of},
};

Made made_by(const Call& call, Value whole) {
  for (const Function& function : kFunctions)
    if (function.name == call.name) return function.make(call);
  if (auto array = numpy_value(call.p, call.name, whole)) return Meaning(std::move(*array));
  return Meaning(object_meaning(call.p, call.name, whole));
}

Made made_by_call(const Pickle& p, Value value) {
  const Value arguments = p.part(value, pickle::Part::kArguments);
  const std::string name = global_text(p, p.part(value, pickle::Part::kCallee));
  // A dict or a list that has its items from opcodes behind the call.
  const bool is_plain = p.kind(arguments) == Kind::kTuple &&
                        p.kind(p.part(value, pickle::Part::kItems)) == Kind::kNone &&
                        p.kind(p.part(value, pickle::Part::kEntries)) == Kind::kNone;
  if (!is_plain) return Meaning(object_meaning(p, name, value));
  return made_by(Call{p, name, p.items(arguments)}, value);
}

Meaning long_integer(const Pickle& p, Value value) {
  // Python writes what does not fit into 64 bits with a sign, so 2^63 has nine bytes.
  const ByteView bytes = p.bytes(value);
  std::uint64_t number = 0;
  if (p.kind(value) == Kind::kLongBytes && bytes.size() == 9 && bytes[8] == std::byte{0}) {
    for (std::size_t i = 0; i < 8; ++i)
      number |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    return number;
  }
  return Opaque{"builtins.int", "an integer of more than 64 bits"};
}

Meaning whole_storage(const Pickle& p, Value value) {
  const StorageName storage = storage_field(p, value);
  constexpr TorchElement kByte = {"uint8", DType::kUint8, 1};
  return TorchTensor{.storage = storage,
                     .element = storage.element.value_or(kByte),
                     .offset = 0,
                     .shape = {static_cast<std::int64_t>(storage.count)},
                     .strides = {1}};
}

Made made(const Pickle& p, Value value) {
  switch (p.kind(value)) {
    case Kind::kNone:
      return Meaning(NoValue{});
    case Kind::kBool:
      return Meaning(p.boolean(value));
    case Kind::kInt:
      return Meaning(p.integer(value));
    case Kind::kLongBytes:
    case Kind::kLongText:
      return long_integer(p, value);
    case Kind::kFloat:
      return Meaning(p.real(value));
    case Kind::kText:
      return Meaning(Text{printable_utf8(p.text(value))});
    case Kind::kByteString:
      if (valid_utf8(p.text(value))) return Meaning(Text{std::string(p.text(value))});
      [[fallthrough]];
    case Kind::kBytes:
    case Kind::kByteArray:
      return Meaning(ByteText{Bytes(p.bytes(value).begin(), p.bytes(value).end())});
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kSet:
    case Kind::kFrozenSet:
      return Meaning(
          Sequence{{p.items(value).begin(), p.items(value).end()}, p.kind(value) == Kind::kTuple});
    case Kind::kDict:
      return Meaning(members_of_dict(p, value));
    case Kind::kGlobal:
      if (element_of_dtype(global_text(p, value))) return Meaning(Text{global_text(p, value)});
      return Meaning(Opaque{global_text(p, value), "a class or a function"});
    case Kind::kExtension:
      return Meaning(Opaque{"copyreg", "an object that only the registry of a program names"});
    case Kind::kBuffer:
      return Meaning(Opaque{"a buffer", "its bytes are outside of the pickle"});
    case Kind::kPersistent:
      return whole_storage(p, value);
    case Kind::kCall:
    case Kind::kObject:
      return made_by_call(p, value);
  }
  return Meaning(NoValue{});
}

}  // namespace

Meaning meaning_of(const Pickle& pickle, Value value) {
  std::optional<Made> next = value;
  for (int steps = 0; steps < kMostWrapped; ++steps) {
    if (auto* meaning = std::get_if<Meaning>(&*next)) return std::move(*meaning);
    if (const auto* passed_on = std::get_if<Value>(&*next)) {
      value = *passed_on;
      next.emplace(made(pickle, value));
    } else {
      const Call call = std::get<Call>(*next);
      next.emplace(made_by(call, value));
    }
  }
  data_loss("values are wrapped more than " + std::to_string(kMostWrapped) + " times");
}

}  // namespace cairn::inline v0::pytorch
