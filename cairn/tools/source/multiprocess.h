// multiprocess.h -- the messages that the processes of a tool exchange.
#pragma once

#include <cairn/base/verify_part.h>
#include <cairn/base/work_partition.h>
#include <cairn/checkpoint.h>
#include <cairn/diff.h>
#include <cairn/distributed/process_group.h>
#include <cairn/tools/source/value_sums.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The share of this process.
inline WorkShare share_of(const distributed::ProcessGroup& group) {
  return {group.index(), group.count()};
}

Bytes encode_verify_part(const VerifyPart& part);
// Throws data_loss for bytes that encode_verify_part does not produce.
VerifyPart decode_verify_part(ByteView encoded);

// The result of one process for the values of a leaf.
struct ComparedLeaf {
  std::size_t leaf = 0;             // index in the report
  std::string error_a, error_b;     // why the values cannot be read; "" if they can
  std::optional<ValueDiff> values;  // without the measures, which follow from all sums
  ValueSums sums;
};
// The message of what a process compared. Decoding throws data_loss for malformed bytes.
Bytes encode_compared(const std::vector<ComparedLeaf>& leaves);
std::vector<ComparedLeaf> decode_compared(ByteView encoded);

}  // namespace cairn::inline v0
