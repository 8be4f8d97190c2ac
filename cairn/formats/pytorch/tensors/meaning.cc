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

// What the calls on the way to a meaning leave beside it.
struct Context {
  Extras extras;
  Work* work = nullptr;
};

// A call without its callee. The arguments are those of one tuple.
struct Call {
  const Pickle& p;
  std::string name;
  std::span<const Value> arguments;
  Context& context;

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
  TorchTensor integers = strided(call, storage, element_of(storage));
  Members parts;
  parts.members.push_back({{"int_repr"}, std::move(integers)});
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
    const auto part = find_member(call.p, call.at(0), name, call.context.work);
    if (!part) data_loss("a nested tensor has no " + std::string(name));
    parts.push_back(*part);
  }
  Members members = named_parts(kNames, parts);
  // Others, as `lengths`, are rarely set. The cache has what follows from the offsets.
  constexpr std::array<std::string_view, 2> kSkipped = {"_metadata_cache", "requires_grad"};
  for (Member& other : members_of_dict(call.p, call.at(0), call.context.work).members) {
    const auto* value = std::get_if<Value>(&other.value);
    const bool is_set = value != nullptr && call.p.kind(*value) != Kind::kNone;
    const auto is_name = [&](std::string_view name) { return name == other.key.text; };
    if (is_set && std::ranges::none_of(kNames, is_name) && std::ranges::none_of(kSkipped, is_name))
      members.members.push_back(std::move(other));
  }
  // Its attributes are the same parts once more.
  for (const char* name : {"_values", "_offsets", "_lengths", "_ragged_idx", "_metadata_cache"})
    call.context.extras.unshown.emplace_back(name);
  return Meaning(std::move(members));
}

// The attributes of a tensor.
void take_attributes(const Call& call, Value state) {
  call.context.extras.add_state(call.p, state);
  call.context.extras.of_tensor = true;
  // Those of a torch.nn.Buffer.
  if (find_member(call.p, state, "_is_buffer", call.context.work))
    call.context.extras.unshown = {"_is_buffer", "persistent"};
}

// (function, class, arguments, state): the tensor that the function makes. A DTensor has no storage
// of its own: its local part is in the state.
Made from_type(const Call& call) {
  const std::string function = global_text(call.p, call.at(0));
  if (function == "torch._utils._rebuild_wrapper_subclass") {
    const Value state = call.at(3);
    if (const auto local = find_member(call.p, state, "_local_tensor", call.context.work))
      return *local;
    Extras& extras = call.context.extras;
    extras.add_state(call.p, state);
    extras.attributes.clear();  // they are what the tensor has
    // (class, dtype, size, ...)
    if (call.p.kind(call.at(2)) == Kind::kTuple && call.p.items(call.at(2)).size() > 2) {
      extras.dtype = call.p.items(call.at(2))[1];
      extras.size = call.p.items(call.at(2))[2];
    }
    return Meaning(members_of_state(call.p, state, call.context.work));
  }
  const Value arguments = call.at(2);
  if (call.p.kind(arguments) != Kind::kTuple)
    data_loss("the arguments of a tensor are not a tuple");
  take_attributes(call, call.at(3));
  return Call{call.p, function, call.p.items(arguments), call.context};
}

// (tensor, requires_grad, hooks, state)
Made parameter_with_state(const Call& call) {
  take_attributes(call, call.at(3));
  return call.at(0);
}

// PyTorch saves bfloat16 as float32, of which it then takes the upper half.
void take_upper_halves(NumpyValue& array) {
  Bytes halves(array.bytes.size() / 2);
  for (std::size_t i = 0; i < halves.size(); i += 2) {
    const std::byte* const number = &array.bytes[2 * i];
    if (array.big_endian || number[0] != std::byte{0} || number[1] != std::byte{0})
      throw Error(Code::kUnimplemented, "elements of float32 that are not those of bfloat16");
    halves[i] = number[2];
    halves[i + 1] = number[3];
  }
  array.bytes = std::move(halves);
  array.dtype = DType::kBfloat16;
  array.element_size = 2;
  array.dtype_name = dtype_name(array.dtype);
}

// (array of NumPy, dtype, device, requires_grad)
Made device_tensor(const Call& call) {
  const TorchElement element = element_field(call.p, call.at(1));
  const Value data = call.at(0);
  auto array =
      call.p.kind(data) == Kind::kCall
          ? numpy_value(call.p, global_text(call.p, call.p.part(data, pickle::Part::kCallee)), data)
          : std::nullopt;
  if (!array) data_loss("a tensor of a device has no array");
  if (array->dtype == DType::kFloat32 && element.dtype == DType::kBfloat16)
    take_upper_halves(*array);
  if (array->unreadable.empty() && array->dtype != element.dtype)
    throw Error(Code::kUnimplemented, fmt::format("elements of torch.{} that are stored as {}",
                                                  element.name, array->dtype_name));
  return Meaning(std::move(*array));
}

Made first_argument(const Call& call) { return call.at(0); }

// ---- values ----

std::string_view text_argument(const Call& call, std::size_t i) {
  if (!is_text(call.p, call.at(i))) data_loss("an argument is not a text");
  return call.p.text(call.at(i));
}

// Text of Latin-1: the only way in which protocol 2 stores bytes.
Made encoded(const Call& call) {
  if (name_field(call.p, call.at(1)) != "latin1")
    data_loss("_codecs.encode with another codec than latin1");
  return Meaning(ByteText{latin1_bytes(text_argument(call, 0))});
}

Made byte_array(const Call& call) {
  if (call.arguments.empty()) return Meaning(ByteText{});
  const Value first = call.at(0);
  if (is_text(call.p, first)) {
    if (call.has(1) && name_field(call.p, call.at(1)) != "latin-1")
      data_loss(call.name + " with another codec than latin-1");
    return Meaning(ByteText{latin1_bytes(text_argument(call, 0))});
  }
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
    {"torch._utils._rebuild_parameter_with_state", parameter_with_state},
    {"torch._utils._rebuild_device_tensor_from_numpy", device_tensor},
    {"torch._utils._rebuild_xla_tensor", device_tensor},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", first_argument},
    {"torch._utils._rebuild_qtensor", quantised},
    {"torch._utils._rebuild_sparse_tensor", sparse},
    {"torch._utils._rebuild_sparse_csr_tensor", sparse},
    {"torch._utils._rebuild_nested_tensor", nested},
    {"torch._utils._rebuild_meta_tensor_no_storage", meta_tensor},
    {"torch._tensor._rebuild_from_type_v2", from_type},
    {"torch.nested._internal.nested_tensor._rebuild_njt", jagged},
    {"torch.nn.parameter.Parameter", first_argument},
    // TorchScript
    {"torch.jit._pickle.build_intlist", first_argument},
    {"torch.jit._pickle.build_tensorlist", first_argument},
    {"torch.jit._pickle.build_doublelist", first_argument},
    {"torch.jit._pickle.build_boollist", first_argument},
    {"torch.jit._pickle.restore_type_tag", first_argument},
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

const Function* find_function(std::string_view name) {
  const auto* const found = std::ranges::find(kFunctions, name, &Function::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

Made object(const Pickle& p, const std::string& name, Value value, Context& context) {
  return std::visit([](auto&& found) { return Made(std::forward<decltype(found)>(found)); },
                    object_meaning(p, name, value, context.extras, context.work));
}

Made made_by(const Call& call, Value whole) {
  if (const Function* function = find_function(call.name)) return function->make(call);
  if (auto array = numpy_value(call.p, call.name, whole)) return Meaning(std::move(*array));
  return object(call.p, call.name, whole, call.context);
}

Made made_by_call(const Pickle& p, Value value, Context& context) {
  const Value arguments = p.part(value, pickle::Part::kArguments);
  const std::string name = global_text(p, p.part(value, pickle::Part::kCallee));
  // A dict or a list that has its items from opcodes behind the call.
  const bool is_plain = p.kind(arguments) == Kind::kTuple &&
                        p.kind(p.part(value, pickle::Part::kItems)) == Kind::kNone &&
                        p.kind(p.part(value, pickle::Part::kEntries)) == Kind::kNone;
  if (!is_plain) return object(p, name, value, context);
  if (find_function(name) != nullptr) context.extras.add_states_of(p, value);
  return made_by(Call{p, name, p.items(arguments), context}, value);
}

Meaning long_integer(const Pickle& p, Value value) {
  if (const auto number = unsigned_value(p, value)) return *number;
  return Opaque{"builtins.int", "an integer of more than 64 bits"};
}

Meaning whole_storage(const Pickle& p, Value value) {
  const StorageName storage = storage_field(p, value);
  constexpr TorchElement kByte = {"uint8", DType::kUint8, 1};
  return TorchTensor{.storage = storage,
                     .element = storage.element.value_or(kByte),
                     .offset = 0,
                     .shape = {static_cast<std::int64_t>(storage.length.value_or(storage.count))},
                     .strides = {1}};
}

Made made(const Pickle& p, Value value, Context& context) {
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
      return Meaning(Text{printable_utf8(p.text(value)), !valid_utf8(p.text(value))});
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
      count(context.work, p.items(value).size());
      return Meaning(
          Sequence{{p.items(value).begin(), p.items(value).end()}, p.kind(value) == Kind::kTuple});
    case Kind::kDict:
      return Meaning(members_of_dict(p, value, context.work));
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
      return made_by_call(p, value, context);
  }
  return Meaning(NoValue{});
}

// Puts what stands beside a dict among its members.
Described with_extras(const Pickle& p, Meaning meaning, Context& context) {
  Described out{std::move(meaning), members_of_extras(p, context.extras, context.work)};
  auto* dict = std::get_if<Members>(&out.meaning);
  if (dict == nullptr || out.beside.members.empty()) return out;
  std::vector<Member> beside = std::move(out.beside.members);
  out.beside.members.clear();
  if (dict->is_module) return out;
  UniqueTexts texts;
  for (Member& member : dict->members) texts.claim(member.key, "");
  for (Member& member : beside) {
    texts.claim(member.key, "of the object");
    dict->members.push_back(std::move(member));
  }
  return out;
}

}  // namespace

Described describe(const Pickle& pickle, Value value, Work* work) {
  Context context{.extras = {}, .work = work};
  std::optional<Made> next = value;
  for (int steps = 0; steps < kMostWrapped; ++steps) {
    if (auto* meaning = std::get_if<Meaning>(&*next))
      return with_extras(pickle, std::move(*meaning), context);
    if (const auto* passed_on = std::get_if<Value>(&*next)) {
      value = *passed_on;
      next.emplace(made(pickle, value, context));
    } else {
      const Call call = std::get<Call>(*next);
      next.emplace(made_by(call, value));
    }
  }
  data_loss("values are wrapped more than " + std::to_string(kMostWrapped) + " times");
}

Meaning meaning_of(const Pickle& pickle, Value value) { return describe(pickle, value).meaning; }

}  // namespace cairn::inline v0::pytorch
