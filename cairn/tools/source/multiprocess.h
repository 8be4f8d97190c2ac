// multiprocess.h -- what processes tell each other when they do the work of a tool together.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/diff.h>
#include <cairn/distributed/process_group.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

inline WorkShare share_of(const distributed::ProcessGroup& group) {
  return {group.index(), group.count()};
}

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
