// bench.cc -- cairn bench: measures this machine's storage, and Cairn's speed on it.
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

struct BenchArguments {
  std::string folder = ".";
  std::string size = "1GiB";
  std::vector<std::size_t> threads;
  bool json = false;
};

std::string rate_text(const BenchFigure& figure) {
  return fmt::format("{:.2f} GB/s", static_cast<double>(figure.bytes) / figure.seconds / 1e9);
}

// A row for each number of threads, a column for each measurement.
void show_by_threads(const std::vector<ThreadFigures>& all) {
  if (all.empty()) return;
  std::vector<Column> columns = {{"threads", Align::kRight, {}}};
  for (const char* title : {"save", "read", "restore", "cached", "small: save", "restore", "waits"})
    columns.push_back({title, Align::kRight, {}});
  Table table(std::move(columns));
  for (const ThreadFigures& one : all) {
    std::vector<std::string> row = {std::to_string(one.threads)};
    std::uint64_t waits = 0;
    for (const BenchFigure& figure : one.figures) {
      const bool is_small = row.size() > 4;
      row.push_back(is_small ? duration_text(figure.seconds) : rate_text(figure));
      if (is_small) waits += figure.waits;
    }
    row.push_back(std::to_string(waits));
    table.add(std::move(row));
  }
  out().show("\n" + table.text(true));
}

void show(const BenchReport& report) {
  out().show(fmt::format("{} on {}, {} free; {}; {} of float32 in 8 arrays\n",
                         printable_text(report.folder), report.file_system,
                         bytes_text(report.free_bytes), plural(report.threads, "thread"),
                         bytes_text(report.size)));
  Table table({{"", Align::kLeft, {}}, {"", Align::kRight, {}}, {"", Align::kRight, {}}});
  const auto add = [&](const char* title, const std::vector<BenchFigure>& figures) {
    table.add({title, "", ""});
    for (const BenchFigure& figure : figures)
      table.add({"  " + figure.name, rate_text(figure), duration_text(figure.seconds)});
  };
  add("this machine", report.machine);
  add("Cairn", report.cairn);
  out().show(table.text(false));
  out().show(report.why_buffered.empty()
                 ? "Large checkpoints are written here past the page cache (O_DIRECT).\n"
                 : "Checkpoints are written here through the page cache: " + report.why_buffered +
                       ".\n");
  show_by_threads(report.by_threads);
}

void run_bench(const BenchArguments& arguments) {
  BenchOptions options;
  options.size = as_usage([&] { return parse_size(arguments.size); });
  options.threads = arguments.threads;
  const fs::path base(arguments.folder);
  if (std::error_code ignored; !fs::is_directory(base, ignored))
    throw Failure(arguments.folder + ": is not a folder");
  const std::string folder =
      fs::absolute(base / fmt::format("cairn-bench-{}", getpid())).lexically_normal().string();
  ProgressBar bar("bench");
  options.progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
  const BenchReport report = bench_folder(folder, options);
  bar.erase();
  arguments.json ? out().show_json(bench_json(report)) : show(report);
}

}  // namespace

void setup_bench(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure the speed of the storage, and of Cairn on it");
  auto* folder = command->add_option("DIR", arguments->folder,
                                     "The folder to measure; default: the current one");
  check_path(check_local(*command, folder,
                         "measures local folders only; cairn verify reads all of a checkpoint in a "
                         "store, and says how long that took"))
      ->default_str("");
  command
      ->add_option("--size", arguments->size, "Bytes to write at a time; uses twice as much memory")
      ->default_str("1GiB");
  command
      ->add_option("--threads", arguments->threads,
                   "Also save and restore with each of these numbers of threads: 1,2,4,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N,...")
      ->default_str("");
  command->add_flag("--json", arguments->json, "Print one JSON object (docs/reference/json.md)");
  command->footer(
      "Writes SIZE bytes of random numbers below DIR and reads them back, past the page\n"
      "cache and through it. Then saves them as a checkpoint and restores it. All files are in\n"
      "DIR/cairn-bench-PID. They are removed at the end, also after Ctrl-C.\n"
      "\n"
      "A save cannot be faster than the faster of the two ways to write. A restore cannot be\n"
      "faster than the read from the same place. A small SIZE fits into the disk's own cache\n"
      "and makes the disk look faster than it is. --size 8GiB is more accurate.\n"
      "\n"
      "--threads adds a table. Its columns: save; read the files, not in the page cache; restore\n"
      "from the disk; restore from the page cache; save and restore 10,000 tensors of 1 KiB, and\n"
      "how often a thread waited meanwhile. A thread has one request to the storage at a time.\n"
      "\n"
      "Examples:\n"
      "  cairn bench /checkpoints\n"
      "  cairn bench /checkpoints --threads 1,2,4,8,16\n"
      "  cairn bench /mnt/nfs --size 4GiB --json");
  command->callback([arguments, &status] {
    run_bench(*arguments);
    status = kGood;
  });
}

}  // namespace cairn::cli
