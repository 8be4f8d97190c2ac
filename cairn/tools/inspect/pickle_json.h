// pickle_json.h -- a pickle as JSON, for people.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/formats/pytorch/pickle/pickle.h>

namespace cairn::inline v0 {

// The values of a pickle as JSON:
//
//   None, bool, int, float, str       as in JSON
//   [a, b]                            [a, b]
//   (a, b)                            {"$tuple": [a, b]}
//   {"k": v}                          {"k": v}; with other keys {"$dict": [[k, v], ...]}
//   a global                          {"$global": "torch.Size"}
//   a call, a new object              {"$call": ..., "args": [...]}, {"$new": ..., "args": [...]}
//                                     and "kwargs", "state", "items", "entries" if it has them
//   a persistent id                   {"$persistent": id}
//   bytes                             {"$bytes": count, "hex": the first 32}
//   a value that was printed before   {"$ref": number}; that has "$id": number, or "$value" in it
//
// In addition: the protocol, the bytes of the pickle, all its globals, and those that
// torch.load(weights_only=True) refuses: to unpickle them may run any code. A value that many share
// is printed once, so the text is not much longer than the pickle. What is deeper than 100 levels
// is printed in "deeper". Throws unimplemented if there are more than 1,000,000 values.
Json pickle_json(const pickle::Pickle& pickle);

}  // namespace cairn::inline v0
