#include <cairn/formats/pytorch/pickle/safe_globals.h>

#include <algorithm>
#include <array>
#include <span>

namespace cairn::inline v0::pickle {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 2> kCollections = {"OrderedDict", "Counter"};
constexpr std::array<std::string_view, 3> kBuiltins = {"bytearray", "set", "complex"};
constexpr std::array<std::string_view, 12> kUtils = {"_rebuild_parameter",
                                                     "_rebuild_parameter_with_state",
                                                     "_rebuild_qtensor",
                                                     "_rebuild_tensor",
                                                     "_rebuild_tensor_v2",
                                                     "_rebuild_tensor_v3",
                                                     "_rebuild_sparse_tensor",
                                                     "_rebuild_meta_tensor_no_storage",
                                                     "_rebuild_nested_tensor",
                                                     "_rebuild_wrapper_subclass",
                                                     "_rebuild_device_tensor_from_numpy",
                                                     "_rebuild_device_tensor_from_cpu_tensor"};
constexpr std::array<std::string_view, 2> kStorages = {"TypedStorage", "UntypedStorage"};
// Of torch itself: dtypes, quantisation schemes, and classes.
constexpr std::array<std::string_view, 59> kTorch = {"Size",
                                                     "Tensor",
                                                     "device",
                                                     "bool",
                                                     "uint1",
                                                     "uint2",
                                                     "uint3",
                                                     "uint4",
                                                     "uint5",
                                                     "uint6",
                                                     "uint7",
                                                     "uint8",
                                                     "uint16",
                                                     "uint32",
                                                     "uint64",
                                                     "int1",
                                                     "int2",
                                                     "int3",
                                                     "int4",
                                                     "int5",
                                                     "int6",
                                                     "int7",
                                                     "int8",
                                                     "int16",
                                                     "int32",
                                                     "int64",
                                                     "float16",
                                                     "float32",
                                                     "float64",
                                                     "bfloat16",
                                                     "complex32",
                                                     "bcomplex32",
                                                     "complex64",
                                                     "complex128",
                                                     "float8_e4m3fn",
                                                     "float8_e4m3fnuz",
                                                     "float8_e5m2",
                                                     "float8_e5m2fnuz",
                                                     "float8_e8m0fnu",
                                                     "float4_e2m1fn_x2",
                                                     "bits8",
                                                     "bits16",
                                                     "bits1x8",
                                                     "bits2x4",
                                                     "bits4x2",
                                                     "quint8",
                                                     "quint4x2",
                                                     "quint2x4",
                                                     "qint8",
                                                     "qint32",
                                                     "per_tensor_affine",
                                                     "per_tensor_symmetric",
                                                     "per_channel_affine",
                                                     "per_channel_symmetric",
                                                     "per_channel_affine_float_qparams",
                                                     "QInt8Storage",
                                                     "QInt32Storage",
                                                     "QUInt8Storage",
                                                     "QUInt4x2Storage"};
// Element types of the older classes of storages and tensors.
constexpr std::array<std::string_view, 10> kElements = {
    "BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"};
constexpr std::array<std::string_view, 2> kComplexStorages = {"ComplexDoubleStorage",
                                                              "ComplexFloatStorage"};

bool holds(Names names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_element_class(std::string_view name, std::string_view ending) {
  return name.ends_with(ending) && holds(kElements, name.substr(0, name.size() - ending.size()));
}

}  // namespace

bool is_safe_global(std::string_view module, std::string_view name) {
  if (module == "collections") return holds(kCollections, name);
  if (module == "builtins" || module == "__builtin__") return holds(kBuiltins, name);
  if (module == "_codecs") return name == "encode";
  if (module == "torch._utils") return holds(kUtils, name);
  if (module == "torch.storage") return holds(kStorages, name);
  if (module == "torch.nn.parameter") return name == "Parameter";
  if (module == "torch.serialization") return name == "_get_layout";
  if (module == "torch._tensor") return name == "_rebuild_from_type_v2";
  if (module == "torch.sparse" || module == "torch.cuda.sparse")
    return name != "BoolTensor" && is_element_class(name, "Tensor");
  if (module == "torch" && (holds(kTorch, name) || name == "QUInt2x4Storage")) return true;
  if (module != "torch" && module != "torch.cuda") return false;
  return is_element_class(name, "Storage") || is_element_class(name, "Tensor") ||
         holds(kComplexStorages, name);
}

}  // namespace cairn::inline v0::pickle
