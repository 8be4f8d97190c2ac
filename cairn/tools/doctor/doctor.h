// doctor.h -- what Cairn has to work with on this machine: versions, processor, memory, libraries,
// credentials, and a place for checkpoints. For bug reports, and for users who wonder.
#pragma once

#include <cairn/storage/store_options.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::doctor {

// kNote: everything works, but slower or with fewer features. kProblem: something that Cairn needs
// is missing.
enum class CheckResult : std::uint8_t { kGood, kNote, kProblem };

// One fact about this machine.
struct Check {
  std::string section;  // "libraries"
  std::string name;     // "zstd"; no other check of the section has this name
  CheckResult result = CheckResult::kGood;
  std::string value;                        // "1.5.6", "yes", "ext4"; "" for a size. No secret
  std::optional<std::uint64_t> bytes = {};  // a size
  std::string advice = {};                  // what it means, and what to do; "" if kGood
};

// Cairn and its compiler, the system, the libraries, the processor, and the limits of memory, files
// and processors. Reads /proc and /sys; starts nothing and asks no network.
std::vector<Check> check_machine();

// The libraries that URLs need, and which credentials Cairn would use for s3://, gs:// and hf://:
// the names of variables, files and services. Reads the environment and files; asks no network.
// kNote where something is missing.
std::vector<Check> check_stores(const StoreOptions& options = {});

// What is known of a place for checkpoints, a local path or a URL. Throws not_found if nothing is
// at the path, invalid_argument or unimplemented for a URL that Cairn does not know.
//
// Of a path: what its file system can do. Writes small files into a new folder in it, or beside it
// if it is a file, and removes them.
// Of a URL: whether the store answers. Asks for what is below it and writes nothing. A store that
// does not answer is kProblem, also if this machine lacks the libraries or the credentials.
std::vector<Check> check_place(const std::string& place, const StoreOptions& options = {});

// One JSON object with `ok`, `version`, `path` (null if it is "") and `checks`.
std::string checks_json(const std::vector<Check>& checks, const std::string& path);

}  // namespace cairn::inline v0::doctor
