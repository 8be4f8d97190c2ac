// Saves a checkpoint and reads it: links the library, and its codecs run.
#include <cairn/cairn.h>

#include <cstdio>
#include <vector>

int main() {
  const std::vector<float> numbers(1024, 0.5F);
  cairn::save("saved", {{"w", cairn::Array::from<float>(numbers, {32, 32})}},
              {.if_exists = cairn::IfExists::kReplace});
  std::printf("cairn %s: %zu bytes\n", cairn::version().data(),
              cairn::open("saved")->read("w").bytes().size());
  return 0;
}
