#include <cairn/tools/dequantize/model_config.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/tools/hugging_face/config_file.h>

#include <cstdint>

namespace cairn::inline v0 {
namespace {

constexpr std::int64_t kMostBlock = std::int64_t{1} << 40U;

std::string_view text_of(const Json* json) {
  return json != nullptr && json->as_string() != nullptr ? std::string_view(*json->as_string())
                                                         : std::string_view();
}

const Json* find_in(const Json* object, std::string_view key) {
  return object == nullptr ? nullptr : object->find(key);
}

// Models with several parts have the configuration of the language model in "text_config".
const Json* find_anywhere(const Json& root, std::string_view key) {
  const Json* found = root.find(key);
  if (found == nullptr || found->is_null()) found = find_in(root.find("text_config"), key);
  return found;
}

std::optional<DType> model_type(const Json& root) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    std::string_view name = text_of(find_anywhere(root, key));
    if (name.starts_with("torch.")) name.remove_prefix(std::string_view("torch.").size());
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64})
      if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

Shape extents_of(const Json& list, const char* name) {
  Shape extents;
  if (list.as_array() != nullptr)
    for (const Json& item : *list.as_array()) {
      const auto extent = item.as_int64();
      if (!extent || *extent < 1 || *extent > kMostBlock) break;
      extents.push_back(*extent);
    }
  if (list.as_array() == nullptr || list.as_array()->size() != extents.size() || extents.empty())
    data_loss(std::string(name) + ": expected a list of positive numbers");
  return extents;
}

// The value that all groups of modules share; nullopt if they differ.
template <class Value>
class Common {
 public:
  void add(const Value& value) {
    is_one_ = is_one_ && (!value_ || *value_ == value);
    value_ = value;
  }
  [[nodiscard]] std::optional<Value> get() const { return is_one_ ? value_ : std::nullopt; }

 private:
  bool is_one_ = true;
  std::optional<Value> value_;
};

// compressed-tensors: {"config_groups": {"group_0": {"weights": {"group_size": 128, ...}}}}. Where
// groups of modules differ, the shapes decide.
void take_groups(const Json& groups, ModelConfig& config) {
  if (groups.as_object() == nullptr) return;
  Common<Shape> blocks;
  Common<std::int64_t> bits;
  for (const auto& [name, group] : *groups.as_object()) {
    const Json* weights = group.find("weights");
    if (weights == nullptr || weights->as_object() == nullptr) continue;
    const Json* extents = weights->find("block_structure");
    const Json* size = weights->find("group_size");
    if (extents != nullptr && extents->as_array() != nullptr)
      blocks.add(extents_of(*extents, "block_structure"));
    else if (size != nullptr && size->as_int64().value_or(0) > 0)
      blocks.add({1, *size->as_int64()});
    else
      blocks.add({});
    const Json* width = weights->find("num_bits");
    bits.add(width == nullptr ? 0 : width->as_int64().value_or(0));
  }
  config.blocks = config.groups = blocks.get().value_or(Shape());
  if (bits.get().value_or(0) > 0) config.bits = bits.get();
}

}  // namespace

ModelConfig parse_model_config(std::string_view json) {
  const Json root = parse_json(json);
  ModelConfig config;
  config.dtype = model_type(root);
  const Json* quantized = find_anywhere(root, "quantization_config");
  if (quantized == nullptr) quantized = find_anywhere(root, "compression_config");
  if (quantized == nullptr || quantized->as_object() == nullptr) return config;
  config.method = text_of(quantized->find("quant_method"));
  if (const Json* blocks = quantized->find("weight_block_size");
      blocks != nullptr && !blocks->is_null())
    config.blocks = extents_of(*blocks, "weight_block_size");
  else if (const Json* groups = quantized->find("config_groups"))
    take_groups(*groups, config);
  return config;
}

ModelConfig read_model_config(const std::string& path, const StoreOptions& store) {
  const auto config = find_config_file(path, store);
  if (!config) return {};
  return with_context([&] { return config->path; },
                      [&] { return parse_model_config(config->text); });
}

}  // namespace cairn::inline v0
