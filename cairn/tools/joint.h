// joint.h -- what processes tell each other when they do the work of a tool together.
#pragma once

#include <cairn/distributed/team.h>
#include <cairn/reader.h>
#include <cairn/tools.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// A step: takes `prepare`, which gives a number for what this process means to do. Throws failed_precondition, naming the process, if
// not all give the same one.
void agree(const distributed::Team& team, std::string_view step, const std::function<std::uint64_t()>& prepare);
// The second half of it, for a step that has gathered the numbers.
void check_agreed(std::span<const std::uint64_t> numbers);
// Such a number for what has been opened: which step, in which version, what its leaves are, without their values.
std::uint64_t checkpoint_hash(const Checkpoint& checkpoint);

inline WorkShare share_of(const distributed::Team& team) { return {team.index(), team.count()}; }

Bytes encode_verify_part(const VerifyPart& part);
// Throws data_loss for what that does not make.
VerifyPart decode_verify_part(ByteView encoded);

// What one process has found of the values of a leaf.
struct ComparedLeaf {
  std::size_t leaf = 0;          // of the report
  std::string error_a, error_b;  // why they cannot be read; "" if they can
  std::optional<ValueDiff> values;
};
Bytes encode_compared(const std::vector<ComparedLeaf>& leaves);
std::vector<ComparedLeaf> decode_compared(ByteView encoded);

}  // namespace cairn
