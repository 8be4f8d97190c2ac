// cat.cc -- cairn cat: prints one leaf, as text or as raw bytes.
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

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
  if (!options.output && stdout_is_terminal())
    throw UsageError("refusing to write bytes to a terminal: use -o FILE or a pipe");
  ProgressBar bar("reading");
  const ExportOptions bytes{
      .encoding = options.npy ? LeafEncoding::kNpy : LeafEncoding::kRaw,
      .slice = options.slice,
      .memory = buffer_memory(options.source),
      .store = options.source.options.store,
      .progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); }};
  const SinkFn sink = [](ByteView piece) { out().write(as_text(piece)); };
  if (options.output)
    export_leaf(checkpoint, index, bytes, *options.output);
  else
    export_leaf(checkpoint, index, bytes, sink);
}

// An item that is one text: JSON, or a protocol buffer.
struct Text {
  std::string content;
  bool is_json = false;
};

// The text item that the arguments name: NAME, also as cairn diff shows it ("config/"), or --item
// without NAME.
std::optional<Text> find_text(const Checkpoint& checkpoint, const CatOptions& options) {
  auto name = options.name ? options.name : options.source.options.item;
  if (!name) return std::nullopt;
  if (name->ends_with('/')) name->pop_back();
  if (auto json = read_json_item(checkpoint, *name)) return Text{std::move(*json), true};
  if (auto proto = read_proto_item(checkpoint, *name)) return Text{std::move(*proto), false};
  return std::nullopt;
}

// The lines of a text from a file, safe for a terminal.
std::string printable_lines(const std::string& text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    shown += printable_text(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return shown;
}

void show_text(const Text& text, const CatOptions& options) {
  if (options.slice || options.npy)
    throw UsageError("a text item has no slices and is not an array: --raw writes its bytes");
  if (options.output) throw UsageError("-o needs a tensor; redirect the output of a text item");
  if (options.raw) return out().write(text.content);
  const std::string lines = text.content + (text.content.ends_with('\n') ? "" : "\n");
  if (text.is_json) return out().show_json(lines);
  if (stdout_is_terminal()) return out().show(printable_lines(lines));
  out().write(lines);
}

// Opens the checkpoint. A text item has no arrays and cannot be opened, so --item then only tells
// what to print.
std::unique_ptr<Checkpoint> open_for_cat(CatOptions& options, std::optional<Text>& found) {
  if (options.source.options.item && !options.name) {
    Source whole = options.source;
    whole.options.item.reset();
    auto checkpoint = try_call([&] { return open_source(whole); });
    if (checkpoint.ok()) found = find_text(*checkpoint.value(), options);
    if (found) return nullptr;
  }
  auto checkpoint = open_source(options.source);
  const auto& tensors = checkpoint->tensors();
  const bool is_leaf =
      options.name && std::any_of(tensors.begin(), tensors.end(), [&](const TensorInfo& t) {
        return t.name == *options.name || t.full_name() == *options.name;
      });
  if (options.name && !is_leaf) found = find_text(*checkpoint, options);
  return checkpoint;
}

int run_cat(CatOptions& options) {
  if (options.output)
    check_one_server(options.source.path, *options.output, options.source.options.store);
  std::optional<Text> text;
  const auto checkpoint = open_for_cat(options, text);
  if (text) return show_text(*text, options), kGood;
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
  add_dequantize(*command, options->source);
  command->add_option(
      "NAME", options->name,
      "Tensor, as cairn ls names it; ITEM/NAME where there are several items; or an item\n"
      "of JSON or of protocol buffer text");
  command->add_option("--slice", options->slice, "NumPy slice without steps: 0:8,:,-1 or ...,0")
      ->type_name("SLICE");
  auto* raw = command->add_flag("--raw", options->raw,
                                "C-order little-endian bytes (4-bit types: one byte per element)");
  command->add_flag("--npy", options->npy, "A .npy file")->excludes(raw);
  auto* output = command->add_option(
      "-o,--output", options->output,
      "Write to FILE, a path or a URL (s3://, gs://); FILE appears whole or not at all");
  check_path(output)->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  cairn cat ckpt params.dense.kernel                      a preview\n"
      "  cairn cat ckpt params.embed --slice 0:8,:4              a corner of it\n"
      "  cairn cat ckpt params.embed --npy -o embed.npy          for numpy.load\n"
      "  cairn cat ckpt params.embed --raw | sha256sum           its bytes\n"
      "  cairn cat ckpt config | jq .                            a JSON item");
  command->callback([options, &status] { status = run_cat(*options); });
}

}  // namespace cairn::cli
