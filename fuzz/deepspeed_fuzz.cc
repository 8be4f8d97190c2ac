// deepspeed_fuzz.cc -- parses any bytes as the pickles of a DeepSpeed checkpoint, and divides the
// parameters that they name among ranks.
#include <cairn/error.h>
#include <cairn/formats/pytorch/deepspeed/partitions.h>
#include <cairn/formats/pytorch/deepspeed/saved_states.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

namespace deepspeed = cairn::pytorch::deepspeed;
using Groups = std::vector<std::vector<deepspeed::Parameter>>;

// Each element is in one fragment, and each fragment in its vector.
void check(const std::vector<deepspeed::Partitioned>& found, const deepspeed::Lengths& lengths) {
  for (const auto& partitioned : found) {
    std::uint64_t at = 0;
    for (const deepspeed::Fragment& fragment : partitioned.fragments) {
      if (fragment.begin != at || fragment.count == 0) std::abort();
      const std::uint64_t length = lengths.at(fragment.rank).at(fragment.group);
      if (fragment.from > length || fragment.count > length - fragment.from) std::abort();
      at += fragment.count;
    }
    if (at != deepspeed::elements_in(partitioned.parameter->shape)) std::abort();
  }
}

// Vectors of about the right lengths.
void partition(const Groups& groups, std::size_t ranks, std::uint64_t more) {
  deepspeed::Lengths of_groups(ranks), divided(ranks, std::vector<std::uint64_t>(1));
  for (const auto& group : groups) {
    std::uint64_t elements = 0;
    for (const deepspeed::Parameter& parameter : group) {
      const std::uint64_t count = deepspeed::elements_in(parameter.shape);
      elements = std::min(elements, std::uint64_t{1} << 40U) + count;
      for (auto& of_rank : divided) of_rank[0] += (count + ranks - 1) / ranks;
    }
    for (auto& of_rank : of_groups) of_rank.push_back((elements + more + ranks - 1) / ranks);
  }
  try {
    check(deepspeed::partition_groups(groups, {}, of_groups), of_groups);
  } catch (const cairn::Error&) {  // the lengths do not fit
  }
  check(deepspeed::partition_parameters(groups, divided), divided);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* first = reinterpret_cast<const std::byte*>(data);
  try {
    const auto pickle = cairn::pickle::parse_pickle(cairn::Bytes(first, first + size));
    try {
      (void)deepspeed::parse_optim_states(pickle);
    } catch (const cairn::Error&) {  // a file of model states
    }
    const deepspeed::ModelStates states = deepspeed::parse_model_states(pickle);
    if (states.has_shapes) partition(states.groups, size % 4 + 1, size % 3);
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
