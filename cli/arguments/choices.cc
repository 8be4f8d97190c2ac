// choices.cc -- the values that an option accepts.
#include "arguments/choices.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::cli {
namespace {

using Choices = std::vector<std::string>;

std::map<const CLI::Option*, Choices>& checked() {
  static std::map<const CLI::Option*, Choices> choices;
  return choices;
}

std::string listed(const Choices& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " or ";
    text += words[i];
  }
  return text;
}

// The words of options that are parsed by the library or by a function of their own.
Choices choices_of(const std::string& command, const std::string& option) {
  if (option == "to" && command == "reshard") return {"orbax", "orbax-zarr3", "orbax-files", "dcp"};
  if (option == "to")
    return {"safetensors", "npz",   "msgpack",     "torch",      "dcp",
            "tensorflow",  "orbax", "orbax-zarr3", "orbax-files"};
  if (option == "compression") return {"auto", "reproducible", "smallest", "none", "zstd", "blosc"};
  if (option == "dialect") return {"flax", "orbax"};
  if (option == "dtype")
    return {"bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"};
  return {};
}

ValueKind kind_of(const std::string& name) {
  static const std::map<std::string, ValueKind, std::less<>> kKinds = {
      {"step", ValueKind::kSteps},     {"item", ValueKind::kItems},
      {"step-b", ValueKind::kSteps},   {"item-b", ValueKind::kItems},
      {"include", ValueKind::kLeaves}, {"exclude", ValueKind::kLeaves},
      {"NAME", ValueKind::kLeaves},    {"GLOB", ValueKind::kLeaves},
      {"output", ValueKind::kFile},    {"transform", ValueKind::kFile},
      {"node", ValueKind::kFile},      {"CKPT", ValueKind::kFile},
      {"ca-file", ValueKind::kFile},   {"A", ValueKind::kFile},
      {"B", ValueKind::kFile},         {"DST", ValueKind::kFile},
      {"OUT", ValueKind::kFile},       {"DIR", ValueKind::kFile},
      {"FILE", ValueKind::kFile},      {"base", ValueKind::kFile},
      {"PATH", ValueKind::kFile},
  };
  const auto at = kKinds.find(name);
  return at == kKinds.end() ? ValueKind::kNothing : at->second;
}

}  // namespace

CLI::Option* check_choice(CLI::Option* option, const Choices& choices) {
  checked()[option] = choices;
  return option->check(CLI::Validator(
      [choices](std::string& text) -> std::string {
        if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
        return "'" + text + "': expected " + listed(choices);
      },
      ""));  // the default validator would add its name to the type that --help shows
}

Values values_of(const std::string& command, const CLI::Option& option) {
  if (const auto at = checked().find(&option); at != checked().end())
    return {ValueKind::kWords, at->second};
  const std::string name = option.nonpositional() && !option.get_lnames().empty()
                               ? option.get_lnames().front()
                               : option.get_name();
  if (auto words = choices_of(command, name); !words.empty())
    return {ValueKind::kWords, std::move(words)};
  return {kind_of(name), {}};
}

}  // namespace cairn::cli
