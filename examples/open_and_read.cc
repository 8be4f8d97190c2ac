// open_and_read.cc -- opens a checkpoint of any format, reads one tensor whole and a slice of it:
// open_and_read PATH [NAME].
#include <cairn/cairn.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: open_and_read PATH [NAME]\n");
    return 2;
  }
  const auto checkpoint = cairn::open(argv[1]);
  std::printf("%s: %s\n", checkpoint->info().format.c_str(), checkpoint->info().layout.c_str());

  const auto& tensors = checkpoint->tensors();
  const auto first = std::find_if(tensors.begin(), tensors.end(),
                                  [](const auto& t) { return t.is_array() && !t.shape.empty(); });
  if (first == tensors.end()) return 1;
  const auto& tensor = argc > 2 ? checkpoint->info(argv[2]) : *first;

  // Everything, into memory of its own.
  const cairn::Array all = checkpoint->read(tensor.name);
  std::printf("%s %s %s, %zu bytes\n", tensor.name.c_str(), tensor.dtype_name.c_str(),
              cairn::shape_text(all.shape()).c_str(), all.bytes().size());

  // The first row only: no more is read than the chunks that hold it.
  cairn::Box row = cairn::Box::whole(tensor.shape);
  if (!row.shape.empty()) row.shape[0] = std::min<std::int64_t>(row.shape[0], 1);
  cairn::Array part = cairn::Array::allocate(tensor.dtype, tensor.element_size, row.shape);
  checkpoint->read(tensor.name, row, part.mutable_view());
  std::printf("its first row: %zu bytes\n", part.bytes().size());
  return 0;
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
