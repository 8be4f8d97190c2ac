// transform_rules.h -- parses the rules of `cairn convert --transform`: strict JSON to a list of
// operations. docs/guides/transforms.md describes them.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

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

// One operation.
struct TransformRule {
  RuleKind kind = RuleKind::kKeep;
  std::string where;  // "/rules/3": its JSON pointer, for messages
  // matches the keys it applies to; the value of the member named after the operation
  std::string pattern;
  // concatenate: the other arrays; add_low_rank: a and b
  std::vector<std::string> with;
  std::vector<std::string> to;  // the keys it creates; split has several
  // of stack, unstack, concatenate, split; negative numbers count from the end
  std::int64_t axis = 0;
  std::optional<std::vector<std::int64_t>> axes;  // of transpose; nullopt: reversed
  std::vector<std::int64_t> sizes;                // of split; empty: equal parts
  DType dtype = DType::kFloat32;                  // of cast
  double scale = 1;                               // of add_low_rank
};
// A parsed file of rules.
struct TransformRules {
  bool keep_unmentioned = true;  // whether leaves that no rule names stay
  std::vector<TransformRule> rules;
};

// Parses the rules. Throws invalid_argument with the JSON pointer of the error.
TransformRules parse_transform_rules(std::string_view json);

}  // namespace cairn::inline v0
