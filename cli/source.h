// source.h -- the options by which every command names the checkpoint it reads, and parsers for
// their values.
#pragma once

#include <cairn/cairn.h>

#include <CLI/App.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::cli {

// Wrong usage: the exit status is 2.
struct UsageError : Error {
  explicit UsageError(std::string message) : Error(Code::kInvalidArgument, std::move(message)) {}
};
// A problem that correct usage cannot avoid, whatever its original code: the exit status is 3.
struct Failure : Error {
  explicit Failure(std::string message) : Error(Code::kIo, std::move(message)) {}
};
// Runs f and turns an Error into a UsageError.
template <class F>
auto as_usage(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw UsageError(e.message());
  }
}

struct Source {
  std::string path;
  std::string at_time;
  std::string memory = "1GiB";
  OpenOptions options;
  bool dequantize = false;
  std::optional<DType> dequantized_type = {};  // none: that of the model
  bool transforms = false;                     // rules are applied to what was opened
};

// Adds the checkpoint as a positional argument, and the options --step, --item,
// --allow-uncommitted, --allow-missing, --generation, --at-time, --threads and --memory, and those
// of stores.
void add_source(CLI::App& command, Source& source, const char* positional = "CKPT");
// The same without the positional argument.
void add_reading_options(CLI::App& command, Source& source);
// Adds --dequantize.
void add_dequantize(CLI::App& command, Source& source);
// Makes the option reject an empty path as wrong usage.
CLI::Option* check_path(CLI::Option* option);
// Makes the option reject "", which CLI11 reads as the number 0, and sizes as "not given".
CLI::Option* check_not_empty(CLI::Option* option);
// Makes the option reject everything but a decimal number that fits the type, as wrong usage.
CLI::Option* check_int64(CLI::Option* option);
CLI::Option* check_uint64(CLI::Option* option);
// Checks and completes source.options.
void finish_options(Source& source);
// What opening does about parts that the checkpoint records and lacks. kName: it names them on
// standard error. kLeave: the command itself refuses them or names them.
enum class MissingParts : std::uint8_t { kName, kLeave };
// Opens the checkpoint, and dequantises it if the user asks for that. Every error becomes a
// Failure.
std::unique_ptr<Checkpoint> open_source(Source& source, MissingParts missing = MissingParts::kName);
// Returns kFailure if the checkpoint lacks a part that it records, unless the user allows that.
// open_source() has named the part.
int missing_status(const Checkpoint& checkpoint);
// Returns the exit status of a command that shows what is there: missing_status(), or kFailure
// after printing an error if some tensors cannot be read.
int status_of(const Checkpoint& checkpoint);
// Prints a line to standard error for each item of the source that a conversion left out.
void print_left_out(const ConvertReport& report);
// Lines "LABEL FIRST ARROW SECOND" for the first ten pairs, and the number of the others.
std::string list_text(std::string_view label,
                      const std::vector<std::pair<std::string, std::string>>& entries,
                      std::string_view arrow);
// The weights that --dequantize has made: "dequant. a.weight -- fp8, blocks of 128 x 128".
std::string dequantized_text(const ConvertReport& report);
// Adds --exclude GLOB.
void add_exclude(CLI::App& command, std::vector<std::string>& exclude);
// Suggests names that are like a glob without wildcards.
std::string name_suggestion(const Checkpoint& checkpoint, const std::string& glob);
// As status_of(checkpoint), but kNo after printing an error if the globs selected nothing.
int selected_status(const Checkpoint& checkpoint, std::span<const std::size_t> selected,
                    const std::string& glob, const std::vector<std::string>& exclude);
// The shares of the --memory budget.
MemoryShares memory_shares(const Source& source);
// The part of the --memory budget that a command may use for its own buffers.
std::uint64_t buffer_memory(const Source& source);

// Parses a size such as "1GiB", "512M", "2GB" or "100000". K, M, G, T and KiB, MiB, ... are powers
// of 1024; KB, MB, ... are powers of 1000.
std::uint64_t parse_size(const std::string& text);
// Parses auto, none, zstd, zstd:LEVEL, blosc or blosc:LEVEL.
Compression parse_compression(const std::string& text);
// Returns nanoseconds since 1970. Accepts "2026-07-01T12:00:00Z", "2026-07-01 12:00:00.25",
// "2026-07-01" (UTC), or a number of nanoseconds.
std::uint64_t parse_time(const std::string& text);

}  // namespace cairn::cli
