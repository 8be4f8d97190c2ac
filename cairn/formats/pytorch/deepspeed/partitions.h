// partitions.h -- which elements of a parameter are in the parts of which ranks.
//
//   ZeRO 1 and 2   The parameters of a group lie one behind the other, perhaps with padding between
//                  them. This vector is cut into one part a rank.
//   ZeRO 3         Each parameter is cut into N parts of ceil(elements / N); the last ones are
//                  padded. A rank has its parts of all parameters one behind the other, in one
//                  vector or in several.
//
// Source of the rules: how zero_to_fp32 of deepspeed 0.19.8 puts parameters together.
#pragma once

#include <cairn/formats/pytorch/deepspeed/saved_states.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {

// A run of elements of a parameter, in C order.
struct Fragment {
  std::uint32_t rank = 0;
  std::uint32_t group = 0;  // of the rank's vectors
  std::uint64_t from = 0;   // its first element in that vector
  std::uint64_t begin = 0;  // its first element in the parameter
  std::uint64_t count = 0;
  bool operator==(const Fragment&) const = default;
};

struct Partitioned {
  const Parameter* parameter = nullptr;
  std::size_t group = 0;            // the vector that has the first of its elements
  std::vector<Fragment> fragments;  // in order; together all elements
};

// The lengths of the vectors in elements: by rank, then by group.
using Lengths = std::vector<std::vector<std::uint64_t>>;

// Finds the elements of all parameters. The result points into `groups`. Throws data_loss if the
// lengths are not those of the parameters.
std::vector<Partitioned> partition_groups(const std::vector<std::vector<Parameter>>& groups,
                                          const std::vector<std::vector<std::uint64_t>>& paddings,
                                          const Lengths& lengths);  // ZeRO 1 and 2
std::vector<Partitioned> partition_parameters(const std::vector<std::vector<Parameter>>& groups,
                                              const Lengths& lengths);  // ZeRO 3

// The number of elements of a shape. Throws data_loss if no memory has that many.
std::uint64_t elements_in(const Shape& shape);

}  // namespace cairn::inline v0::pytorch::deepspeed
