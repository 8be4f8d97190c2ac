// convert.cc -- cairn convert: writes a checkpoint in another format.
#include <cairn/msgpack.h>
#include "arguments/orbax_target.h"
#include "arguments/stores.h"
#include "commands.h"
#include "ranks.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace cairn::cli {
namespace {

struct ConvertArguments {
  Source source;
  std::string target;
  std::vector<std::string> rename;
  std::vector<std::string> metadata;
  std::string format;
  std::string dtype;
  std::string shard_bytes;
  OrbaxTargetArguments orbax;
  std::string transform;
  std::string dialect;
  bool json = false;
  ConvertOptions options;
};

// Parses LEFT=RIGHT, split at the first '='. `form` says in words what was expected.
std::pair<std::string, std::string> parse_pair(const std::string& option, const std::string& text,
                                               const std::string& form) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos) throw UsageError(option + " '" + text + "': expected " + form);
  return {text.substr(0, at), text.substr(at + 1)};
}

MsgpackDialect parse_dialect(const std::string& text) {
  if (text == "flax") return MsgpackDialect::kFlaxState;
  if (text == "orbax") return MsgpackDialect::kOrbax;
  throw UsageError("--dialect '" + text + "': expected flax or orbax");
}

void finish_arguments(ConvertArguments& arguments) {
  ConvertOptions& options = arguments.options;
  for (const auto& text : arguments.rename)
    options.rename.push_back(parse_pair("--rename", text, "REGEX=TEXT"));
  for (const auto& text : arguments.metadata)
    options.safetensors.metadata.push_back(parse_pair("--metadata", text, "KEY=VALUE"));
  if (!arguments.format.empty()) options.format = parse_target_format(arguments.format);
  if (!arguments.dtype.empty())
    options.dtype = as_usage([&] {
      return with_context([] { return std::string("--dtype"); },
                          [&] { return parse_dtype(arguments.dtype); });
    });
  if (!arguments.shard_bytes.empty()) {
    const TargetFormat format =
        options.format ? *options.format : target_format_of(arguments.target);
    (format == TargetFormat::kTensorFlow ? options.tensorflow.max_shard_bytes
                                         : options.safetensors.max_shard_bytes) =
        parse_size(arguments.shard_bytes);
  }
  if (!arguments.dialect.empty()) options.msgpack.dialect = parse_dialect(arguments.dialect);
  finish_orbax_target(arguments.orbax, options.orbax);
  move_chunk_bytes(options.format, options.orbax, options.dcp);
  options.resources.threads = arguments.source.options.resources.threads;
  options.store = arguments.source.options.store;
  check_one_server(arguments.source.path, arguments.target, options.store);
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text.append(text.empty() ? "" : ", ").append(printable_text(name));
  return text;
}

std::string report_text(const ConvertReport& report, double seconds) {
  std::string text = dequantized_text(report) + list_text("renamed ", report.renamed, "->");
  text += list_text("left out", report.skipped, "--");
  if (!report.scalars.empty())
    text +=
        fmt::format("scalars  {} written as 0-d arrays\n", plural(report.scalars.size(), "scalar"));
  if (report.cast > 0) text += fmt::format("cast     {}\n", plural(report.cast, "array"));
  if (!report.items.empty()) text += "items    " + names_text(report.items) + "\n";
  if (const std::string stored = compression_text(report.compression); !stored.empty())
    text += "stored   " + stored + "\n";
  for (const auto& file : report.files) text += "wrote    " + printable_text(file) + "\n";
  text += fmt::format("done     {}, {} in {}", plural(report.tensors, "tensor"),
                      bytes_text(report.bytes), duration_text(seconds));
  constexpr double kWorthARate = 0.1;  // seconds
  if (seconds > kWorthARate)
    text += fmt::format(
        " ({}/s)",
        bytes_text(static_cast<std::uint64_t>(static_cast<double>(report.bytes) / seconds)));
  return text + "\n";
}

// The report of --dry-run: the effects of the rules, and the output that would be written.
std::string plan_text(const TransformReport* transformed, const Checkpoint& checkpoint,
                      const ConvertReport& report, const ConvertOptions& options) {
  std::string text;
  if (transformed != nullptr) {
    for (const auto& [key, from] : transformed->made)
      text += "make     " + printable_text(key) + " = " + printable_text(from) + "\n";
    for (const auto& name : transformed->unused) text += "not read " + printable_text(name) + "\n";
    text += "read     " + bytes_text(transformed->read_bytes) + "\n";
  }
  for (const std::size_t i : select_tensors(checkpoint, options.include, options.exclude)) {
    const TensorInfo& tensor = checkpoint.tensors()[i];
    text += "leaf     " + printable_text(tensor.full_name()) + " " +
            printable_text(tensor.is_array() ? tensor.dtype_name + shape_text(tensor.shape)
                                             : tensor.typestr) +
            "\n";
  }
  text += dequantized_text(report) + list_text("renamed ", report.renamed, "->") +
          list_text("left out", report.skipped, "--");
  if (!report.items.empty()) text += "items    " + names_text(report.items) + "\n";
  return text + fmt::format("would write {}, {}\n", plural(report.tensors, "tensor"),
                            bytes_text(report.bytes));
}

// Returns true if the globs select no leaf of a checkpoint that is not empty. An object graph does
// not count as a leaf.
bool selects_nothing(const Checkpoint& source, const ConvertOptions& options) {
  const auto is_leaf = [&](std::size_t i) { return source.tensors()[i].typestr != "object_graph"; };
  const auto chosen = select_tensors(source, options.include, options.exclude);
  return !source.tensors().empty() && std::none_of(chosen.begin(), chosen.end(), is_leaf);
}

int run_convert(ConvertArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  finish_arguments(arguments);
  const bool transformed = !arguments.transform.empty();
  arguments.source.transforms = transformed;
  if (arguments.options.dtype && dtype_kind(*arguments.options.dtype) == DTypeKind::kFloat)
    arguments.source.dequantized_type = arguments.options.dtype;
  Transformed source{open_source(arguments.source, MissingParts::kLeave), {}};
  const MemoryShares memory = memory_shares(arguments.source);
  arguments.options.resources.memory = memory.writing;
  if (transformed) {
    do_together(job(), "cairn: transform", [&] {
      source = transform_checkpoint_by_file(
          std::move(source.checkpoint), arguments.transform,
          {.threads = arguments.options.resources.threads, .memory = memory.transforming});
      return Bytes();
    });
  }
  arguments.options.multiprocessing = job();
  ConvertReport report;
  try {
    ProgressBar bar("converting");
    arguments.options.progress = [&](std::uint64_t done, std::uint64_t total) {
      bar.update(done, total);
    };
    report = convert(*source.checkpoint, arguments.target, arguments.options);
  } catch (const Error& e) {
    // In all processes together, convert throws not_found for an empty selection, but also for
    // other reasons.
    if (e.code() != Code::kNotFound || !selects_nothing(*source.checkpoint, arguments.options))
      throw;
    print_error(e.message());
    return kNo;
  }
  print_left_out(report);
  if (arguments.options.dry_run && !arguments.json) {
    out().show(plan_text(transformed ? &source.report : nullptr, *source.checkpoint, report,
                         arguments.options));
    return kGood;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.json)
    out().show_json(convert_json(report));
  else
    out().show(report_text(report, seconds));
  return kGood;
}

}  // namespace

void setup_convert(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<ConvertArguments>();
  ConvertOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("convert", "Write the checkpoint in another format");
  add_source(*command, arguments->source);
  add_dequantize(*command, arguments->source);
  auto* target =
      command->add_option("DST", arguments->target,
                          "What to write: NAME.safetensors, NAME.npz, NAME.msgpack,\n"
                          "NAME.pt (PyTorch), NAME.index (TensorFlow), or a folder for an\n"
                          "Orbax or Distributed Checkpoint; also as a URL\n"
                          "(s3://bucket/NAME.npz, gs://)");
  check_path(target)->required();
  command
      ->add_option("--to", arguments->format,
                   "safetensors, npz, msgpack, torch (a file of torch.save), dcp\n"
                   "(a folder of torch.distributed.checkpoint), tensorflow (DST is\n"
                   "the prefix), orbax (OCDBT, Zarr v2), orbax-zarr3, or orbax-files\n"
                   "(a folder per parameter; default: by the extension of DST)")
      ->type_name("FORMAT");
  command->add_option("--include", options.include, "Only names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  add_exclude(*command, options.exclude);
  command
      ->add_option("--rename", arguments->rename,
                   "Replace what REGEX (as Python's re) matches in names;\n\\1 is its first group; "
                   "may be repeated")
      ->type_name("REGEX=TEXT")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--nest", options.nest,
          "Split names at SEPARATOR into nested dicts: with '.', a.b\nbecomes b in the dict "
          "a (Orbax, msgpack, PyTorch)")
      ->type_name("SEPARATOR");
  auto* rules = command->add_option("--transform", arguments->transform,
                                    "JSON rules that rename, drop, cast, transpose, stack, split, "
                                    "...\nleaves (docs/transforms.md)");
  check_path(check_local(*command, rules, "reads rules from a local file"))
      ->type_name("RULES.json");
  command->add_flag("--dry-run", options.dry_run,
                    "Show what would be read and written; write nothing");
  command
      ->add_option("--dtype", arguments->dtype,
                   "Cast floating arrays to this type, but not scalars")
      ->type_name("TYPE");
  check_not_empty(
      command
          ->add_option(
              "--shard-bytes,--max-shard-bytes", arguments->shard_bytes,
              "Split into safetensors files, or TensorFlow data files,\nof at most this size")
          ->type_name("SIZE"));
  command
      ->add_option("--metadata", arguments->metadata,
                   "Set an entry of __metadata__, such as format=pt, which the\nloaders of Hugging "
                   "Face need (safetensors); may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--dialect", arguments->dialect,
                   "Kind of msgpack file: flax (the default; as\nflax.serialization.to_bytes, "
                   "lists and tuples become "
                   "dicts\n\"0\", \"1\", ...), or orbax (keeps lists and tuples)")
      ->type_name("DIALECT");
  command->add_flag("--names", options.tensorflow.plain_names,
                    "Keep names as they are, without objects, as\ntf.compat.v1.train.Saver "
                    "restores them (TensorFlow)");
  command->add_flag_callback(
      "--no-latest", [&options] { options.tensorflow.name_latest = false; },
      "Write no save_counter and no file 'checkpoint', as\n"
      "Checkpoint.write() does instead of save() (TensorFlow)");
  add_orbax_target(*command, arguments->orbax, options.orbax,
                   "Split arrays into chunks of at most this size (Orbax, dcp)");
  command->add_flag("--skip-unsupported", options.skip_unsupported,
                    "Leave out leaves that the format cannot hold, and list them");
  command->add_flag_callback(
      "--force,--replace", [&options] { options.if_exists = IfExists::kReplace; },
      "Replace an existing target");
  command->add_flag("--json", arguments->json, "Print the report as one JSON object (docs/cli.md)");
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
