// clean_up.cc -- shows what interrupted saves have left, and removes it: clean_up FOLDER [--yes].
#include <cairn/cairn.h>

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) try {
  if (argc < 2) return std::fputs("usage: clean_up FOLDER [--yes]\n", stderr), 2;
  const bool remove = argc > 2 && std::string_view(argv[2]) == "--yes";
  const auto mode = remove ? cairn::CleanMode::kRemove : cairn::CleanMode::kShow;
  for (const cairn::CleanedPath& path : cairn::clean_leftovers(argv[1], {.mode = mode}))
    std::printf("%s: %llu bytes%s%s\n", path.path.c_str(),
                static_cast<unsigned long long>(path.bytes),
                path.why.empty() ? "" : "; left alone: ", path.why.c_str());
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
