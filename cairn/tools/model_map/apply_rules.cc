// apply_rules.cc -- applies files of rules, with one side or two, and model maps.
#include <cairn/convert.h>

#include <cairn/base/errors.h>
#include <cairn/io/file.h>
#include <cairn/tools/hugging_face/config_file.h>
#include <cairn/tools/model_map/find_map.h>
#include <cairn/tools/model_map/map_leaves.h>
#include <cairn/tools/transform/rules_json.h>
#include <cairn/tools/transform/transform_rules.h>
#include <cairn/tools/transform/transformed_checkpoint.h>

#include <fmt/format.h>

namespace cairn::inline v0 {
namespace {

Json config_in(const std::optional<ConfigFile>& file) {
  if (!file) return {};
  return with_context([&] { return file->path; },
                      [&] {
                        Json config = parse_json(file->text);
                        if (config.as_object() == nullptr) data_loss("it is not a JSON object");
                        return config;
                      });
}

// The side whose names the source has.
std::size_t detected_side(const MapInput& input) {
  const auto [first, second] = leaves_of_sides(input);
  if (first == 0 && second == 0)
    invalid_argument(fmt::format("no leaf of the checkpoint has a name of side '{}' or '{}'",
                                 input.map.sides[0], input.map.sides[1]));
  if (first == second)
    invalid_argument(
        fmt::format("the checkpoint has as many names of side '{}' as of '{}'; say "
                    "which with reverse",
                    input.map.sides[0], input.map.sides[1]));
  return first > second ? 0 : 1;
}

Transformed apply_map(std::shared_ptr<const Checkpoint> source, const ModelMap& map,
                      std::string_view text, bool detects, const TransformOptions& options) {
  const std::optional<ConfigFile> file =
      options.config.empty() ? find_config_file(source->info().path, options.store)
                             : std::optional(read_config_file(options.config, options.store));
  const SourceLeaves leaves(*source);
  const MapInput input{*source, leaves, map, config_in(file), options.values};
  const std::size_t from = options.reverse ? (*options.reverse ? 1 : 0)
                           : detects       ? detected_side(input)
                                           : 0;
  RuleResult result = map_leaves(input, from);
  result.two_sided = true;
  result.values.insert(result.values.begin(), {"config", file ? to_text(Json(file->path)) : "null",
                                               options.config.empty() ? "default" : "given"});
  result.identity = map.sides[from] + "\n";
  result.identity += text;
  for (const TransformValue& value : result.values)
    result.identity += fmt::format("\n{} = {}", value.name, value.text);
  Transformed out = transformed_checkpoint(std::move(source), std::move(result), options);
  out.report.from_side = map.sides[from];
  out.report.to_side = map.sides[1 - from];
  return out;
}

// Rules with one side have no way back, and no values.
void check_one_sided(const TransformRules& rules, const TransformOptions& options) {
  if (options.reverse.value_or(false))
    invalid_argument(
        fmt::format("{}: a rule with a regular expression cannot be inverted; rules "
                    "with 'sides' can (docs/guides/model-maps.md)",
                    rules.rules[0].where));
  if (!options.values.empty() || !options.config.empty())
    invalid_argument("only rules with 'sides' take values and a config.json");
}

}  // namespace

Transformed transform_checkpoint(std::shared_ptr<const Checkpoint> source, std::string_view rules,
                                 const TransformOptions& options) {
  if (const Json document = parse_rules_document(rules); is_model_map(document))
    return apply_map(std::move(source), parse_map(document), rules, false, options);
  const TransformRules parsed = parse_transform_rules(rules);
  check_one_sided(parsed, options);
  RuleResult result{.leaves = transform_leaves(*source, parsed), .identity = std::string(rules)};
  return transformed_checkpoint(std::move(source), std::move(result), options);
}

Transformed transform_checkpoint_by_file(std::shared_ptr<const Checkpoint> source,
                                         const std::string& rules_path,
                                         const TransformOptions& options) {
  const std::string rules = read_rules_file(rules_path);
  return with_context([&] { return rules_path; },
                      [&] { return transform_checkpoint(std::move(source), rules, options); });
}

Transformed apply_model_map(std::shared_ptr<const Checkpoint> source, const std::string& map,
                            const TransformOptions& options) {
  const std::string text = map_text(map);
  return with_context([&] { return map; },
                      [&] {
                        return apply_map(std::move(source), parse_map(parse_rules_document(text)),
                                         text, true, options);
                      });
}

}  // namespace cairn::inline v0
