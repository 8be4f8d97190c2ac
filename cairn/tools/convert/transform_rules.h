// transform_rules.h -- the rules of `cairn convert --transform`: strict JSON in, a list of
// operations out. docs/transforms.md describes them.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

enum class RuleKind : std::uint8_t {
  kRename,
  kDrop,
  kKeep,
  kCast,
  kTranspose,
  kStack,
  kUnstack,
  kConcatenate,
  kSplit,
  kAddLowRank
};

struct TransformRule {
  RuleKind kind = RuleKind::kKeep;
  std::string where;  // "/rules/3": a JSON pointer to it, for messages
  // of the keys it is about; the value of the member named after the operation
  std::string pattern;
  // concatenate: the other arrays; add_low_rank: a and b
  std::vector<std::string> with;
  std::vector<std::string> to;  // the keys it makes; split has several
  // of stack, unstack, concatenate, split; negative: from the end
  std::int64_t axis = 0;
  std::optional<std::vector<std::int64_t>> axes;  // of transpose; none: reversed
  std::vector<std::int64_t> sizes;                // of split; empty: equal parts
  DType dtype = DType::kFloat32;                  // of cast
  double scale = 1;                               // of add_low_rank
};
struct TransformRules {
  bool keep_unmentioned = true;  // leaves that no rule names
  std::vector<TransformRule> rules;
};

// Throws invalid_argument that names the JSON pointer of what is wrong.
TransformRules parse_transform_rules(std::string_view json);

}  // namespace cairn
