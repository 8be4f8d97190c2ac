// plain_list.h -- a list of very many numbers or texts, as one leaf: a leaf for each of them would
// take a thousand times the memory of the pickle.
#pragma once

#include <cairn/bytes.h>
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/types.h>

#include <optional>
#include <span>

namespace cairn::inline v0::pytorch {

struct PlainList {
  std::optional<DType> dtype;  // kInt64, kFloat64 or kBool; nullopt: texts
  Bytes bytes;                 // the elements, or strings_message() of the texts
};

// Returns nullopt unless all values are int of 64 bits, all float, all bool, or all str that are
// UTF-8.
std::optional<PlainList> plain_list(const pickle::Pickle& p, std::span<const pickle::Value> items);

}  // namespace cairn::inline v0::pytorch
