// diff.cc -- cairn diff: prints the differences between two checkpoints.
#include "commands.h"
#include "ranks.h"
#include "source.h"
#include "terminal.h"
#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cairn::cli {
namespace {

struct DiffArguments {
  Source a;
  std::string b;
  std::optional<std::int64_t> step_b;
  std::optional<std::string> item_b;
  std::string glob;
  bool json = false;
  DiffOptions options;
};

constexpr std::size_t kTextShown = 60;  // bytes of a string

std::string type_text(const DiffSide& side) {
  if (side.kind == LeafKind::kUnknown) return "unreadable";
  if (side.kind == LeafKind::kString) return "string";
  if (side.kind != LeafKind::kArray) return printable_text(side.typestr);
  return printable_text(side.dtype_name) + " " + shape_text(side.shape);
}

std::string quoted(const std::string& text) {
  return "\"" +
         printable_text(text.size() > kTextShown ? text.substr(0, kTextShown) + "..." : text) +
         "\"";
}

std::string values_text(const LeafDiff& leaf) {
  const ValueDiff& v = *leaf.values;
  const auto elements = static_cast<std::uint64_t>(element_count(leaf.a.shape));
  std::string text = fmt::format("{} of {}", count_text(v.different), plural(elements, "value"));
  if (v.first && !leaf.a.shape.empty())
    text += ", first at " + shape_text(element_index(leaf.a.shape, *v.first));
  if (v.max_abs_error) text += fmt::format(", max error {:.4g}", *v.max_abs_error);
  if (v.max_rel_error) text += fmt::format(" (relative {:.4g})", *v.max_rel_error);
  if (v.nan_mismatches > 0)
    text += fmt::format(", {} NaN in only one", count_text(v.nan_mismatches));
  if (v.inf_mismatches > 0)
    text += fmt::format(", {} with different infinities", count_text(v.inf_mismatches));
  if (v.bits_only > 0)
    text += fmt::format(", {} in bits only (-0.0, NaN payload)", count_text(v.bits_only));
  return text;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string key_text(const DiffSide& side) {
  return side.random_key_impl.empty() ? "no PRNG key"
                                      : "PRNG key " + printable_text(side.random_key_impl);
}

// Lists the differences of a leaf, the most important first.
std::string difference_text(const LeafDiff& leaf) {
  std::string text;
  const auto add = [&](const std::string& part) {
    text.append(text.empty() ? "" : "; ").append(part);
  };
  if (has(leaf.differs, "kind"))
    add(printable_text(leaf.a.typestr) + " -> " + printable_text(leaf.b.typestr));
  if (has(leaf.differs, "dtype"))
    add(printable_text(leaf.a.dtype_name) + " -> " + printable_text(leaf.b.dtype_name));
  if (has(leaf.differs, "shape")) add(shape_text(leaf.a.shape) + " -> " + shape_text(leaf.b.shape));
  if (has(leaf.differs, "random_key")) add(key_text(leaf.a) + " -> " + key_text(leaf.b));
  if (has(leaf.differs, "values"))
    add(leaf.values ? values_text(leaf) : quoted(leaf.a.text) + " -> " + quoted(leaf.b.text));
  return text;
}

std::string row(std::string_view paint, std::string_view label, const std::string& name,
                const std::string& text) {
  const Style& style = stdout_style();
  return fmt::format("{}{:<10}{}  {}{}{}\n", paint, label, style.reset, name,
                     text.empty() ? "" : ": ", text);
}

std::string leaf_text(const LeafDiff& leaf) {
  const Style& style = stdout_style();
  const std::string name = printable_text(full_name(leaf));
  switch (leaf.state) {
    case LeafState::kSame:
      return "";
    case LeafState::kOnlyInA:
      return row(style.red, "only in A", name, type_text(leaf.a));
    case LeafState::kOnlyInB:
      return row(style.green, "only in B", name, type_text(leaf.b));
    case LeafState::kDifferent:
      return row(style.yellow, "different", name, difference_text(leaf));
    case LeafState::kUnreadable:
      break;
  }
  std::string text;
  for (const auto& [side, label] : {std::pair(&leaf.a, "A"), std::pair(&leaf.b, "B")})
    if (!side->error.empty())
      text += row(style.red, "unreadable", name,
                  fmt::format("in {}: {}", label, printable_text(side->error)));
  return text;
}

// Prints one line for each kind of difference that does not count. Between two formats such a
// difference is often the same for every leaf.
std::string notes_text(const DiffReport& report) {
  const Style& style = stdout_style();
  std::map<std::pair<std::string, std::string>, std::uint64_t> sorts;
  for (const LeafDiff& leaf : report.leaves)
    for (const std::string& noted : leaf.noted) {
      const auto what = noted == "kind"         ? std::pair(leaf.a.typestr, leaf.b.typestr)
                        : noted == "dtype"      ? std::pair(leaf.a.dtype_name, leaf.b.dtype_name)
                        : noted == "random_key" ? std::pair(key_text(leaf.a), key_text(leaf.b))
                                                : std::pair(std::string("values"), std::string());
      ++sorts[what];
    }
  std::string text;
  for (const auto& [what, leaves] : sorts) {
    const std::string words = what.second.empty()
                                  ? "other values within the tolerance"
                                  : printable_text(what.first + " -> " + what.second);
    text += fmt::format("{}note        {}: {}{}\n", style.dim, plural(leaves, "leaf"), words,
                        style.reset);
  }
  return text;
}

std::string summary_text(const DiffReport& report) {
  const Style& style = stdout_style();
  const std::string bytes = report.bytes > 0 ? " (" + bytes_text(report.bytes) + " compared)" : "";
  if (report.equal())
    return fmt::format("{}same{}        {}{}\n", style.green, style.reset,
                       plural(report.same, "leaf"), bytes);
  std::string text = fmt::format("{} the same, {} different", count_text(report.same),
                                 count_text(report.different));
  if (report.only_in_a > 0) text += fmt::format(", {} only in A", count_text(report.only_in_a));
  if (report.only_in_b > 0) text += fmt::format(", {} only in B", count_text(report.only_in_b));
  if (report.unreadable > 0) text += fmt::format(", {} unreadable", count_text(report.unreadable));
  return text + bytes + "\n";
}

Source source_of_b(const DiffArguments& arguments) {
  Source b = arguments.a;
  b.path = arguments.b;
  if (arguments.step_b) b.options.step = arguments.step_b;
  if (arguments.item_b) b.options.item = arguments.item_b;
  return b;
}

std::uint64_t count(const DiffReport& report) {
  return report.same + report.different + report.only_in_a + report.only_in_b + report.unreadable;
}

// "2 leaves cannot be read, the first: params.w: in A: chunk 0.0: ..."
std::string unreadable_text(const DiffReport& report) {
  const auto first =
      std::find_if(report.leaves.begin(), report.leaves.end(),
                   [](const LeafDiff& leaf) { return leaf.state == LeafState::kUnreadable; });
  std::string text = plural(report.unreadable, "leaf") + " cannot be read";
  if (first == report.leaves.end()) return text;
  const bool in_a = !first->a.error.empty();
  return text + ", the first: " + full_name(*first) + ": in " +
         (in_a ? "A: " + first->a.error : "B: " + first->b.error);
}

int diff_status(const DiffReport& report) {
  if (report.unreadable > 0) return kFailure;
  return report.equal() ? kGood : kNo;
}

int run_diff(DiffArguments& arguments, int& status) {
  DiffOptions& options = arguments.options;
  if (!arguments.glob.empty()) options.include.push_back(arguments.glob);
  Source source_b = source_of_b(arguments);
  const auto a = open_source(arguments.a);
  const auto b = open_source(source_b);
  options.resources = {.threads = arguments.a.options.resources.threads,
                       .memory = buffer_memory(arguments.a)};
  options.multiprocessing = job();
  DiffReport report;
  {
    ProgressBar bar("comparing");
    options.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    report = diff(*a, *b, options);
  }
  status = diff_status(report);  // set before printing, because a closed pipe may end it
  const bool excludes_all =
      !options.exclude.empty() && a->tensors().size() + b->tensors().size() > 0;
  const bool nothing_matches = (!options.include.empty() || excludes_all) && count(report) == 0;
  if (nothing_matches) status = kNo;
  if (arguments.json) {
    out().show_json(diff_json(report));
  } else if (!nothing_matches) {
    for (const LeafDiff& leaf : report.leaves) out().show(leaf_text(leaf));
    out().show(notes_text(report) + summary_text(report));
  }
  if (nothing_matches || report.unreadable > 0) out().flush();
  if (nothing_matches) print_error("no tensor of either matches: nothing was compared");
  if (report.unreadable > 0) print_error(unreadable_text(report));
  return status;
}

}  // namespace

void setup_diff(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<DiffArguments>();
  DiffOptions& options = arguments->options;
  CLI::App* command =
      app.add_subcommand("diff", "Compare two checkpoints: structure, types and values");
  add_source(*command, arguments->a, "A");
  check_path(command->add_option("B", arguments->b, "The other checkpoint, of any format"))
      ->required();
  command->add_option("GLOB", arguments->glob, "Only names that match");
  check_int64(
      command->add_option("--step-b", arguments->step_b, "Step of B, if it differs from --step"))
      ->type_name("N");
  command->add_option("--item-b", arguments->item_b, "Item of B, if it differs from --item")
      ->type_name("NAME");
  command->add_option("--include", options.include, "Only names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command->add_option("--exclude", options.exclude, "Skip names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command
      ->add_option("--rtol", options.rtol,
                   "Relative tolerance: |a - b| <= atol + rtol * |b| is equal")
      ->type_name("X");
  command
      ->add_option("--atol", options.atol, "Absolute tolerance (default of both: 0, the same bits)")
      ->type_name("X");
  command->add_flag("--ignore-dtype", options.ignore_dtype,
                    "Compare values of different types as numbers");
  command->add_flag("--strict", options.strict,
                    "Treat a different kind (np.ndarray, jax.Array) as a difference");
  command->add_flag("--json", arguments->json, "Print one JSON object (docs/cli.md)");
  command->footer(
      "Leaves are paired by name. A and B may have different formats. Without a tolerance,\n"
      "values must have the same bits: 0.0 and -0.0 differ, and NaN equals only the same NaN.\n"
      "With a tolerance, NaN equals NaN.\n"
      "\n"
      "Exit status 1: something differs. 3: something could not be read; the rest is still\n"
      "compared.\n"
      "\n"
      "Under an MPI launcher (mpirun -n 8 cairn diff ...) the processes share the bytes. Each\n"
      "process uses --memory.\n"
      "\n"
      "Examples:\n"
      "  cairn diff ckpt model.safetensors\n"
      "  cairn diff run/checkpoints run/checkpoints --step 100 --step-b 200 'params.*'\n"
      "  cairn diff ckpt half.safetensors --ignore-dtype --rtol 0.01\n"
      "  cairn diff a b --json | jq -r '.leaves[] | select(.state == \"different\") | .name'");
  command->callback([arguments, &status] { status = run_diff(*arguments, status); });
}

}  // namespace cairn::cli
