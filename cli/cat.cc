// cat.cc -- cairn cat: prints one leaf, as text or as raw bytes.
#include "commands.h"
#include "source.h"
#include "terminal.h"
#include "text.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

struct CatOptions {
  Source source;
  std::optional<std::string> name;
  std::optional<std::string> slice;
  std::optional<std::string> output;
  bool raw = false;
  bool npy = false;
};

std::size_t find_leaf(const Checkpoint& checkpoint, const std::optional<std::string>& name) {
  if (name) return checkpoint.index(*name);
  if (checkpoint.tensors().size() == 1) return 0;
  throw UsageError("NAME is required: the checkpoint has " +
                   plural(checkpoint.tensors().size(), "tensor") + "; cairn ls lists them");
}

// A string comes from an untrusted file. A terminal gets it escaped, a pipe gets it unchanged.
void show_string(const std::string& text) {
  if (stdout_is_terminal())
    out().show(printable_text(text) + "\n");
  else
    out().write(text + "\n");
}

void show_leaf(const Checkpoint& checkpoint, std::size_t index,
               const std::optional<SliceSpec>& slice) {
  const TensorInfo& t = checkpoint.tensors()[index];
  if (t.is_string() && t.shape.empty()) return show_string(checkpoint.read_string(index));
  if (t.is_string()) return out().show(strings_text(checkpoint.read_strings(index)) + "\n");
  if (!t.is_array()) return out().show(printable_text(t.typestr) + "\n");
  const Style& style = stdout_style();
  const std::string text =
      preview_tensor(checkpoint, index, slice ? *slice : parse_slice("", t.shape));
  if (stdout_is_terminal())
    out().show(fmt::format("{}{}  {} {}{}\n", style.dim, printable_text(t.name),
                           printable_text(t.dtype_name), shape_text(slice ? slice->shape : t.shape),
                           style.reset));
  out().show(text + "\n");
}

void copy_bytes(const Checkpoint& checkpoint, std::size_t index, const CatOptions& options) {
  const TensorInfo& t = checkpoint.tensors()[index];
  const ExportOptions bytes{options.npy ? LeafEncoding::kNpy : LeafEncoding::kRaw, options.slice,
                            buffer_memory(options.source)};
  if (!options.output && stdout_is_terminal())
    throw UsageError("refusing to write bytes to a terminal: use -o FILE or a pipe");
  ProgressBar bar("reading");
  std::uint64_t done = 0;
  const SinkFn sink = [&](ByteView piece) {
    done += piece.size();
    bar.update(done, std::max(done, t.nbytes));
    out().write(as_text(piece));
  };
  if (options.output)
    export_leaf(checkpoint, index, bytes, *options.output);
  else
    export_leaf(checkpoint, index, bytes, sink);
}

int run_cat(CatOptions& options) {
  const auto checkpoint = open_source(options.source);
  const std::size_t index = find_leaf(*checkpoint, options.name);
  const TensorInfo& t = checkpoint->tensors()[index];
  if (!t.error.empty()) throw Failure(t.name + ": " + t.error);
  std::optional<SliceSpec> slice;
  if (options.slice) {
    if (!t.is_array()) throw UsageError(t.name + " is not an array, so it has no slices");
    slice = as_usage([&] { return parse_slice(*options.slice, t.shape); });
  }
  if (options.raw || options.npy) {
    copy_bytes(*checkpoint, index, options);
    return kGood;
  }
  if (options.output) throw UsageError("-o needs --raw or --npy");
  show_leaf(*checkpoint, index, slice);
  return kGood;
}

}  // namespace

void setup_cat(CLI::App& app, int& status) {
  const auto options = std::make_shared<CatOptions>();
  CLI::App* command = app.add_subcommand("cat", "Show one tensor, or write its bytes");
  add_source(*command, options->source);
  command->add_option("NAME", options->name,
                      "Tensor, as cairn ls names it; ITEM/NAME where there are several items");
  command->add_option("--slice", options->slice, "NumPy slice without steps: 0:8,:,-1 or ...,0")
      ->type_name("SLICE");
  auto* raw = command->add_flag("--raw", options->raw,
                                "C-order little-endian bytes (4-bit types: one byte per element)");
  command->add_flag("--npy", options->npy, "A .npy file")->excludes(raw);
  check_path(command->add_option("-o,--output", options->output,
                                 "Write to FILE, which appears whole or not at all"))
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  cairn cat ckpt params.dense.kernel                      a preview\n"
      "  cairn cat ckpt params.embed --slice 0:8,:4              a corner of it\n"
      "  cairn cat ckpt params.embed --npy -o embed.npy          for numpy.load\n"
      "  cairn cat ckpt params.embed --raw | sha256sum           its bytes");
  command->callback([options, &status] { status = run_cat(*options); });
}

}  // namespace cairn::cli
