#include <cairn/formats/pytorch/tensors/exported_program.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/formats/pytorch/tensors/element.h>
#include <cairn/formats/pytorch/tensors/place.h>

#include <fmt/format.h>

#include <set>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::int64_t kStrided = 7;  // of torch._export.serde.schema.Layout
constexpr std::size_t kMostProgramExtents = 64;

// The element type with a number of torch._export.serde.schema.ScalarType.
std::optional<TorchElement> element_of_number(std::int64_t number) {
  constexpr std::pair<std::int64_t, std::string_view> kNumbers[] = {{1, "uint8"},
                                                                    {2, "int8"},
                                                                    {3, "int16"},
                                                                    {4, "int32"},
                                                                    {5, "int64"},
                                                                    {6, "float16"},
                                                                    {7, "float32"},
                                                                    {8, "float64"},
                                                                    {9, "complex32"},
                                                                    {10, "complex64"},
                                                                    {11, "complex128"},
                                                                    {12, "bool"},
                                                                    {13, "bfloat16"},
                                                                    {28, "uint16"},
                                                                    {29, "float8_e4m3fn"},
                                                                    {30, "float8_e5m2"},
                                                                    {31, "float8_e4m3fnuz"},
                                                                    {32, "float8_e5m2fnuz"},
                                                                    {33, "float8_e8m0fnu"},
                                                                    {34, "uint32"},
                                                                    {35, "uint64"}};
  for (const auto& [known, name] : kNumbers)
    if (known == number) return element_of_dtype("torch." + std::string(name));
  return std::nullopt;
}

const Json& member_of(const Json& object, std::string_view name) {
  const Json* found = object.find(name);
  if (found == nullptr) data_loss(fmt::format("it has no \"{}\"", name));
  return *found;
}

// 2 of {"as_int": 2}.
std::int64_t extent_of(const Json& json) {
  const auto number = member_of(json, "as_int").as_int64();
  if (!number || *number < 0) data_loss("a size or a stride is not an integer from 0 on");
  return *number;
}

std::vector<std::int64_t> extents_of(const Json& json) {
  const JsonArray* list = json.as_array();
  if (list == nullptr || list->size() > kMostProgramExtents) data_loss("it has no list of sizes");
  std::vector<std::int64_t> extents;
  for (const Json& extent : *list) extents.push_back(extent_of(extent));
  return extents;
}

class Leaves {
 public:
  explicit Leaves(const std::function<std::optional<std::uint64_t>(std::string_view)>& size_of)
      : size_of_(size_of) {}

  void add(const std::string& text, const std::string& folder) {
    if (text.empty()) return;
    const Json json = parse_json(text);
    const JsonObject* config = member_of(json, "config").as_object();
    if (config == nullptr) data_loss("its \"config\" is not an object");
    for (const auto& [name, entry] : *config) {
      std::string key = name;
      while (!names_.insert(key).second) key += " (constant)";
      add_leaf(std::move(key), entry, folder);
    }
  }

  State take() && {
    state_.structure = Tree(std::move(dict_));
    return std::move(state_);
  }

 private:
  void add_leaf(std::string name, const Json& entry, const std::string& folder) {
    StateLeaf leaf;
    leaf.leaf.info.path = {{name, KeyType::kDict}};
    leaf.leaf.info.typestr = "np.ndarray";
    leaf.leaf.info.name = name;
    const auto described = try_call([&] { return describe(leaf, entry, folder), true; });
    if (!described) {
      leaf.tensor.reset();
      leaf.leaf.info.kind = LeafKind::kUnknown;
      leaf.leaf.info.error = described.error().message();
      leaf.leaf.info.error_code = described.error().code();
    }
    dict_.emplace_back(std::move(name), Tree(static_cast<std::int64_t>(state_.leaves.size())));
    state_.leaves.push_back(std::move(leaf));
  }

  void describe(StateLeaf& leaf, const Json& entry, const std::string& folder) const {
    const Json* meta = entry.find("tensor_meta");
    const Json* is_pickled = entry.find("use_pickle");
    if (meta == nullptr || meta->is_null() ||
        (is_pickled != nullptr && is_pickled->as_bool() != nullptr && *is_pickled->as_bool()))
      throw Error(Code::kUnimplemented, "an object of the program, which Cairn does not read");
    if (member_of(*meta, "layout").as_int64() != kStrided)
      throw Error(Code::kUnimplemented, "a sparse tensor of an exported program");
    const auto number = member_of(*meta, "dtype").as_int64();
    const auto element = number ? element_of_number(*number) : std::nullopt;
    if (!element) throw Error(Code::kUnimplemented, "its elements are of a type without a name");
    const std::string* path = member_of(entry, "path_name").as_string();
    if (path == nullptr) data_loss("its \"path_name\" is not a text");

    TorchTensor tensor;
    tensor.element = *element;
    tensor.storage.key = folder + *path;
    tensor.storage.count = size_of_(tensor.storage.key).value_or(0);
    tensor.offset = static_cast<std::uint64_t>(extent_of(member_of(*meta, "storage_offset")));
    tensor.shape = extents_of(member_of(*meta, "sizes"));
    tensor.strides = extents_of(member_of(*meta, "strides"));
    if (tensor.strides.size() != tensor.shape.size())
      data_loss("it has another number of strides than of sizes");
    set_tensor(leaf, std::move(tensor));
  }

  static void set_tensor(StateLeaf& leaf, TorchTensor tensor) {
    TensorInfo& info = leaf.leaf.info;
    info.nbytes = memory_of(tensor);
    info.shape = tensor.shape;
    info.dtype = tensor.element.dtype;
    info.element_size = tensor.element.size;
    info.dtype_name = tensor.element.name;
    if (info.dtype == DType::kOpaque)
      leaf.leaf.unreadable = fmt::format(
          "its elements are torch.{}, a type that Cairn does not have", tensor.element.name);
    leaf.tensor = std::move(tensor);
  }

  const std::function<std::optional<std::uint64_t>(std::string_view)>& size_of_;
  std::set<std::string, std::less<>> names_;
  Tree::Dict dict_;
  State state_;
};

}  // namespace

State exported_state(
    const ExportedProgram& program,
    const std::function<std::optional<std::uint64_t>(std::string_view key)>& size_of) {
  Leaves leaves(size_of);
  with_context([&] { return "data/weights/model_weights_config.json"; },
               [&] { leaves.add(program.weights, "weights/"); });
  with_context([&] { return "data/constants/model_constants_config.json"; },
               [&] { leaves.add(program.constants, "constants/"); });
  return std::move(leaves).take();
}

}  // namespace cairn::inline v0::pytorch
