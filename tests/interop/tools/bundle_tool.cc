// bundle_tool.cc -- what the tests against TensorFlow drive: writes the TensorFlow checkpoint that
// a JSON job on standard input tells of.
//
//   {"prefix": ..., "like": "save" | "write", "graph": bool, "replace": bool, "max_shard_size":
//   int,
//    "tensors": [{"key", "dtype", "shape", "hex" | "strings": [hex], "full_shape", "origin",
//    "device"}]}
//    With "save_specs", the callback prints each tensor's key, slice spec and SaveSpec, as JSON.
//   {"merge": [prefixes], "prefix": ..., "delete_old_dirs": bool, "allow_missing_files": bool}
//   {"state": path}: the file as Cairn reads it, as JSON
#include <cairn/base/json/json.h>
#include <cairn/formats/tensorflow/index/checkpoint_state.h>
#include <cairn/formats/tensorflow/write/bundle_merge.h>
#include <cairn/tensor_source.h>
#include <cairn/tensorflow.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "tests/support/hex.h"

namespace {

using cairn::Json;
using cairn::testing::text_from_hex;

const std::string& text(const Json& json, std::string_view member) {
  return *json.find(member)->as_string();
}
bool flag(const Json& json, std::string_view member) {
  const Json* value = json.find(member);
  return value != nullptr && *value->as_bool();
}
std::vector<std::int64_t> integers(const Json* json) {
  std::vector<std::int64_t> out;
  if (json != nullptr)
    for (const Json& value : *json->as_array()) out.push_back(*value.as_int64());
  return out;
}

struct Tensors {
  std::vector<cairn::TensorFlowSource> sources;
  std::vector<std::string> bytes;
};

Tensors read_tensors(const Json& job) {
  Tensors out;
  for (const Json& json : *job.find("tensors")->as_array()) {
    cairn::TensorFlowSource& source = out.sources.emplace_back();
    source.key = text_from_hex(text(json, "key"));
    const auto dtype = cairn::dtype_from_name(text(json, "dtype"));
    source.dtype =
        dtype ? cairn::TensorType(*dtype)
              : cairn::TensorType(text(json, "dtype"),
                                  static_cast<std::uint64_t>(*json.find("size")->as_int64()));
    source.shape = integers(json.find("shape"));
    if (const Json* strings = json.find("strings"))
      for (const Json& value : *strings->as_array())
        source.strings.push_back(text_from_hex(*value.as_string()));
    if (json.find("origin") != nullptr)
      source.slice = {integers(json.find("full_shape")), integers(json.find("origin"))};
    if (const Json* device = json.find("device")) source.device = *device->as_string();
    out.bytes.push_back(json.find("hex") != nullptr ? text_from_hex(text(json, "hex")) : "");
  }
  return out;
}

// One data file of each task, and what the callback learns of the tensors.
class ShowSaveSpecs : public cairn::ShardByTaskPolicy {
 public:
  [[nodiscard]] std::vector<cairn::Shard> operator()(
      std::span<const cairn::ShardableTensor> tensors) const override {
    for (const cairn::ShardableTensor& tensor : tensors) {
      const cairn::SaveSpec& spec = tensor.tensor_save_spec();
      const cairn::JsonObject shown{
          {"key", tensor.checkpoint_key},
          {"slice_spec", tensor.slice_spec},
          {"name", spec.name},
          {"dtype", spec.dtype.name},
          {"shape", cairn::JsonArray(spec.shape.begin(), spec.shape.end())},
          {"device", spec.device}};
      std::cout << to_text(cairn::Json(shown)) << "\n";
    }
    return ShardByTaskPolicy::operator()(tensors);
  }
};

void write(const Json& job) {
  Tensors tensors = read_tensors(job);
  std::vector<cairn::ArrayView> views;
  for (std::size_t i = 0; i < tensors.sources.size(); ++i) {
    const auto& source = tensors.sources[i];
    const std::size_t size = source.dtype.size;
    views.push_back({cairn::as_bytes(tensors.bytes[i]).data(), cairn::DType::kOpaque, size,
                     source.shape, cairn::c_strides(source.shape, size)});
  }
  cairn::TensorFlowWriteOptions options;
  options.like = text(job, "like") == "save" ? cairn::TensorFlowWriteOptions::Like::kSave
                                             : cairn::TensorFlowWriteOptions::Like::kWrite;
  options.object_graph = flag(job, "graph");
  if (flag(job, "replace")) options.if_exists = cairn::IfExists::kReplace;
  if (const Json* size = job.find("max_shard_size"))
    options.sharding_callback = std::make_shared<cairn::MaxShardSizePolicy>(*size->as_int64());
  if (flag(job, "save_specs")) options.sharding_callback = std::make_shared<ShowSaveSpecs>();
  if (const Json* memory = job.find("memory"))
    options.resources.memory = static_cast<std::uint64_t>(*memory->as_int64());
  for (const auto& file : write_tensorflow(text(job, "prefix"), std::move(tensors.sources),
                                           cairn::fetch_from(views), options))
    std::cout << file << "\n";
}

void merge(const Json& job) {
  std::vector<std::string> prefixes;
  for (const Json& prefix : *job.find("merge")->as_array()) prefixes.push_back(*prefix.as_string());
  cairn::merge_bundles(prefixes, text(job, "prefix"),
                       {.delete_old_dirs = flag(job, "delete_old_dirs"),
                        .allow_missing_files = flag(job, "allow_missing_files")});
}

void show_state(const std::string& path) {
  const cairn::CheckpointState state =
      cairn::read_checkpoint_state(cairn::FileTree(), path).value();
  cairn::JsonArray paths, timestamps;
  for (const auto& one : state.all_model_checkpoint_paths) paths.emplace_back(one);
  for (const double one : state.all_model_checkpoint_timestamps) timestamps.emplace_back(one);
  const Json out = cairn::JsonObject{{"path", state.model_checkpoint_path},
                                     {"paths", paths},
                                     {"timestamps", timestamps},
                                     {"last", state.last_preserved_timestamp}};
  std::cout << to_text(out, cairn::JsonStyle::kPython) << "\n" << encode_checkpoint_state(state);
}

}  // namespace

int main() try {
  const std::string input{std::istreambuf_iterator<char>(std::cin),
                          std::istreambuf_iterator<char>()};
  const Json job = cairn::parse_json(input);
  if (job.find("merge") != nullptr)
    merge(job);
  else if (job.find("state") != nullptr)
    show_state(text(job, "state"));
  else
    write(job);
  return 0;
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s: %s\n", std::string(code_name(error.code())).c_str(), error.what());
  return 1;
}
