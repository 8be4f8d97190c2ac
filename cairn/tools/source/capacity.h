// capacity.h -- checks whether a plan is feasible: a few bytes of metadata may describe an array of
// exabytes.
#pragma once

#include <cairn/checkpoint.h>

#include <cstdint>
#include <string>

namespace cairn::inline v0 {

// a + b and a * b, limited to the largest 64-bit number.
std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b);
std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b);

// Throws failed_precondition for a tensor that cannot be read in any reasonable time because hardly
// any of its elements are stored: the reader would have to fill in the others.
void check_dense(const TensorInfo& tensor);

// How many bytes of files the bytes of a plan become.
enum class Packing : std::uint8_t {
  kRaw,         // equally many
  kCompressed,  // fewer, perhaps a thousandth
};
// Throws failed_precondition, with both sizes, if the file system of `target` has too little space
// for `bytes`. Does nothing if the file system does not report its free space.
void check_space(const std::string& target, std::uint64_t bytes, Packing packing);

}  // namespace cairn::inline v0
