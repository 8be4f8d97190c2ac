// stores.h -- the options that say how to reach an object store, and places that cannot be in one.
#pragma once

#include <cairn/storage/store_options.h>

#include <CLI/App.hpp>

#include <string>

namespace cairn::cli {

// Adds --endpoint, --region, --profile, --anonymous, --ca-file and --no-verify-tls. None of them
// takes a secret: other users of the machine can read the arguments of a command.
void add_store_options(CLI::App& command, StoreOptions& store);
// Makes the option refuse the URL of a store as wrong usage, before any work. `why` follows the
// name of the command, and says what to do: "writes local files only; ..."
CLI::Option* check_local(const CLI::App& command, CLI::Option* option, const std::string& why);
// Throws UsageError if --endpoint would count for two URLs of different kinds.
void check_one_server(const std::string& source, const std::string& target,
                      const StoreOptions& store);
}  // namespace cairn::cli
