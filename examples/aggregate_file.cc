// aggregate_file.cc -- stores a whole tree in one msgpack file, as older versions of Orbax stored
// small values beside the arrays, and reads it back: aggregate_file FOLDER.
#include <cairn/cairn.h>
#include <cairn/orbax/aggregate_handler.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: aggregate_file FOLDER\n", stderr), 2;
  std::filesystem::create_directories(argv[1]);
  const std::string file = std::string(argv[1]) + "/checkpoint";

  const std::vector<float> numbers = {0.1F, 0.01F, 0.001F};
  const cairn::Tree state{
      {"learning_rates", cairn::Array::from<float>(numbers, {3})}, {"name", "adam"}, {"step", 100}};
  const cairn::MsgpackHandler handler;
  handler.serialize(file, state);

  const cairn::Tree back = handler.deserialize(file);
  const bool good = back == state;  // the order of the members does not count
  std::puts(good ? "the tree came back" : "the tree is not what was stored");
  return good ? 0 : 1;
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
