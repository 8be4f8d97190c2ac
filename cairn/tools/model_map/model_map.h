// model_map.h -- a parsed file of two-sided rules; docs/guides/model-maps.md has the language.
#pragma once

#include <cairn/tools/model_map/expression.h>
#include <cairn/tools/model_map/name_template.h>
#include <cairn/tools/transform/rearrangement.h>
#include <cairn/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

enum class MapStepKind : std::uint8_t {
  kRearrange,
  kCheckShape,
  kAffine,
  kResize,
  kCast,
  kStack,
  kUnstack,
  kConcatenate,
  kSplit,
  kCopy,
  kSame
};

using NamedExpressions = std::vector<std::pair<std::string, Expression>>;

// One operation on the arrays of a rule.
struct MapStep {
  MapStepKind kind = MapStepKind::kCast;
  std::string where;  // "/rules/3/do/0": its JSON pointer, for messages
  std::string name;   // "stack", for messages
  std::optional<Expression> condition;
  Rearrangement rearrangement;  // of kRearrange and kCheckShape
  NamedExpressions extents;     // of parts of the rearrangement
  // kAffine: scale and offset; whether the function is to be inverted
  std::optional<Expression> scale, offset;
  bool inverse = false;
  // kResize: the sizes on the two sides
  std::optional<Expression> from, to, trim;
  std::optional<DType> to_type, back_type;  // kCast
  // kStack, kUnstack, kCopy, kSame: loop variables, with the axis of each; empty: over the list of
  // templates
  NamedExpressions axes;
  std::optional<Expression> axis;                // of a list, kConcatenate, kSplit, kResize
  std::optional<std::vector<Expression>> sizes;  // of kConcatenate and kSplit
};

enum class MapRuleKind : std::uint8_t { kConvert, kDrop, kFill, kSame };

// One rule.
struct MapRule {
  MapRuleKind kind = MapRuleKind::kConvert;
  std::string where;  // "/rules/3"
  // Names of the first and the second side; those of a one-sided rule stand on its side alone.
  std::array<std::vector<NameTemplate>, 2> names;
  std::vector<MapStep> steps;  // from the first side to the second
  std::optional<Expression> condition, optional;
  NamedExpressions counts;            // of loop variables
  std::optional<NameTemplate> equal;  // kSame: the leaf that it must equal
  std::optional<Expression> fill;     // kFill
  std::vector<Expression> extents;    // kFill
  DType dtype = DType::kFloat32;      // kFill
};

// Something that only the user knows.
struct MapOption {
  std::string name;
  JsonArray values;  // those that are allowed; empty: any
  Expression default_value;
  std::string help;
};

enum class Unmentioned : std::uint8_t { kError, kKeep, kDrop };

struct ModelMap {
  std::string title;
  std::vector<std::string> sources, tested;  // texts for people
  std::array<std::string, 2> sides;
  std::vector<MapOption> options;
  NamedExpressions let;
  NamedExpressions counts;  // of loop variables
  // By side: true if names are split at their last '/' alone, so that the key of the outer dict has
  // slashes; 'whole' if each name is one key.
  NamedExpressions flat;
  Unmentioned unmentioned = Unmentioned::kError;
  std::vector<MapRule> rules;
};

// Whether a file of rules has two sides, its own or those of another map.
bool is_model_map(const Json& document);
// Parses a document of parse_rules_document(). Throws invalid_argument with the JSON pointer of the
// error.
ModelMap parse_model_map(const Json& document);

// The step that undoes another one. Throws invalid_argument, naming its rule, if there is none.
MapStep inverted(const MapStep& step);

}  // namespace cairn::inline v0
