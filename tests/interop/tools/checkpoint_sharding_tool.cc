// checkpoint_sharding_tool.cc -- answers questions about the sharding of checkpoints, so that the
// tests can ask TensorFlow the same. One question a line, a JSON object; one answer a line. TENSOR
// is {"key", "spec", "dtype", "size", "shape", "device", "name", "strings": [total, longest] or
// null}; SHARDS are [[[KEY, [[SPEC, NUMBER OF THE TENSOR, ORIGIN, SHAPE], ...]], ...], ...], where
// a tensor that is whole has null for its origin.
//      {"ask": "max_size", "max": N, "like_tensorflow": BOOL, "tensors": [TENSOR, ...]}    ->
//      {"shards": SHARDS, "warnings": [TEXT, ...]}
//      {"ask": "by_task", "tensors": [TENSOR, ...]}                                        ->
//                                                                    {"shards": SHARDS}, of all
//                                                                    tasks
//      {"ask": "validate", "tensors": [TENSOR, ...], "originals": N, "shards": SHARDS,
//      "description": TEXT}   -> {}
//             where the first N tensors are what the shards should be of
//      {"ask": "compare", "tensors": [TENSOR, ...], "share": true}, each with "trackable": N or null
//             -> {"texts": [TEXT, ...], "equal": [[BOOL, ...], ...], "same_hash": [[BOOL, ...], ...]}
//      {"ask": "spec", "text": TEXT}                                                       ->
//                                                                    {"shape", "origin", "extents",
//                                                                    "text"}
//      {"ask": "hash", "description": TEXT, "kwargs": [[NAME, VALUE], ...]}                ->
//      {"hash": N}
//      {"ask": "policies"} -> {"by_task": TEXT, "max_size": TEXT: their descriptions,
//             "equal": [BOOL, BOOL]: a policy and itself, a policy and another of its arguments}
//      {"ask": "task", "device": TEXT}                                                     ->
//                                                                    {"task": N or null}
// or {"error": MESSAGE}.
#include <cairn/base/json/json.h>
#include <cairn/error.h>
#include <cairn/formats/tensorflow/sharding/slice_spec.h>
#include <cairn/tensorflow.h>

#include <map>
#include <memory>
#include <string>

#include "tests/interop/tools/answer_jobs.h"

namespace cairn {
namespace {

Json list_json(const std::vector<std::int64_t>& numbers) {
  return JsonArray(numbers.begin(), numbers.end());
}
const Json& at(const Json& json, const char* name) { return *json.find(name); }
const Json& nth(const Json& json, std::size_t index) { return (*json.as_array())[index]; }
const std::string& text(const Json& json) { return *json.as_string(); }
std::size_t number(const Json& json) { return static_cast<std::size_t>(json.as_uint64().value()); }

std::vector<std::int64_t> numbers(const Json& json) {
  std::vector<std::int64_t> out;
  for (const Json& entry : *json.as_array()) out.push_back(entry.as_int64().value());
  return out;
}

// Tensors that are alike but for the key, the slice spec and the trackable are one tensor, if the
// question has "share".
std::vector<ShardableTensor> tensors_of(const Json& question) {
  std::vector<ShardableTensor> tensors;
  std::map<std::string, ShardTensor> known;
  std::map<std::int64_t, std::shared_ptr<const void>> trackables;
  for (const Json& json : *at(question, "tensors").as_array()) {
    SaveSpec spec{.source = tensors.size(),
                  .name = text(at(json, "name")),
                  .dtype = TensorType(text(at(json, "dtype")), number(at(json, "size"))),
                  .shape = numbers(at(json, "shape")),
                  .device = text(at(json, "device"))};
    ShardableTensor tensor{.tensor = ShardTensor(std::make_shared<const SaveSpec>(std::move(spec))),
                           .checkpoint_key = text(at(json, "key")),
                           .slice_spec = text(at(json, "spec"))};
    if (const Json& strings = at(json, "strings"); strings.as_array() != nullptr)
      tensor.string_bytes =
          StringBytes{.total = number(nth(strings, 0)), .longest = number(nth(strings, 1))};
    if (question.find("share") != nullptr) {
      const SaveSpec& made = tensor.tensor.spec();
      const std::string alike =
          to_text(JsonArray{made.name, made.dtype.name, made.device, list_json(made.shape)});
      tensor.tensor = known.try_emplace(alike, tensor.tensor).first->second;
    }
    if (const Json* id = json.find("trackable"); id != nullptr && !id->is_null()) {
      auto& trackable = trackables[id->as_int64().value()];
      if (trackable == nullptr) trackable = std::make_shared<int>();
      tensor.trackable = trackable;
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Json shards_json(const std::vector<Shard>& shards) {
  JsonArray out;
  for (const Shard& shard : shards) {
    JsonArray keys;
    for (const auto& [key, slices] : shard) {
      JsonArray list;
      for (const auto& [spec, tensor] : slices)
        list.push_back(
            JsonArray{spec, tensor.spec().source,
                      tensor.part() != nullptr ? list_json(tensor.part()->origin) : Json(),
                      list_json(tensor.shape())});
      keys.push_back(JsonArray{key, list});
    }
    out.push_back(keys);
  }
  return out;
}

std::vector<Shard> shards_of(const Json& json, const std::vector<ShardableTensor>& tensors) {
  std::vector<Shard> shards;
  for (const Json& shard : *json.as_array()) {
    Shard& out = shards.emplace_back();
    for (const Json& entry : *shard.as_array()) {
      for (const Json& slice : *nth(entry, 1).as_array()) {
        const ShardTensor& whole = tensors[number(nth(slice, 1))].tensor;
        ShardTensor& tensor = out[text(nth(entry, 0))][text(nth(slice, 0))];
        tensor = nth(slice, 2).as_array() == nullptr
                     ? whole
                     : whole.slice(numbers(nth(slice, 2)), numbers(nth(slice, 3)));
      }
    }
  }
  return shards;
}

Json max_size(const Json& question) {
  JsonArray warnings;
  const MaxShardSizePolicy policy(
      at(question, "max").as_int64().value(),
      {.like_tensorflow = *at(question, "like_tensorflow").as_bool(),
       .warn = [&](const std::string& message) { warnings.push_back(message); }});
  Json shards = shards_json(policy(tensors_of(question)));
  return JsonObject{{"shards", shards}, {"warnings", warnings}};
}

Json validate(const Json& question) {
  const std::vector<ShardableTensor> tensors = tensors_of(question);
  validate_shards(shards_of(at(question, "shards"), tensors),
                  std::span(tensors).first(number(at(question, "originals"))),
                  text(at(question, "description")));
  return JsonObject{};
}

Json spec(const Json& question) {
  const ShapeAndSlice parsed = parse_slice_spec(text(at(question, "text")));
  const Box box = slice_box(parsed);
  return JsonObject{{"shape", list_json(parsed.full_shape)},
                    {"origin", list_json(box.origin)},
                    {"extents", list_json(box.shape)},
                    {"text", slice_spec_text(parsed)}};
}

ShardingCallback::Value value_of(const Json& json) {
  if (const bool* value = json.as_bool()) return *value;
  if (const auto value = json.as_int64()) return *value;
  if (const std::string* value = json.as_string()) return *value;
  if (const auto value = json.as_double()) return *value;
  return {};
}

class AskedCallback : public ShardingCallback {
 public:
  explicit AskedCallback(const Json& question) : question_(&question) {}
  [[nodiscard]] std::string description() const override {
    return text(at(*question_, "description"));
  }
  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> /*tensors*/) const override {
    return {};
  }
  [[nodiscard]] std::vector<std::pair<std::string, Value>> kwargs() const override {
    std::vector<std::pair<std::string, Value>> out;
    for (const Json& entry : *at(*question_, "kwargs").as_array())
      out.emplace_back(text(nth(entry, 0)), value_of(nth(entry, 1)));
    return out;
  }

 private:
  const Json* question_;
};

Json compare(const Json& question) {
  const std::vector<ShardableTensor> tensors = tensors_of(question);
  JsonArray texts, equal, same_hash;
  for (const ShardableTensor& a : tensors) {
    texts.emplace_back(a.text());
    JsonArray equals, hashes;
    for (const ShardableTensor& b : tensors) {
      equals.emplace_back(a == b);
      hashes.emplace_back(a.hash() == b.hash());
    }
    equal.emplace_back(std::move(equals));
    same_hash.emplace_back(std::move(hashes));
  }
  return JsonObject{{"texts", texts}, {"equal", equal}, {"same_hash", same_hash}};
}

Json answer(const Json& question) {
  const std::string& ask = text(at(question, "ask"));
  if (ask == "max_size") return max_size(question);
  if (ask == "by_task")
    return JsonObject{
        {"shards", shards_json(make_shards(ShardByTaskPolicy(), tensors_of(question)))}};
  if (ask == "validate") return validate(question);
  if (ask == "compare") return compare(question);
  if (ask == "spec") return spec(question);
  if (ask == "hash") return JsonObject{{"hash", AskedCallback(question).hash()}};
  if (ask == "policies") {
    const MaxShardSizePolicy one(100), other(100);
    const ShardingCallback &a = one, &b = other;
    return JsonObject{{"by_task", ShardByTaskPolicy().description()},
                      {"max_size", one.description()},
                      {"equal", JsonArray{a == a, a == b}}};
  }
  if (ask == "task") {
    const auto task = device_task(text(at(question, "device")));
    return JsonObject{{"task", task ? Json(*task) : Json()}};
  }
  throw std::invalid_argument("asked what? " + ask);
}

}  // namespace
}  // namespace cairn

int main() { cairn::testing::answer_lines(cairn::answer); }
