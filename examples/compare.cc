// compare.cc -- compares two checkpoints, of whatever formats, within a tolerance: compare A B.
#include <cairn/cairn.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 3) return std::fputs("usage: compare A B\n", stderr), 2;
  const auto a = cairn::open(argv[1]);
  const auto b = cairn::open(argv[2]);

  const cairn::DiffReport report = cairn::diff(*a, *b, {.rtol = 1e-5, .atol = 1e-8});
  for (const cairn::LeafDiff& leaf : report.leaves) {
    const double error = leaf.values ? leaf.values->max_abs_error.value_or(0) : 0;
    std::printf("%s differs; largest absolute error: %g\n", leaf.name.c_str(), error);
  }
  std::printf("%llu leaves are the same\n", static_cast<unsigned long long>(report.same));
  return report.equal() ? 0 : 1;
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
