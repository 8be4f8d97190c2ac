// source.cc -- finds and opens the checkpoint that the user names.
#include "source.h"

#include "arguments/stores.h"
#include "commands.h"
#include "ranks.h"
#include "screen/terminal.h"
#include "screen/text.h"

#include <fmt/format.h>
#include <CLI/Validators.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>

namespace cairn::cli {
namespace {

constexpr const char* kReading = "Reading";

bool parse_digits(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Converts the digits after a decimal point to nanoseconds. Returns false if they are not digits,
// or not 1 to 9 of them.
bool parse_fraction(std::string_view digits, std::uint64_t& nanoseconds) {
  if (digits.empty() || digits.size() > 9) return false;
  if (!parse_digits(digits, nanoseconds)) return false;
  for (std::size_t i = digits.size(); i < 9; ++i) nanoseconds *= 10;
  return true;
}

// Replaces CLI11's own parser, which reads "010" as octal and "99999999999999999999" as the largest
// number that fits.
template <class Number>
CLI::Option* check_number(CLI::Option* option) {
  const CLI::Validator decimal(
      [](std::string& text) -> std::string {
        Number number = 0;
        const char* end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, number);
        if (std::is_unsigned_v<Number> && text.starts_with('-')) return text + " is negative";
        if (read.ec == std::errc::result_out_of_range) return text + " does not fit into 64 bits";
        if (read.ec != std::errc() || read.ptr != end)
          return "'" + text + "' is not a whole number";
        text = std::to_string(number);
        return "";
      },
      "");  // the default validator would add its name to the type that --help shows
  return option->transform(decimal);
}

}  // namespace

CLI::Option* check_path(CLI::Option* option) {
  return option->check(CLI::Validator(
      [](std::string& text) { return std::string(text.empty() ? "the path is empty" : ""); }, ""));
}

CLI::Option* check_not_empty(CLI::Option* option) {
  return option->check(CLI::Validator(
      [](std::string& text) { return std::string(text.empty() ? "the value is empty" : ""); }, ""));
}

CLI::Option* check_int64(CLI::Option* option) { return check_number<std::int64_t>(option); }
CLI::Option* check_uint64(CLI::Option* option) { return check_number<std::uint64_t>(option); }

std::uint64_t parse_size(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  constexpr std::string_view kPrefixes = "KMGT";
  double scale = 1;
  bool known = unit.empty() || unit == "B";
  if (!known) {
    const auto power = kPrefixes.find(static_cast<char>(unit[0] & ~0x20));
    const std::string rest = unit.substr(1);
    known = power != std::string_view::npos && (rest.empty() || rest == "iB" || rest == "B");
    if (known) scale = std::pow(rest == "B" ? 1000 : 1024, static_cast<double>(power + 1));
  }
  const double bytes = number * scale;
  if (error != std::errc() || !known || !(bytes >= 1) || bytes > 9e18)
    throw UsageError(
        "'" + text +
        "' is not a size: expected a number with an optional unit, such as 1GiB, 512M or 2GB");
  return static_cast<std::uint64_t>(bytes);
}

Compression parse_compression(const std::string& text) {
  return as_usage([&] {
    return with_context([] { return std::string("--compression"); },
                        [&] { return compression_from_text(text); });
  });
}

std::uint64_t parse_time(const std::string& text) {
  std::uint64_t nanoseconds = 0;
  if (parse_digits(text, nanoseconds) && text.size() > 10) return nanoseconds;
  nanoseconds = 0;
  std::string rest = text;
  if (!rest.empty() && (rest.back() == 'Z' || rest.back() == 'z')) rest.pop_back();
  bool good = true;
  if (const auto point = rest.find('.'); point != std::string::npos) {
    good = parse_fraction(std::string_view(rest).substr(point + 1), nanoseconds);
    rest.resize(point);
  }
  std::tm parts{};
  bool matched = false;
  for (const char* pattern :
       {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
    parts = {};
    const char* end = ::strptime(rest.c_str(), pattern, &parts);
    matched = end != nullptr && *end == '\0';
    if (matched) break;
  }
  const int day = parts.tm_mday;
  const std::time_t seconds = ::timegm(&parts);  // makes March 2 of February 30
  if (!good || !matched || seconds < 0 || parts.tm_mday != day)
    throw UsageError(
        "'" + text +
        "' is not a time: expected UTC such as 2026-07-01T12:00:00Z, or nanoseconds since 1970");
  return static_cast<std::uint64_t>(seconds) * 1'000'000'000U + nanoseconds;
}

void add_source(CLI::App& command, Source& source, const char* positional) {
  check_path(command.add_option(positional, source.path,
                                "Checkpoint: a directory or file of any format, or a URL"))
      ->required();
  add_reading_options(command, source);
}

void add_reading_options(CLI::App& command, Source& source) {
  check_int64(command.add_option("--step", source.options.step,
                                 "Step of a step root (default: the latest complete one)"))
      ->type_name("N")
      ->group(kReading);
  command.add_option("--item", source.options.item, "Item of a composite checkpoint")
      ->type_name("NAME")
      ->group(kReading);
  command
      .add_flag("--allow-uncommitted", source.options.allow_uncommitted,
                "Open the checkpoint even if it is unfinished")
      ->group(kReading);
  command
      .add_flag("--allow-missing", source.options.allow_missing,
                "Open a checkpoint from which recorded parts are missing, and use the rest")
      ->group(kReading);
  auto* generation =
      command.add_option("--generation", source.options.version.generation,
                         "Read this version of the OCDBT database (default: the newest)");
  check_uint64(generation)->type_name("N")->group(kReading);
  command
      .add_option(
          "--at-time", source.at_time,
          "Read the newest OCDBT version committed by TIME (UTC), such as 2026-07-01T12:00:00Z")
      ->type_name("TIME")
      ->excludes(generation)
      ->group(kReading);
  command
      .add_option("--metadata-key", source.options.metadata_key,
                  "File name of array metadata, if not .zarray or zarr.json")
      ->type_name("NAME")
      ->group(kReading);
  check_uint64(command.add_option("--threads", source.options.resources.threads,
                                  "Worker threads (default: one per core)"))
      ->type_name("N")
      ->group(kReading);
  command.add_option("--memory", source.memory, "Working memory (default: 1GiB)")
      ->type_name("SIZE")
      ->group(kReading);
  add_store_options(command, source.options.store);
}

void add_dequantize(CLI::App& command, Source& source) {
  command
      .add_flag("--dequantize", source.dequantize,
                "Replace quantised weights by floating-point arrays, and drop\n"
                "their scales: FP8, MXFP4, INT4, PyTorch (docs/guides/dequantize.md)")
      ->group(kReading);
}

MemoryShares memory_shares(const Source& source) {
  MemoryShares shares =
      divide_memory(parse_size(source.memory), source.dequantize || source.transforms);
  if (source.dequantize && source.transforms) shares.transforming /= 2;
  return shares;
}

std::uint64_t buffer_memory(const Source& source) { return memory_shares(source).writing; }

void finish_options(Source& source) {
  source.options.resources.memory = memory_shares(source).reading;
  if (!source.at_time.empty()) source.options.version.commit_time_ns = parse_time(source.at_time);
}

int missing_status(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  return info.missing.empty() || info.allow_missing ? kGood : kFailure;
}

int status_of(const Checkpoint& checkpoint) {
  std::size_t unreadable = 0;
  const TensorInfo* first = nullptr;
  for (const auto& t : checkpoint.tensors()) {
    if (t.is_described()) continue;
    ++unreadable;
    if (first == nullptr) first = &t;
  }
  if (first == nullptr) return missing_status(checkpoint);
  out().flush();
  print_error(plural(unreadable, "tensor") + " cannot be read, the first: " + first->full_name() +
              ": " + first->error + "; cairn verify lists all");
  return kFailure;
}

void print_left_out(const ConvertReport& report) {
  for (const auto& [name, why] : report.left_out) warn("left out '" + name + "': " + why);
}

std::string list_text(std::string_view label,
                      const std::vector<std::pair<std::string, std::string>>& entries,
                      std::string_view arrow) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (std::size_t i = 0; i < entries.size() && i < kShown; ++i)
    text += fmt::format("{} {} {} {}\n", label, printable_text(entries[i].first), arrow,
                        printable_text(entries[i].second));
  if (entries.size() > kShown)
    text += fmt::format("{} {} more (--json lists all)\n", label, entries.size() - kShown);
  return text;
}

std::string dequantized_text(const ConvertReport& report) {
  if (!report.dequantized) return "";
  if (report.dequantized->empty()) return "dequant. nothing: no weight is quantised\n";
  return list_text("dequant.", *report.dequantized, "--");
}

void add_exclude(CLI::App& command, std::vector<std::string>& exclude) {
  command.add_option("--exclude", exclude, "Skip names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
}

std::string name_suggestion(const Checkpoint& checkpoint, const std::string& glob) {
  if (glob.find_first_of("*?[") != std::string::npos) return "";
  std::vector<std::string> names;
  for (const TensorInfo& tensor : checkpoint.tensors()) names.push_back(tensor.full_name());
  return did_you_mean(glob, names);
}

int selected_status(const Checkpoint& checkpoint, std::span<const std::size_t> selected,
                    const std::string& glob, const std::vector<std::string>& exclude) {
  if (!selected.empty() || (glob.empty() && (exclude.empty() || checkpoint.tensors().empty())))
    return status_of(checkpoint);
  out().flush();
  print_error(exclude.empty()
                  ? "no tensor matches '" + glob + "'" + name_suggestion(checkpoint, glob)
              : glob.empty() ? "--exclude leaves no tensor"
                             : "no tensor that --exclude leaves matches '" + glob + "'");
  return kNo;
}

namespace {

void print_warnings(const CheckpointInfo& info, MissingParts missing) {
  const auto is_missing = [&](const std::string& text) {
    return std::ranges::find(info.missing, text, &MissingPart::text) != info.missing.end();
  };
  for (const std::string& warning : info.warnings)
    if (missing == MissingParts::kName || !is_missing(warning)) warn(warning);
}

}  // namespace

std::unique_ptr<Checkpoint> open_source(Source& source, MissingParts missing) {
  finish_options(source);
  const DequantizeOptions dequantized{.dtype = source.dequantized_type,
                                      .store = source.options.store,
                                      .resources = {.threads = source.options.resources.threads,
                                                    .memory = memory_shares(source).transforming}};
  try {
    std::unique_ptr<Checkpoint> checkpoint;
    do_together(job(), "cairn: open", [&] {
      checkpoint = open(source.path, source.options);
      if (source.dequantize) checkpoint = dequantize(std::move(checkpoint), dequantized).checkpoint;
      return Bytes();
    });
    print_warnings(checkpoint->info(), missing);
    return checkpoint;
  } catch (const Error& e) {
    throw Failure(e.message());
  }
}

}  // namespace cairn::cli
