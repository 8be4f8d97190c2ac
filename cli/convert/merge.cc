// merge.cc -- cairn merge: writes one checkpoint that is computed from several.
#include "arguments/convert_target.h"
#include "arguments/stores.h"
#include "commands.h"
#include "ranks.h"
#include "screen/terminal.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>

namespace cairn::cli {
namespace {

using Sources = std::vector<std::shared_ptr<const Checkpoint>>;

struct MergeArguments {
  Source source;  // its options count for all
  std::vector<std::string> paths;
  std::string base;
  std::string weights;
  std::string ema;
  std::string scale;
  std::optional<std::uint64_t> average_last;
  bool take_first = false;
  ConvertTargetArguments target;
};

double parse_number(const std::string& option, std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end)
    throw UsageError(fmt::format("{} '{}': expected a number", option, text));
  return number;
}

std::vector<double> parse_weights(const std::string& text) {
  std::vector<double> weights;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    weights.push_back(parse_number("--weights", std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return weights;
}

void check_paths(const MergeArguments& arguments) {
  for (const auto& path : arguments.paths)
    check_one_server(path, arguments.target.path, arguments.target.options.store);
  if (!arguments.average_last) return;
  if (arguments.paths.size() > 1)
    throw UsageError("--average-last: expected one directory of steps, not " +
                     std::to_string(arguments.paths.size()));
  if (*arguments.average_last < 2) throw UsageError("--average-last: expected at least 2 steps");
  if (arguments.source.options.step) throw UsageError("--average-last excludes --step");
}

std::shared_ptr<const Checkpoint> open_one(const MergeArguments& arguments,
                                           const std::string& path) {
  Source source = arguments.source;
  source.path = path;
  return open_source(source, MissingParts::kLeave);
}

Sources open_steps(const MergeArguments& arguments) {
  Source source = arguments.source;
  finish_options(source);
  Sources steps;
  do_together(job(), "cairn: open", [&] {
    try {
      steps = open_last_steps(arguments.paths.front(), *arguments.average_last, source.options);
      for (auto& step : steps)
        if (source.dequantize)
          step = dequantize(step, {.dtype = source.dequantized_type,
                                   .store = source.options.store,
                                   .resources = {.threads = source.options.resources.threads,
                                                 .memory = memory_shares(source).transforming}})
                     .checkpoint;
    } catch (const Error& e) {
      throw Failure(e.message());
    }
    return Bytes();
  });
  return steps;
}

Sources open_all(const MergeArguments& arguments) {
  if (arguments.average_last) return open_steps(arguments);
  Sources sources;
  for (const auto& path : arguments.paths) sources.push_back(open_one(arguments, path));
  return sources;
}

MergeOptions merge_options(const MergeArguments& arguments) {
  MergeOptions options;
  if (!arguments.weights.empty()) options.weights = parse_weights(arguments.weights);
  if (!arguments.ema.empty()) options.ema = parse_number("--ema", arguments.ema);
  if (!arguments.scale.empty()) options.scale = parse_number("--scale", arguments.scale);
  options.take_first = arguments.take_first;
  options.include = arguments.target.options.include;
  options.exclude = arguments.target.options.exclude;
  options.dtype = arguments.target.options.dtype;
  return options;
}

int run_merge(MergeArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  finish_convert_target(arguments.target, arguments.source);
  ConvertOptions& convert = arguments.target.options;
  check_paths(arguments);
  arguments.source.transforms = true;
  if (convert.dtype && dtype_kind(*convert.dtype) == DTypeKind::kFloat)
    arguments.source.dequantized_type = convert.dtype;
  MergeOptions options = merge_options(arguments);
  const MemoryShares memory = memory_shares(arguments.source);
  options.resources = {.threads = convert.resources.threads, .memory = memory.transforming};
  convert.resources.memory = memory.writing;
  Sources sources = open_all(arguments);
  if (!arguments.base.empty()) options.base = open_one(arguments, arguments.base);
  std::unique_ptr<Checkpoint> merged;
  do_together(job(), "cairn: merge", [&] {
    merged = merge_checkpoints(std::move(sources), options);
    return Bytes();
  });
  return convert_source(*merged, arguments.target, {.label = "merging", .start = start});
}

}  // namespace

void setup_merge(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<MergeArguments>();
  CLI::App* command = app.add_subcommand("merge", "Write the mean, or another sum, of checkpoints");
  check_path(command->add_option("CKPT", arguments->paths,
                                 "Checkpoints: directories or files of any format, or URLs"))
      ->required();
  add_reading_options(*command, arguments->source);
  add_dequantize(*command, arguments->source);
  check_path(command->add_option("-o,--output", arguments->target.path, kTargetHelp))
      ->type_name("DST")
      ->required();
  check_not_empty(command->add_option("--weights", arguments->weights,
                                      "Sum the checkpoints with these weights, one for each, as\n"
                                      "they are: they need not sum to 1 (default: the mean)"))
      ->type_name("W,W,...");
  check_not_empty(
      command->add_option("--ema", arguments->ema,
                          "Moving average e in the given order: e starts as the first, then e = "
                          "DECAY * e + (1 - DECAY) * x for each of the others"))
      ->type_name("DECAY");
  check_uint64(command->add_option("--average-last", arguments->average_last,
                                   "Merge the last N complete steps of CKPT, a directory of steps"))
      ->type_name("N");
  auto* base = check_path(
      command->add_option("--base", arguments->base,
                          "Task arithmetic: BASE + the sum of A * W * (x - BASE), with A of\n"
                          "--scale and W of --weights (default: 1)"));
  base->type_name("BASE");
  check_not_empty(command->add_option("--scale", arguments->scale, "A of --base (default: 1)"))
      ->type_name("A")
      ->needs(base);
  command->add_flag("--take-first", arguments->take_first,
                    "If leaves that are not floating-point differ, take those of the first "
                    "checkpoint, and list them");
  add_target_selection(*command, arguments->target);
  add_target_options(*command, arguments->target);
  command->footer(
      "Floating-point and complex leaves are computed in float64 and rounded once, to the type of\n"
      "the first checkpoint or to --dtype. Names, shapes and kinds of types must agree. Other\n"
      "leaves must be equal in all checkpoints: a difference is an error that names them.\n"
      "\n"
      "Streams: peak memory stays below --memory, whatever the size and the number of\n"
      "checkpoints. DST appears whole or not at all. It must not be one of the checkpoints. The\n"
      "options for reading apply to all checkpoints.\n"
      "\n"
      "Examples:\n"
      "  cairn merge a.safetensors b.safetensors c.safetensors -o soup.safetensors\n"
      "  cairn merge a.safetensors b.pt --weights 0.7,0.3 -o mix.safetensors\n"
      "  cairn merge --average-last 5 run -o mean --to orbax --take-first\n"
      "  cairn merge --average-last 5 run --ema 0.9 --include 'params.*' -o ema.safetensors\n"
      "  cairn merge math.safetensors code.safetensors --base base.safetensors --scale 0.5 -o "
      "both.pt");
  command->callback([arguments, &status] { status = run_merge(*arguments); });
}

}  // namespace cairn::cli
