// stats.cc -- cairn stats: prints statistics of the values in each tensor.
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cairn::cli {
namespace {

struct StatsOptions {
  Source source;
  std::string glob;
  bool json = false;
};

constexpr std::size_t kWidestStatsName = 48;

// Draws the histogram with eight heights, one character for each bin.
std::string sparkline(const std::vector<std::uint64_t>& bins) {
  constexpr std::array kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::uint64_t most = bins.empty() ? 0 : *std::max_element(bins.begin(), bins.end());
  std::string text;
  for (const std::uint64_t n : bins) {
    if (n == 0)
      text += ' ';
    else
      text +=
          kBars[static_cast<std::size_t>(static_cast<double>(n) / static_cast<double>(most) * 7.0)];
  }
  return text;
}

// "-" also for a result that does not fit float64.
std::string number(const std::optional<double>& v) {
  return v && std::isfinite(*v) ? fmt::format("{:.4g}", *v) : "-";
}

std::string count(std::uint64_t n, std::string_view paint) {
  constexpr std::uint64_t kWide = 1'000'000'000;  // wider than the column
  const std::string text = fmt::format("{:>9}", n == 0      ? "-"
                                                : n < kWide ? std::to_string(n)
                                                            : short_count_text(n));
  return n == 0 || paint.empty() ? text
                                 : std::string(paint) + text + std::string(stdout_style().reset);
}

// Each row is printed as soon as it is ready, so the columns have fixed widths. On a narrow
// terminal the name has its own line, with the histogram if there is room.
struct RowStyle {
  std::size_t name_width = 0;
  bool narrow = false;
};
constexpr std::size_t kRowWidth = 105;     // all columns after the name
constexpr std::size_t kNumbersWidth = 73;  // from min to Inf

std::string title_line(const RowStyle& row) {
  const Style& style = stdout_style();
  const std::string numbers = fmt::format("{:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9}", "min",
                                          "max", "mean", "std", "zeros", "NaN", "Inf");
  if (row.narrow) return fmt::format("{}name  dtype\n{}{}\n", style.dim, numbers, style.reset);
  return fmt::format("{}{:<{}}  {:<9} {}  {}{}\n", style.dim, "name", row.name_width, "dtype",
                     numbers, "histogram", style.reset);
}

std::string row_text(const TensorStats& s, const RowStyle& row) {
  const Style& style = stdout_style();
  std::string name = printable_text(full_name(s));
  const std::string numbers = fmt::format(
      "{:>10} {:>10} {:>10} {:>10} {} {} {}", number(s.min), number(s.max), number(s.mean),
      number(s.stddev), count(s.zeros, {}), count(s.nans, style.red), count(s.infs, style.red));
  if (row.narrow) {
    std::string bars;
    const std::size_t used = display_width(name) + s.dtype_name.size() + 4 + s.histogram.size();
    if (used <= kNumbersWidth && !s.histogram.empty())
      bars = fmt::format("{}  {}{}{}", std::string(kNumbersWidth - used, ' '), style.green,
                         sparkline(s.histogram), style.reset);
    return fmt::format("{}  {}{}{}{}\n{}\n", name, style.cyan, s.dtype_name, style.reset, bars,
                       numbers);
  }
  name.append(row.name_width > display_width(name) ? row.name_width - display_width(name) : 0, ' ');
  return fmt::format("{}  {}{:<9}{} {}  {}{}{}\n", name, style.cyan, s.dtype_name, style.reset,
                     numbers, style.green, sparkline(s.histogram), style.reset);
}

int run_stats(StatsOptions& options) {
  const auto checkpoint = open_source(options.source);
  const auto& tensors = checkpoint->tensors();
  std::vector<std::string> include;
  if (!options.glob.empty()) include.push_back(options.glob);
  auto indices = select_tensors(*checkpoint, include);
  // A leaf of an unknown type cannot be read; tensor_stats says why.
  std::erase_if(indices, [&](std::size_t i) {
    return tensors[i].kind != LeafKind::kUnknown &&
           (!tensors[i].is_array() || tensors[i].dtype == DType::kOpaque);
  });
  std::uint64_t total = 0;
  RowStyle row{4, false};
  for (const std::size_t i : indices) {
    total += tensors[i].nbytes;
    const std::size_t width = display_width(printable_text(tensors[i].name)) +
                              (tensors[i].item ? tensors[i].item->size() + 1 : 0);
    row.name_width = std::max(row.name_width, std::min(width, kWidestStatsName));
  }
  row.narrow = terminal_width() < row.name_width + kRowWidth;
  ProgressBar bar("reading");
  std::uint64_t done = 0;
  std::vector<TensorStats> all;
  int status = missing_status(*checkpoint);
  if (!options.json && !indices.empty()) out().show(title_line(row));
  for (const std::size_t i : indices) {
    TensorStats stats;
    try {
      stats = tensor_stats(*checkpoint, i,
                           {.threads = options.source.options.resources.threads,
                            .memory = buffer_memory(options.source)});
    } catch (const Error& e) {  // the other tensors are still worth printing
      bar.erase();
      out().flush();
      print_error(e.message());
      status = kFailure;
      continue;
    }
    done += tensors[i].nbytes;
    if (options.json) {
      all.push_back(std::move(stats));
    } else {
      bar.erase();
      out().show(row_text(stats, row));
      if (stdout_is_terminal()) out().flush();
    }
    bar.update(done, total);
  }
  bar.erase();
  if (options.json) out().show_json(stats_json(all));
  if (!indices.empty() || include.empty()) return status;
  print_error("no array matches '" + options.glob + "'");
  return kNo;
}

}  // namespace

void setup_stats(CLI::App& app, int& status) {
  const auto options = std::make_shared<StatsOptions>();
  CLI::App* command = app.add_subcommand(
      "stats", "Show min, max, mean, std, zeros, NaN, Inf and a histogram of each tensor");
  add_source(*command, options->source);
  command->add_option("GLOB", options->glob, "Only names that match");
  command->add_flag("--json", options->json, "Print a JSON list of objects (docs/cli.md)");
  command->footer(
      "Min, max, mean, std and the histogram (16 equal bins from min to max) cover the finite\n"
      "values. They are computed in float64. Complex numbers count by absolute value.\n"
      "\n"
      "Examples:\n"
      "  cairn stats ckpt 'params.*'\n"
      "  cairn stats ckpt --json | jq '.[] | select(.nans > 0) | .name'");
  command->callback([options, &status] { status = run_stats(*options); });
}

}  // namespace cairn::cli
