// convert.cc -- cairn convert: writes a checkpoint in another format.
#include "arguments/convert_target.h"
#include "arguments/stores.h"
#include "commands.h"
#include "ranks.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <chrono>
#include <memory>

namespace cairn::cli {
namespace {

struct ConvertArguments {
  Source source;
  ConvertTargetArguments target;
  std::vector<std::string> rename;
  std::string transform, model, config, assets;
  bool reverse = false;
  std::vector<std::string> values;
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

TransformOptions transform_options(const ConvertArguments& arguments, std::uint64_t memory) {
  TransformOptions options;
  if (arguments.reverse) options.reverse = true;
  for (const auto& text : arguments.values)
    options.values.push_back(parse_pair("--set", text, "NAME=VALUE"));
  options.config = arguments.config;
  // The folder of assets has the configuration, too.
  if (options.config.empty() && !arguments.assets.empty())
    options.config = arguments.assets + "/config.json";
  options.store = arguments.source.options.store;
  options.resources = {.threads = arguments.target.options.resources.threads, .memory = memory};
  options.scratch = scratch_folder(arguments.target.path);
  return options;
}

Transformed transform(std::unique_ptr<Checkpoint> source, const ConvertArguments& arguments,
                      std::uint64_t memory) {
  const TransformOptions options = transform_options(arguments, memory);
  if (!arguments.model.empty()) return apply_model_map(std::move(source), arguments.model, options);
  return transform_checkpoint_by_file(std::move(source), arguments.transform, options);
}

// Where the rules' result goes. In a job, all processes make the folder, or none goes on.
std::unique_ptr<ModelFolder> model_folder(ConvertArguments& arguments,
                                          const TransformReport& report) {
  std::unique_ptr<ModelFolder> folder;
  do_together(job(), "cairn: model folder", [&] {
    folder =
        std::make_unique<ModelFolder>(report, arguments.target.path,
                                      ModelFolderOptions{.assets = arguments.assets,
                                                         .plain = arguments.source.dequantize,
                                                         .store = arguments.source.options.store},
                                      arguments.target.options);
    return Bytes();
  });
  if (folder->is_folder() && arguments.assets.empty())
    warn("no config.json is written; --hf-assets DIR copies it from DIR, with the tokenizer");
  arguments.target.path = folder->target();
  return folder;
}

int run_convert(ConvertArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  finish_arguments(arguments);
  ConvertOptions& options = arguments.target.options;
  const bool transformed = !arguments.transform.empty() || !arguments.model.empty();
  if (!transformed && (arguments.reverse || !arguments.values.empty() || !arguments.config.empty()))
    throw UsageError("--reverse, --set and --config need --model or --transform");
  arguments.source.transforms = transformed;
  if (options.dtype && dtype_kind(*options.dtype) == DTypeKind::kFloat)
    arguments.source.dequantized_type = options.dtype;
  Transformed source{open_source(arguments.source, MissingParts::kLeave), {}};
  const MemoryShares memory = memory_shares(arguments.source);
  options.resources.memory = memory.writing;
  std::unique_ptr<ModelFolder> folder;
  if (transformed) {
    do_together(job(), "cairn: transform", [&] {
      source = transform(std::move(source.checkpoint), arguments, memory.transforming);
      return Bytes();
    });
  }
  if (transformed || !arguments.assets.empty()) folder = model_folder(arguments, source.report);
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
                                    "...\nleaves (docs/guides/transforms.md)");
  check_path(check_local(*command, rules, "reads rules from a local file"))
      ->type_name("RULES.json");
  auto* model = command->add_option(
      "--model", arguments->model,
      "Map the names and shapes of a model, such as llama, between MaxText and Hugging Face; "
      "'cairn models' lists the maps. FILE: your own two-sided rules (docs/guides/model-maps.md)");
  check_path(model)->type_name("NAME|FILE")->excludes(rules);
  command->add_flag("--reverse", arguments->reverse,
                    "Apply two-sided rules from the second side to the first");
  command
      ->add_option("--set", arguments->values, "Set an option or value of the map; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  check_path(command->add_option("--config", arguments->config,
                                 "The model's config.json (default: the one beside CKPT, or\n"
                                 "in the folder of --hf-assets)"))
      ->type_name("FILE");
  check_path(command->add_option("--hf-assets", arguments->assets,
                                 "Copy config.json, tokenizer and chat template from this\n"
                                 "folder of a model: DST is a folder for from_pretrained"))
      ->type_name("DIR");
  add_target_options(*command, arguments->target);
  command->footer(
      "Streams: peak memory stays below --memory, whatever the size. The target appears whole\n"
      "or not at all. If the format lacks strings, empty nodes or a type of the checkpoint, the\n"
      "error names the leaves. Cairn never drops them silently.\n"
      "\n"
      "An Orbax checkpoint of several items keeps them in an Orbax checkpoint; JSON items are\n"
      "copied. In other formats, names begin with the item's name. Standard error lists the\n"
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
      "  cairn convert run/items Llama-3-8B --model llama --hf-assets hf/Llama-3-8B\n"
      "  cairn convert Llama-3-8B items --to orbax --model llama\n"
      "  cairn convert model.safetensors model.pt\n"
      "  cairn convert model.safetensors model-dcp --to dcp");
  command->callback([arguments, &status] { status = run_convert(*arguments); });
}

}  // namespace cairn::cli
