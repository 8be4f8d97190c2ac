// ls.cc -- cairn ls: lists the tensors of a checkpoint.
#include "arguments/choices.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

struct LsOptions {
  Source source;
  std::string glob;
  bool long_form = false;
  bool names = false;
  bool json = false, csv = false;
  std::vector<std::string> exclude;
  std::string sort;
};

std::string shown_name(const TensorInfo& t) { return printable_text(t.full_name()); }

std::string type_text(const TensorInfo& t) {
  if (!t.is_described()) return "unreadable";
  if (t.is_custom()) return "custom: " + printable_text(t.typestr);
  return t.dtype_name.empty() ? t.typestr : printable_text(t.dtype_name);
}

std::string shape_of(const TensorInfo& t) {
  return (t.is_array() && t.is_described()) || !t.shape.empty() ? shape_text(t.shape) : "";
}

void show_short(const Checkpoint& checkpoint, std::span<const std::size_t> indices) {
  const Style& style = stdout_style();
  Table table({{"", Align::kLeft, {}}, {"", Align::kLeft, style.cyan}, {"", Align::kLeft, {}}});
  for (const std::size_t i : indices) {
    const TensorInfo& t = checkpoint.tensors()[i];
    table.add({shown_name(t), type_text(t), shape_of(t)});
  }
  table.write(false, [](std::string_view line) { out().show(line); });
}

void show_long(const Checkpoint& checkpoint, std::span<const std::size_t> indices) {
  const Style& style = stdout_style();
  Table table({{"name", Align::kLeft, {}},
               {"dtype", Align::kLeft, style.cyan},
               {"shape", Align::kLeft, {}},
               {"size", Align::kRight, {}},
               {"stored", Align::kRight, {}},
               {"kind", Align::kLeft, {}},
               {"chunks", Align::kLeft, {}},
               {"sharding", Align::kLeft, style.dim}});
  std::uint64_t nbytes = 0;
  std::uint64_t stored = 0;
  for (const std::size_t i : indices) {
    const TensorInfo& t = checkpoint.tensors()[i];
    const bool chunked = t.is_array() && !t.chunk_shape.empty();
    table.add({shown_name(t), type_text(t), shape_of(t), bytes_text(t.nbytes),
               bytes_text(t.stored_nbytes), printable_text(t.typestr),
               chunked ? shape_text(t.chunk_shape) : "", sharding_text(t.sharding)});
    nbytes += t.nbytes;
    stored += t.stored_nbytes;
  }
  if (!indices.empty()) table.drop_empty();
  std::string hidden;
  for (const auto& title : table.fit(terminal_width()))
    hidden.append(hidden.empty() ? "; too narrow for: " : ", ").append(title);
  table.write(true, [](std::string_view line) { out().show(line); });
  const std::string summary = fmt::format("{}, {}, {} stored{}", plural(indices.size(), "leaf"),
                                          bytes_text(nbytes), bytes_text(stored), hidden);
  out().show(fmt::format("{}{}{}\n", style.dim, fold_text(summary, 0), style.reset));
}

// A step without arrays is listed as nothing, so this names its items; of a database the keys.
void explain_nothing(const Checkpoint& checkpoint) {
  if (!checkpoint.tensors().empty()) return;
  std::string items;
  for (const std::string& item : checkpoint.info().items)
    items.append(items.empty() ? "'" : ", '").append(item).append("'");
  if (!items.empty()) {
    out().flush();
    print_error("there are no arrays; the items are " + items +
                ": cairn cat CKPT ITEM prints JSON and protocol buffers");
  }
  for (const auto& [label, keys] : checkpoint.info().facts) {
    if (label != "keys") continue;
    out().flush();
    print_error("there are no arrays: this is an OCDBT key-value store; its keys: " + keys);
  }
}

// Sorts by one property; equal leaves keep the order of the tree.
void sort_leaves(const Checkpoint& checkpoint, const std::string& by,
                 std::vector<std::size_t>& indices) {
  const auto& all = checkpoint.tensors();
  const auto before = [&](std::size_t i, std::size_t j) {
    const TensorInfo& a = all[i];
    const TensorInfo& b = all[j];
    if (by == "size") return a.nbytes > b.nbytes;
    if (by == "dtype") return type_text(a) < type_text(b);
    if (by == "shape")
      return std::pair(a.shape.size(), a.shape) < std::pair(b.shape.size(), b.shape);
    return a.full_name() < b.full_name();
  };
  if (!by.empty()) std::stable_sort(indices.begin(), indices.end(), before);
}

int run_ls(LsOptions& options) {
  const auto checkpoint = open_source(options.source);
  std::vector<std::string> include;
  if (!options.glob.empty()) include.push_back(options.glob);
  auto indices = select_tensors(*checkpoint, include, options.exclude);
  sort_leaves(*checkpoint, options.sort, indices);
  if (options.json) {
    tensors_json(*checkpoint, indices,
                 [](std::string_view piece) { out().show_strict_json(piece); });
  } else if (options.csv) {
    out().write(tensors_csv(*checkpoint, indices));
  } else if (options.names) {
    for (const std::size_t i : indices) out().show(shown_name(checkpoint->tensors()[i]) + "\n");
  } else {
    options.long_form ? show_long(*checkpoint, indices) : show_short(*checkpoint, indices);
  }
  if (options.glob.empty()) explain_nothing(*checkpoint);
  return selected_status(*checkpoint, indices, options.glob, options.exclude);
}

}  // namespace

void setup_ls(CLI::App& app, int& status) {
  const auto options = std::make_shared<LsOptions>();
  CLI::App* command = app.add_subcommand("ls", "List the tensors");
  add_source(*command, options->source);
  add_dequantize(*command, options->source);
  command->add_option("GLOB", options->glob,
                      "Only names that match: '*' any characters, dots too; '?' one; [a-z], "
                      "[!a-z]; '/' also stands for '.'");
  add_exclude(*command, options->exclude);
  check_choice(command->add_option("--sort", options->sort,
                                   "name, size (the largest first), dtype or shape\n"
                                   "(default: the order of the tree)"),
               {"name", "size", "dtype", "shape"})
      ->type_name("BY");
  command->add_flag("-l,--long", options->long_form,
                    "Also show sizes, kinds, chunks and shardings");
  auto* names = command->add_flag("--names", options->names, "Print only the names, one per line");
  auto* csv = command->add_flag("--csv", options->csv, "Print a table for spreadsheets (RFC 4180)");
  command
      ->add_flag("--json", options->json, "Print a JSON list of objects (docs/reference/json.md)")
      ->excludes(csv);
  csv->excludes(names);
  command->footer(
      "Examples:\n"
      "  cairn ls ckpt\n"
      "  cairn ls -l ckpt 'params.*.kernel'\n"
      "  cairn ls -l ckpt --sort size --exclude 'opt_state.*'\n"
      "  cairn ls --json ckpt | jq '.[] | select(.dtype == \"float32\") | .name'");
  command->callback([options, &status] { status = run_ls(*options); });
}

}  // namespace cairn::cli
