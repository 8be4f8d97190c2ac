// tree_json.h -- trees as JSON and back, for tools that tests against the real packages drive.
// Every node is an object with one member that says what it is:
//
//   {"none": true}  {"empty": "Tuple"}  {"placeholder": true}  {"bool": true}  {"int": 1}
//                                                              {"float": "<hex of 8 bytes>"}
//   {"complex": "<hex of 16 bytes>"}  {"str": "s"}  {"bytes": "<hex>"}  {"numpy": {"dtype":
//                                                   "float32", "hex": "..."}}
//   {"array": {"dtype": "int8", "shape": [2], "hex": "0102"}}
//   {"array": {"element_size": 8, "shape": [1], "hex": "..."}}  of a type without a name
//   {"sharded": {"dtype", "shape", "hex", "sharding": "<as in _sharding>", "key": "threefry2x32"}}
//   {"sharded": {"dtype", "shape", "hex", "parts": [[device, origin, shape], ...]}}
//   {"abstract": {"dtype", "shape", "sharding": "..." | null}}
//   {"dict": [["key", node], ...]}  {"list": [node, ...]}  {"tuple": [node, ...]}
//   {"named": {"module": "m", "name": "State", "fields": [["mu", node], ...]}}
//   {"save_args": {...}}  {"restore_args": {...}}  {"array_restore_args": {...}}
//                                                  {"single_replica_restore_args": {...}}
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/tree.h>

namespace cairn::testing {

Tree tree_from_json(const Json& json);
Json tree_to_json(const Tree& tree);

}  // namespace cairn::testing
