// sharding_tool.cc -- answers questions about shardings, so that the tests can ask JAX and Orbax
// the same. One question a line, a JSON object; one answer a line:
//      {"ask": "boxes", "sharding": TEXT, "shape": [...], "devices": [[ID, NAME], ...]}
//          -> {"boxes": [[DEVICE, ORIGIN, SHAPE, REPLICA], ...], "shard_shape": [...], "replicas":
//          N, "replicated": BOOL, "text": TEXT}
//             of the sharding that these devices make usable; "text" is how that one is stored
//      {"ask": "store", "sharding": TEXT}                    -> {"text": TEXT}, read and written
//                                                            again
//      {"ask": "keys", "sharding": TEXT, "key_rank": N}      -> {"text": TEXT}, the sharding of the
//                                                            key data
//      {"ask": "plan", "sharding": TEXT, "shape": [...], "dtype": NAME, "local": [DEVICE, ...],
//      "replica_id": N or null,
//       "parallel": BOOL, "min_bytes": N, "max_replicas": N or null}
//          -> {"write_shape": [...], "pieces": [[DEVICE, ORIGIN, SHAPE], ...]}
// or {"error": MESSAGE}.
#include <cairn/base/json/json.h>
#include <cairn/orbax/sharding.h>

#include <algorithm>
#include <string>

#include "tests/interop/tools/answer_jobs.h"

namespace cairn {
namespace {

Json list_json(const std::vector<std::int64_t>& numbers) {
  return JsonArray(numbers.begin(), numbers.end());
}

std::vector<std::int64_t> numbers(const Json& json) {
  std::vector<std::int64_t> out;
  for (const Json& entry : *json.as_array()) out.push_back(entry.as_int64().value());
  return out;
}

Sharding sharding_of(const Json& question) {
  return parse_sharding(*question.find("sharding")->as_string());
}

Json text_json(const Sharding& sharding) { return sharding_json(sharding).value(); }

Json boxes(const Json& question) {
  std::vector<Device> devices;
  for (const Json& entry : *question.find("devices")->as_array())
    devices.push_back(
        {(*entry.as_array())[0].as_int64().value(), *(*entry.as_array())[1].as_string()});
  const Sharding sharding = usable_sharding(sharding_of(question), devices).value();
  const Shape shape = numbers(*question.find("shape"));
  JsonArray list;
  for (const DeviceBox& held : device_boxes(sharding, shape))
    list.push_back(JsonArray{held.device_id, list_json(held.box.origin), list_json(held.box.shape),
                             held.replica});
  return JsonObject{{"boxes", list},
                    {"shard_shape", list_json(shard_shape(sharding, shape))},
                    {"replicas", replica_count(sharding, shape)},
                    {"replicated", is_fully_replicated(sharding, shape)},
                    {"text", text_json(sharding)}};
}

Json plan(const Json& question) {
  ShardedArray array{.shape = numbers(*question.find("shape")),
                     .dtype = dtype_from_name(*question.find("dtype")->as_string()).value(),
                     .sharding = sharding_of(question)};
  const std::vector<DeviceBox> held = device_boxes(array.sharding, array.shape);
  for (const std::int64_t device : numbers(*question.find("local"))) {
    const auto box = std::find_if(held.begin(), held.end(),
                                  [&](const DeviceBox& b) { return b.device_id == device; });
    ArrayShard& shard = array.shards.emplace_back();
    shard.device_id = device;
    shard.box = box->box;
    shard.replica = box->replica;
  }
  const WritePlan made =
      plan_pieces(array, {.replica_id = question.find("replica_id")->as_int64(),
                          .use_replica_parallel = *question.find("parallel")->as_bool(),
                          .min_slice_bytes = question.find("min_bytes")->as_int64().value(),
                          .max_replicas = question.find("max_replicas")->as_int64()});
  JsonArray pieces;
  for (std::size_t i = 0; i < made.pieces.size(); ++i)
    if (const auto& piece = made.pieces[i])
      pieces.push_back(
          JsonArray{array.shards[i].device_id, list_json(piece->origin), list_json(piece->shape)});
  return JsonObject{{"write_shape", list_json(made.write_shape)}, {"pieces", pieces}};
}

Json answer(const Json& question) {
  const std::string& ask = *question.find("ask")->as_string();
  if (ask == "boxes") return boxes(question);
  if (ask == "plan") return plan(question);
  if (ask == "store") return JsonObject{{"text", text_json(sharding_of(question))}};
  if (ask == "keys")
    return JsonObject{
        {"text", text_json(key_data_sharding(
                     sharding_of(question),
                     static_cast<std::size_t>(question.find("key_rank")->as_uint64().value())))}};
  throw std::invalid_argument("asked what? " + ask);
}

}  // namespace
}  // namespace cairn

int main() { cairn::testing::answer_lines(cairn::answer); }
