// save_and_load.cc -- saves a tree as an Orbax checkpoint and loads it again: save_and_load FOLDER.
#include <cairn/cairn.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: save_and_load FOLDER\n", stderr), 2;
  using cairn::Tree;

  const auto kernel = cairn::Array::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tree state{{"params", {{"kernel", kernel}}}, {"step", 7}};

  cairn::save(argv[1], state, {.if_exists = cairn::IfExists::kReplace});

  const Tree back = cairn::load(argv[1]);
  const cairn::Array& loaded = *back.at("params/kernel").array();
  std::printf("kernel of shape %s, last value %g, %s\n", cairn::shape_text(loaded.shape()).c_str(),
              static_cast<double>(loaded.as<float>().back()),
              back == state ? "all equal" : "not all equal");
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
