// stats.cc -- cairn stats: prints statistics of the values in each tensor.
#include "arguments/choices.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace cairn::cli {
namespace {

struct StatsOptions {
  Source source;
  std::string glob;
  std::string sort;
  bool json = false, nonfinite = false, all_steps = false;
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

// The number to sort by, the largest first; numbers that do not exist come last.
double rank(const TensorStats& s, const std::string& by) {
  const auto or_last = [](const std::optional<double>& v) {
    return v && !std::isnan(*v) ? *v : -std::numeric_limits<double>::infinity();
  };
  if (by == "min") return s.min ? -*s.min : or_last({});
  if (by == "max") return or_last(s.max);
  if (by == "mean") return or_last(s.mean);
  if (by == "std") return or_last(s.stddev);
  if (by == "zeros") return static_cast<double>(s.zeros);
  if (by == "nonfinite") return static_cast<double>(s.nans) + static_cast<double>(s.infs);
  return static_cast<double>(s.count);
}

void sort_rows(const std::string& by, std::vector<TensorStats>& rows) {
  std::ranges::stable_sort(rows, [&](const TensorStats& a, const TensorStats& b) {
    return by == "name" ? full_name(a) < full_name(b) : rank(a, by) > rank(b, by);
  });
}

// The statistics of one checkpoint: shown as they are computed, or together.
class StatsRun {
 public:
  StatsRun(const StatsOptions& options, const Checkpoint& checkpoint,
           std::optional<std::int64_t> step, std::vector<TensorStats>& all)
      : options_(options), checkpoint_(checkpoint), step_(step), all_(all) {
    std::vector<std::string> include;
    if (!options.glob.empty()) include.push_back(options.glob);
    indices_ = select_tensors(checkpoint, include);
    const auto& tensors = checkpoint.tensors();
    // A leaf of an unknown type cannot be read; tensor_stats says why.
    std::erase_if(indices_, [&](std::size_t i) {
      return tensors[i].kind != LeafKind::kUnknown &&
             (!tensors[i].is_array() || tensors[i].dtype == DType::kOpaque);
    });
    for (const std::size_t i : indices_) {
      total_ += tensors[i].nbytes;
      const std::size_t width = display_width(printable_text(tensors[i].full_name()));
      row_.name_width = std::max(row_.name_width, std::min(width, kWidestStatsName));
    }
    row_.narrow = terminal_width() < row_.name_width + kRowWidth;
  }

  int run() {
    ProgressBar bar("reading");
    int status = missing_status(checkpoint_);
    std::uint64_t done = 0;
    for (const std::size_t i : indices_) {
      try {
        add(tensor_stats(checkpoint_, i,
                         {.threads = options_.source.options.resources.threads,
                          .memory = buffer_memory(options_.source)}),
            bar);
      } catch (const Error& e) {  // the other tensors are still worth printing
        bar.erase();
        out().flush();
        print_error(e.message());
        status = kFailure;
        continue;
      }
      done += checkpoint_.tensors()[i].nbytes;
      bar.update(done, total_);
    }
    bar.erase();
    sort_rows_and_show();
    if (!indices_.empty() || options_.glob.empty()) return status;
    print_error("no array matches '" + options_.glob + "'" +
                name_suggestion(checkpoint_, options_.glob));
    return kNo;
  }

 private:
  void add(TensorStats stats, ProgressBar& bar) {
    if (options_.nonfinite && stats.nans == 0 && stats.infs == 0) return;
    ++found_;
    stats.step = step_;
    if (options_.json || !options_.sort.empty()) {
      rows_.push_back(std::move(stats));
      return;
    }
    bar.erase();
    show(stats);
    if (stdout_is_terminal()) out().flush();
  }

  void show(const TensorStats& stats) {
    if (!std::exchange(has_title_, true)) out().show(title_line(row_));
    out().show(row_text(stats, row_));
  }

  void sort_rows_and_show() {
    if (!options_.sort.empty()) sort_rows(options_.sort, rows_);
    if (options_.json) {
      std::move(rows_.begin(), rows_.end(), std::back_inserter(all_));
      return;
    }
    for (const TensorStats& stats : rows_) show(stats);
    if (options_.nonfinite && found_ == 0 && !indices_.empty())
      out().show(fmt::format("no NaN or infinity in {}\n", plural(indices_.size(), "array")));
  }

  const StatsOptions& options_;
  const Checkpoint& checkpoint_;
  std::optional<std::int64_t> step_;
  std::vector<TensorStats>& all_;
  std::vector<std::size_t> indices_;
  std::vector<TensorStats> rows_;
  RowStyle row_{4, false};
  std::uint64_t total_ = 0;
  std::size_t found_ = 0;
  bool has_title_ = false;
};

std::vector<std::int64_t> steps_of(const std::string& path) {
  try {
    auto steps = step_numbers(path);
    if (steps.empty()) throw UsageError(path + " is not a root of steps");
    return steps;
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw Failure(e.message());
  }
}

int run_stats(StatsOptions& options) {
  std::vector<TensorStats> all;
  int status = kGood;
  if (!options.all_steps) {
    const auto checkpoint = open_source(options.source);
    status = StatsRun(options, *checkpoint, std::nullopt, all).run();
  } else {
    if (options.source.options.step)
      throw UsageError("one step and all steps were requested; choose one of them");
    for (const std::int64_t step : steps_of(options.source.path)) {
      options.source.options.step = step;
      if (!options.json) out().show(fmt::format("step {}\n", step));
      try {
        const auto checkpoint = open_source(options.source);
        status = std::max(status, StatsRun(options, *checkpoint, step, all).run());
      } catch (const Failure& e) {  // the other steps are still worth printing
        out().flush();
        print_error(e.message());
        status = kFailure;
      }
    }
  }
  if (options.json) out().show_json(stats_json(all));
  return status;
}

}  // namespace

void setup_stats(CLI::App& app, int& status) {
  const auto options = std::make_shared<StatsOptions>();
  CLI::App* command = app.add_subcommand(
      "stats", "Show min, max, mean, std, zeros, NaN, Inf and a histogram of each tensor");
  add_source(*command, options->source);
  add_dequantize(*command, options->source);
  command->add_option("GLOB", options->glob, "Only names that match");
  command->add_flag("--nonfinite", options->nonfinite, "Show only arrays with NaN or infinities");
  check_choice(command->add_option("--sort", options->sort,
                                   "name, size, min (the smallest first), or the largest first by\n"
                                   "max, mean, std, zeros or nonfinite (default: the order of the\n"
                                   "tree)"),
               {"name", "size", "min", "max", "mean", "std", "zeros", "nonfinite"})
      ->type_name("BY");
  command->add_flag("--all-steps", options->all_steps, "Summarise every step of a step root");
  command->add_flag("--json", options->json,
                    "Print a JSON list of objects (docs/reference/json.md)");
  command->footer(
      "Min, max, mean, std and the histogram (16 equal bins from min to max) cover the finite\n"
      "values. They are computed in float64. Complex numbers count by absolute value.\n"
      "\n"
      "Examples:\n"
      "  cairn stats ckpt 'params.*' --sort std\n"
      "  cairn stats run/checkpoints --all-steps --nonfinite\n"
      "  cairn stats ckpt --json | jq '.[] | select(.nans > 0) | .name'");
  command->callback([options, &status] { status = run_stats(*options); });
}

}  // namespace cairn::cli
