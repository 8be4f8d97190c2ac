// ocdbt_tool.cc -- commits to an OCDBT database what it reads from standard input, so that the
// tests can run it beside TensorStore. Arguments: the folder, then options, as
// tests/ocdbt/commands.h has them, and sync=0.
#include <iostream>
#include <string>

#include "tests/ocdbt/commands.h"

int main(int argc, char** argv) {
  try {
    std::string words;
    for (int i = 2; i < argc; ++i) words += std::string(argv[i]) + " ";
    const auto given = cairn::ocdbt::testing::parse_options(words);
    const bool synced = !given.contains("sync") || given.at("sync") != "0";
    const auto store = cairn::open_file_store(
        argv[1], synced ? cairn::Durability::kSynced : cairn::Durability::kUnsynced);
    cairn::ocdbt::testing::run_commands(store, given, std::cin, std::cout);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
