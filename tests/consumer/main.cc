#include <cairn/cairn.h>

#include <cstdio>

int main(int, char** argv) {
  const auto checkpoint = cairn::open(argv[1]);
  for (const auto& tensor : checkpoint->tensors())
    std::printf("%s %s %s\n", tensor.name.c_str(), tensor.dtype_name.c_str(),
                cairn::shape_text(tensor.shape).c_str());
  return checkpoint->tensors().empty() ? 1 : 0;
}
