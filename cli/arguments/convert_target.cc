#include "arguments/convert_target.h"

#include <cairn/cairn.h>
#include <cairn/msgpack.h>
#include "commands.h"
#include "ranks.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

MsgpackDialect parse_dialect(const std::string& text) {
  if (text == "flax") return MsgpackDialect::kFlaxState;
  if (text == "orbax") return MsgpackDialect::kOrbax;
  throw UsageError("--dialect '" + text + "': expected flax or orbax");
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text.append(text.empty() ? "" : ", ").append(printable_text(name));
  return text;
}

// Lines for the leaves that --take-first has taken.
std::string taken_text(const ConvertReport& report) {
  std::vector<std::pair<std::string, std::string>> leaves;
  if (report.taken_first)
    for (const std::string& name : *report.taken_first)
      leaves.emplace_back(name, "differs, taken from the first checkpoint");
  return list_text("first   ", leaves, "--");
}

// Lines for the options of a model map, and for what it has rounded.
std::string rules_text(const ConvertReport& report) {
  std::string text;
  for (const TransformValue& value : report.values)
    if (value.origin != "computed")
      text += fmt::format("value    {} = {} ({})\n", printable_text(value.name),
                          printable_text(value.text), value.origin);
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < report.unused.size() && i < kShown; ++i)
    text += fmt::format("dropped  {}\n", printable_text(report.unused[i]));
  if (report.unused.size() > kShown)
    text += fmt::format("dropped  {} more (--json lists all)\n", report.unused.size() - kShown);
  for (const InexactLeaves& leaves : report.inexact)
    text += fmt::format(
        "inexact  {}: {:.3g} % of {} scaled elements do not come back exactly\n",
        printable_text(leaves.name),
        100.0 * static_cast<double>(leaves.inexact) / static_cast<double>(leaves.elements),
        leaves.elements);
  return text;
}

// The report of --dry-run: the output that would be written.
std::string plan_text(const Checkpoint& checkpoint, const ConvertReport& report,
                      const ConvertOptions& options) {
  std::string text;
  for (const std::size_t i : select_tensors(checkpoint, options.include, options.exclude)) {
    const TensorInfo& tensor = checkpoint.tensors()[i];
    text += "leaf     " + printable_text(tensor.full_name()) + " " +
            printable_text(tensor.is_array() ? tensor.dtype_name + shape_text(tensor.shape)
                                             : tensor.typestr) +
            "\n";
  }
  text += rules_text(report) + dequantized_text(report) + taken_text(report) +
          list_text("renamed ", report.renamed, "->") + list_text("left out", report.skipped, "--");
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

}  // namespace

std::string report_text(const ConvertReport& report, double seconds) {
  std::string text = rules_text(report) + dequantized_text(report) + taken_text(report) +
                     list_text("renamed ", report.renamed, "->");
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

std::pair<std::string, std::string> parse_pair(const std::string& option, const std::string& text,
                                               const std::string& form) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos) throw UsageError(option + " '" + text + "': expected " + form);
  return {text.substr(0, at), text.substr(at + 1)};
}

void add_target_selection(CLI::App& command, ConvertTargetArguments& arguments) {
  command
      .add_option("--to", arguments.format,
                  "safetensors, npz, msgpack, torch (a file of torch.save), dcp\n"
                  "(a folder of torch.distributed.checkpoint), tensorflow (DST is\n"
                  "the prefix), orbax (OCDBT, Zarr v2), orbax-zarr3, or orbax-files\n"
                  "(a folder per parameter; default: by the extension of DST)")
      ->type_name("FORMAT");
  command
      .add_option("--include", arguments.options.include, "Only names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  add_exclude(command, arguments.options.exclude);
}

void add_target_options(CLI::App& command, ConvertTargetArguments& arguments) {
  ConvertOptions& options = arguments.options;
  command.add_flag("--dry-run", options.dry_run,
                   "Show what would be read and written; write nothing");
  command
      .add_option("--dtype", arguments.dtype, "Cast floating arrays to this type, but not scalars")
      ->type_name("TYPE");
  check_not_empty(
      command
          .add_option(
              "--shard-bytes,--max-shard-bytes", arguments.shard_bytes,
              "Split into safetensors files, or TensorFlow data files,\nof at most this size")
          ->type_name("SIZE"));
  command
      .add_option("--metadata", arguments.metadata,
                  "Set an entry of __metadata__, such as format=pt, which the\nloaders of Hugging "
                  "Face need (safetensors); may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--dialect", arguments.dialect,
                  "Kind of msgpack file: flax (the default; as\nflax.serialization.to_bytes, "
                  "lists and tuples become "
                  "dicts\n\"0\", \"1\", ...), or orbax (keeps lists and tuples)")
      ->type_name("DIALECT");
  command.add_flag("--names", options.tensorflow.plain_names,
                   "Keep names as they are, without objects, as\ntf.compat.v1.train.Saver "
                   "restores them (TensorFlow)");
  command.add_flag_callback(
      "--no-latest", [&options] { options.tensorflow.name_latest = false; },
      "Write no save_counter and no file 'checkpoint', as\n"
      "Checkpoint.write() does instead of save() (TensorFlow)");
  add_orbax_target(command, arguments.orbax, options.orbax,
                   "Split arrays into chunks of at most this size (Orbax, dcp)");
  command.add_flag("--skip-unsupported", options.skip_unsupported,
                   "Leave out leaves that the format cannot hold, and list them");
  command.add_flag_callback(
      "--force,--replace", [&options] { options.if_exists = IfExists::kReplace; },
      "Replace an existing target");
  command.add_flag("--json", arguments.json,
                   "Print the report as one JSON object (docs/reference/json.md)");
}

void finish_convert_target(ConvertTargetArguments& arguments, const Source& source) {
  ConvertOptions& options = arguments.options;
  for (const auto& text : arguments.metadata)
    options.safetensors.metadata.push_back(parse_pair("--metadata", text, "KEY=VALUE"));
  if (!arguments.format.empty()) options.format = parse_target_format(arguments.format);
  if (!arguments.dtype.empty())
    options.dtype = as_usage([&] {
      return with_context([] { return std::string("--dtype"); },
                          [&] { return parse_dtype(arguments.dtype); });
    });
  if (!arguments.shard_bytes.empty()) {
    // A path without a known extension may be the folder of a model; convert() refuses others.
    const auto by_path = try_call([&] { return target_format_of(arguments.path); });
    const bool is_tensorflow = options.format
                                   ? *options.format == TargetFormat::kTensorFlow
                                   : by_path && by_path.value() == TargetFormat::kTensorFlow;
    (is_tensorflow ? options.tensorflow.max_shard_bytes : options.safetensors.max_shard_bytes) =
        parse_size(arguments.shard_bytes);
  }
  if (!arguments.dialect.empty()) options.msgpack.dialect = parse_dialect(arguments.dialect);
  finish_orbax_target(arguments.orbax, options.orbax);
  move_chunk_bytes(options.format, options.orbax, options.dcp);
  options.resources.threads = source.options.resources.threads;
  options.store = source.options.store;
}

int convert_source(const Checkpoint& source, ConvertTargetArguments& arguments,
                   const ConvertScreen& screen) {
  ConvertOptions& options = arguments.options;
  options.multiprocessing = job();
  ConvertReport report;
  try {
    ProgressBar bar(screen.label);
    options.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    report = convert(source, arguments.path, options);
  } catch (const Error& e) {
    // In all processes together, convert throws not_found for an empty selection, but also for
    // other reasons.
    if (e.code() != Code::kNotFound || !selects_nothing(source, options)) throw;
    print_error(e.message());
    return kNo;
  }
  print_left_out(report);
  if (options.dry_run && !arguments.json) {
    out().show(screen.plan + plan_text(source, report, options));
    return kGood;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - screen.start).count();
  if (arguments.json)
    out().show_json(convert_json(report));
  else
    out().show(report_text(report, seconds));
  return kGood;
}

}  // namespace cairn::cli
