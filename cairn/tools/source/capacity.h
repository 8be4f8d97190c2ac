// capacity.h -- whether what is planned can be done at all: a few bytes of metadata may describe an
// array of exabytes.
#pragma once

#include <cairn/checkpoint.h>

#include <cstdint>
#include <string>

namespace cairn {

// a + b and a * b, or the greatest number there is.
std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b);
std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b);

// Throws failed_precondition for a tensor whose elements can not all be read in any reasonable
// time, because hardly any of them are stored: the others would be made up one by one.
void check_dense(const TensorInfo& tensor);

// How the bytes of a plan become bytes of files.
enum class Packing : std::uint8_t {
  kRaw,         // as many
  kCompressed,  // fewer, perhaps a thousandth
};
// Throws failed_precondition, with both sizes, if the file system that `target` will be on has no
// room for so many bytes. Nothing where the file system does not say how much room it has.
void check_space(const std::string& target, std::uint64_t bytes, Packing packing);

}  // namespace cairn
