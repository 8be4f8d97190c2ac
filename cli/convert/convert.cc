// convert.cc -- cairn convert: writes a checkpoint in another format.
#include "arguments/convert_target.h"
#include "arguments/stores.h"
#include "commands.h"
#include "ranks.h"
#include "screen/text.h"
#include "source.h"

#include <chrono>

namespace cairn::cli {
namespace {

struct ConvertArguments {
  Source source;
  ConvertTargetArguments target;
  std::vector<std::string> rename;
  std::string transform;
};

void finish_arguments(ConvertArguments& arguments) {
  for (const auto& text : arguments.rename)
    arguments.target.options.rename.push_back(parse_pair("--rename", text, "REGEX=TEXT"));
  finish_convert_target(arguments.target, arguments.source);
  check_one_server(arguments.source.path, arguments.target.path, arguments.target.options.store);
}

// What rules do: for --dry-run.
std::string rules_text(const TransformReport& report) {
  std::string text;
  for (const auto& [key, from] : report.made)
    text += "make     " + printable_text(key) + " = " + printable_text(from) + "\n";
  for (const auto& name : report.unused) text += "not read " + printable_text(name) + "\n";
  return text + "read     " + bytes_text(report.read_bytes) + "\n";
}

int run_convert(ConvertArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  finish_arguments(arguments);
  ConvertOptions& options = arguments.target.options;
  const bool transformed = !arguments.transform.empty();
  arguments.source.transforms = transformed;
  if (options.dtype && dtype_kind(*options.dtype) == DTypeKind::kFloat)
    arguments.source.dequantized_type = options.dtype;
  Transformed source{open_source(arguments.source, MissingParts::kLeave), {}};
  const MemoryShares memory = memory_shares(arguments.source);
  options.resources.memory = memory.writing;
  if (transformed) {
    do_together(job(), "cairn: transform", [&] {
      source = transform_checkpoint_by_file(
          std::move(source.checkpoint), arguments.transform,
          {.threads = options.resources.threads, .memory = memory.transforming});
      return Bytes();
    });
  }
  return convert_source(*source.checkpoint, arguments.target,
                        {.label = "converting",
                         .start = start,
                         .plan = transformed ? rules_text(source.report) : ""});
}

}  // namespace

void setup_convert(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command = app.add_subcommand("convert", "Write the checkpoint in another format");
  add_source(*command, arguments->source);
  add_dequantize(*command, arguments->source);
  check_path(command->add_option("DST", arguments->target.path, kTargetHelp))->required();
  add_target_selection(*command, arguments->target);
  command
      ->add_option("--rename", arguments->rename,
                   "Replace what REGEX (as Python's re) matches in names;\n\\1 is its first group; "
                   "may be repeated")
      ->type_name("REGEX=TEXT")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--nest", arguments->target.options.nest,
          "Split names at SEPARATOR into nested dicts: with '.', a.b\nbecomes b in the dict "
          "a (Orbax, msgpack, PyTorch)")
      ->type_name("SEPARATOR");
  auto* rules = command->add_option("--transform", arguments->transform,
                                    "JSON rules that rename, drop, cast, transpose, stack, split, "
                                    "...\nleaves (docs/transforms.md)");
  check_path(check_local(*command, rules, "reads rules from a local file"))
      ->type_name("RULES.json");
  add_target_options(*command, arguments->target);
  command->footer(
      "Streams: peak memory stays below --memory, whatever the size. The target appears whole\n"
      "or not at all. Strings, empty nodes and types that the format lacks are an error that\n"
      "names them. Cairn never drops them silently.\n"
      "\n"
      "An Orbax checkpoint of several items keeps them in an Orbax checkpoint; JSON items are\n"
      "copied. In other formats, names begin with the item's name, and standard error names the\n"
      "items that are left out. --item chooses one item.\n"
      "\n"
      "Under an MPI launcher (mpirun -n 8 cairn convert ...) the processes share the bytes, for\n"
      "every format. Each process uses --memory.\n"
      "\n"
      "Examples:\n"
      "  cairn convert ckpt model.safetensors --include 'params.*' --rename '^params\\.='\n"
      "  cairn convert ckpt model.safetensors --dtype bfloat16 --shard-bytes 5GB "
      "--skip-unsupported\n"
      "  cairn convert ckpt arrays.npz --exclude 'opt_state.*'\n"
      "  cairn convert ckpt merged --to orbax --transform rules.json --dry-run\n"
      "  cairn convert ckpt model.msgpack --item params\n"
      "  cairn convert ckpt tf/model-1 --to tensorflow --shard-bytes 2GB --skip-unsupported\n"
      "  cairn convert model.safetensors checkpoints/0 --to orbax --as-item default --nest .\n"
      "  cairn convert ckpt model.safetensors --metadata format=pt\n"
      "  cairn convert DeepSeek-V3 dense --to orbax --dequantize --dry-run\n"
      "  cairn convert model.safetensors model.pt\n"
      "  cairn convert model.safetensors model-dcp --to dcp");
  command->callback([arguments, &status] { status = run_convert(*arguments); });
}

}  // namespace cairn::cli
