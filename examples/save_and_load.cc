// save_and_load.cc -- saves a tree as an Orbax checkpoint and loads it again: save_and_load FOLDER.
#include <cairn/cairn.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: save_and_load FOLDER\n", stderr), 2;
  using cairn::Tree;

  cairn::Array kernel = cairn::Array::allocate(cairn::DType::kFloat32, {2, 3});
  auto* values = reinterpret_cast<float*>(kernel.mutable_view().data);
  std::fill(values, values + 6, 0.5F);
  const Tree state = Tree::Dict{{"kernel", kernel}, {"step", 7}};

  cairn::save(argv[1], state, {.if_exists = cairn::IfExists::kReplace});

  const Tree back = cairn::load(argv[1]);
  std::printf("step %lld, kernel of shape %s\n",
              static_cast<long long>(std::get<std::int64_t>(back.find("step")->value())),
              cairn::shape_text(back.find("kernel")->array()->shape()).c_str());
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
