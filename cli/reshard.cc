// reshard.cc -- cairn reshard: rewrites a checkpoint in the chunks that other devices will read.
#include "arguments/orbax_target.h"
#include "arguments/stores.h"
#include "commands.h"
#include "ranks.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

namespace cairn::cli {
namespace {

struct ReshardArguments {
  Source source;
  std::string target;
  std::string format;
  std::string mesh;
  std::vector<std::string> specs;
  OrbaxTargetArguments orbax;
  bool json = false;
  ReshardOptions options;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(at, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// "x=4,y=2"
Mesh parse_mesh(const std::string& text) {
  Shape shape;
  std::vector<std::string> names;
  for (const std::string& axis : split(text, ',')) {
    const std::size_t at = axis.find('=');
    std::int64_t size = 0;
    const char* end = axis.data() + axis.size();
    const auto read = at == std::string::npos
                          ? std::from_chars_result{end, std::errc::invalid_argument}
                          : std::from_chars(axis.data() + at + 1, end, size);
    constexpr std::int64_t kMostDevices = 1 << 20;
    if (at == 0 || read.ptr != end || (read.ec == std::errc() && size < 1) ||
        read.ec == std::errc::invalid_argument)
      throw UsageError("--mesh '" + text + "': expected AXIS=DEVICES,... such as x=4,y=2");
    if (read.ec != std::errc() || size > kMostDevices)
      throw UsageError("--mesh '" + text + "': more than 2^20 devices");
    names.push_back(axis.substr(0, at));
    shape.push_back(size);
  }
  std::int64_t devices = 1;
  for (const std::int64_t n : shape)
    if (__builtin_mul_overflow(devices, n, &devices) || devices > (1 << 20))
      throw UsageError("--mesh '" + text + "': more than 2^20 devices");
  return make_mesh(std::move(shape), std::move(names));
}

// Parses "GLOB=x,None,y+z", split at the last '='. If nothing follows the '=', the array is not
// split.
std::pair<std::string, PartitionSpec> parse_spec(const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0)
    throw UsageError("--spec '" + text +
                     "': expected GLOB=AXIS,None,... such as 'params.*=x,None'");
  PartitionSpec spec;
  if (at + 1 < text.size())
    for (const std::string& entry : split(text.substr(at + 1), ',')) {
      if (entry.empty())
        throw UsageError("--spec '" + text + "': a dimension without an axis is None");
      spec.push_back(entry == "None" ? std::vector<std::string>() : split(entry, '+'));
    }
  return {text.substr(0, at), std::move(spec)};
}

void finish_arguments(ReshardArguments& arguments) {
  ReshardOptions& options = arguments.options;
  if (!arguments.format.empty()) options.format = parse_target_format(arguments.format);
  if (!arguments.mesh.empty()) options.mesh = parse_mesh(arguments.mesh);
  for (const auto& text : arguments.specs) options.specs.push_back(parse_spec(text));
  finish_orbax_target(arguments.orbax, options.orbax);
  move_chunk_bytes(options.format, options.orbax, options.dcp);
  options.resources = {.threads = arguments.source.options.resources.threads,
                       .memory = buffer_memory(arguments.source)};
  options.store = arguments.source.options.store;
  check_one_server(arguments.source.path, arguments.target, options.store);
}

std::string plan_text(const ReshardReport& report) {
  Table table({{"name", Align::kLeft, {}},
               {"array", Align::kLeft, {}},
               {"a device's box", Align::kLeft, {}},
               {"sharding", Align::kLeft, {}}});
  for (const auto& leaf : report.arrays)
    table.add({printable_text(leaf.name), leaf.dtype + shape_text(leaf.shape), shape_text(leaf.box),
               printable_text(leaf.sharding)});
  table.drop_empty();
  return table.text(true);
}

int run_reshard(ReshardArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  finish_arguments(arguments);
  const auto source = open_source(arguments.source, MissingParts::kLeave);
  arguments.options.multiprocessing = job();
  ReshardReport report;
  {
    ProgressBar bar("resharding");
    arguments.options.progress = [&](std::uint64_t done, std::uint64_t total) {
      bar.update(done, total);
    };
    report = reshard(*source, arguments.target, arguments.options);
  }
  print_left_out(report.written);
  if (arguments.json) {
    out().show_json(reshard_json(report));
    return kGood;
  }
  std::string text = dequantized_text(report.written);
  if (arguments.options.dry_run) text += plan_text(report);
  if (arguments.options.mesh)
    text += fmt::format("devices  {}, each reads {}\n", arguments.options.mesh->device_ids.size(),
                        bytes_text(report.device_bytes));
  if (arguments.options.dry_run) {
    text +=
        fmt::format("would write {}, {} ({})\n", plural(report.written.tensors, "tensor"),
                    bytes_text(report.written.bytes), target_format_name(report.written.format));
  } else {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (const std::string stored = compression_text(report.written.compression); !stored.empty())
      text += "stored   " + stored + "\n";
    for (const auto& file : report.written.files) text += "wrote    " + printable_text(file) + "\n";
    text += fmt::format("done     {}, {} in {}\n", plural(report.written.tensors, "tensor"),
                        bytes_text(report.written.bytes), duration_text(seconds));
  }
  out().show(text);
  return kGood;
}

}  // namespace

void setup_reshard(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<ReshardArguments>();
  ReshardOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand(
      "reshard", "Rewrite the checkpoint in the chunks that other devices will read");
  add_source(*command, arguments->source);
  add_dequantize(*command, arguments->source);
  auto* target = command->add_option(
      "OUT", arguments->target,
      "The folder of the new checkpoint: a path, or a URL\n(s3://bucket/NAME, gs://)");
  check_path(target)->required();
  command
      ->add_option(
          "--mesh", arguments->mesh,
          "The mesh of the devices that will read it, for example\nx=4,y=2 (devices 0 to 7)")
      ->type_name("AXES");
  command
      ->add_option(
          "--spec", arguments->specs,
          "How to split arrays with matching names: for each dimension\na mesh axis, None, "
          "or several axes (x+y). The first GLOB\n"
          "that matches counts ('/' also stands for '.'); may be repeated")
      ->type_name("GLOB=SPEC")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--to", arguments->format,
          "orbax (OCDBT, Zarr v2), orbax-zarr3, orbax-files (a folder\nper parameter), or dcp "
          "(PyTorch's Distributed Checkpoint;\neach device's box is a chunk; default: as "
          "CKPT, or orbax)")
      ->type_name("FORMAT");
  command->add_flag("--dry-run", options.dry_run,
                    "Show which box of each array a device will read; write nothing");
  add_orbax_target(
      *command, arguments->orbax, options.orbax,
      "The largest size of a chunk. With --mesh, chunks divide what a\ndevice reads; without it, "
      "only the chunks change");
  command->add_flag_callback(
      "--force,--replace", [&options] { options.if_exists = IfExists::kReplace; },
      "Replace an existing target");
  command->add_flag("--json", arguments->json,
                    "Print the report as one JSON object (docs/reference/json.md)");
  command->footer(
      "A checkpoint restores onto any devices. The restore is fast only if each device reads\n"
      "whole chunks. If two devices share a chunk, both read and decode it. This command writes\n"
      "the same values again. A chunk is then what one device holds, or a divisor of it. The\n"
      "new checkpoint also has the shardings that Orbax uses if a restore gives no others.\n"
      "\n"
      "Device arrays that no --spec matches are replicated: each device reads all of them. Host\n"
      "arrays (np.ndarray) and scalars stay as they are. If a --spec matches one, it becomes a\n"
      "device array. An axis must divide its dimension.\n"
      "\n"
      "Streams: peak memory stays below --memory. The target appears whole or not at all. Under\n"
      "an MPI launcher (mpirun -n 8 cairn reshard ...) the processes share the bytes. Each\n"
      "process uses --memory.\n"
      "\n"
      "Examples:\n"
      "  cairn reshard ckpt for8 --mesh data=2,model=4 --spec "
      "'*.embedding=model+data' --dry-run\n"
      "  cairn reshard ckpt for8 --mesh data=2,model=4 --spec '*.kernel=None,model' --chunk-bytes "
      "64MiB\n"
      "  cairn reshard ckpt small-chunks --chunk-bytes 16MiB\n"
      "  cairn reshard gs://bucket/run/8 gs://bucket/for8 --mesh x=8 --spec '*.kernel=x'");
  command->callback([arguments, &status] { status = run_reshard(*arguments); });
}

}  // namespace cairn::cli
