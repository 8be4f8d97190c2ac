// source.h -- the options by which every command names the checkpoint it reads, and the texts they
// take.
#pragma once

#include <cairn/cairn.h>

#include <CLI/App.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace cairn::cli {

// Wrong usage: exit status 2.
struct UsageError : Error {
  explicit UsageError(std::string message) : Error(Code::kInvalidArgument, std::move(message)) {}
};
// A problem that is not the user's wording, whatever its code was: exit status 3.
struct Failure : Error {
  explicit Failure(std::string message) : Error(Code::kIo, std::move(message)) {}
};
// Runs f; an Error is a matter of wrong usage.
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
};

// The checkpoint as a positional and the options --step, --item, --allow-uncommitted, --generation,
// --at-time, --threads, --memory.
void add_source(CLI::App& command, Source& source, const char* positional = "CKPT");
// Makes an empty path wrong usage.
CLI::Option* check_path(CLI::Option* option);
// Makes wrong usage of everything but a decimal number that fits the type.
CLI::Option* check_int64(CLI::Option* option);
CLI::Option* check_uint64(CLI::Option* option);
// Checks and completes source.options.
void finish_options(Source& source);
// Opens it. Whatever stands in the way is a Failure.
std::unique_ptr<Checkpoint> open_source(Source& source);
// How a command that shows metadata ends: kGood, or kFailure with a complaint if tensors cannot be
// read.
int status_of(const Checkpoint& checkpoint);
// The budget of --memory that is left for a command's own buffers.
std::uint64_t buffer_memory(const Source& source);

// "1GiB", "512M", "2GB", "100000": K, M, G, T and KiB ... are powers of 1024, KB ... powers of
// 1000.
std::uint64_t parse_size(const std::string& text);
// auto, none, zstd, zstd:LEVEL, blosc, blosc:LEVEL.
Compression parse_compression(const std::string& text);
// Nanoseconds since 1970 from "2026-07-01T12:00:00Z", "2026-07-01 12:00:00.25", "2026-07-01" (UTC),
// or such a number.
std::uint64_t parse_time(const std::string& text);

}  // namespace cairn::cli
