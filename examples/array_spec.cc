// array_spec.cc -- makes the TensorStore specs with which Orbax writes and reads an array, and uses
// them: array_spec FOLDER (an absolute path).
#include <cairn/cairn.h>
#include <cairn/orbax/array_spec.h>
#include <cairn/storage/tensorstore_spec.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace cairn;

// The spec that creates the array: its chunks are at most 1 KiB, and its elements are stored as
// bfloat16.
ArrayWriteSpec write_spec(const std::string& folder) {
  ArrayWriteSpecOptions options;
  options.directory = folder;
  options.relative_array_filename = "params.w";
  options.global_shape = options.write_shape = {64, 32};
  options.dtype = DType::kFloat32;
  options.target_dtype = DType::kBfloat16;
  options.chunk_byte_size = 1024;
  return ArrayWriteSpec(options);
}

// The spec that reads it as float32.
ArrayReadSpec read_spec(const std::string& folder) {
  ArrayReadSpecOptions options;
  options.directory = folder;
  options.relative_array_filename = "params.w";
  options.target_dtype = DType::kFloat32;
  return ArrayReadSpec(options);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: array_spec FOLDER\n", stderr), 2;
  std::vector<float> numbers(std::size_t{64} * 32);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const Array values = Array::from<float>(numbers, {64, 32});

  const ArrayWriteSpec spec = write_spec(argv[1]);
  std::printf("%s\nchunks of %s\n", spec.json().c_str(),
              shape_text(spec.metadata().chunk_shape).c_str());
  SpecArray array = open_array_spec(spec.json(), {.create = true, .delete_existing = true});
  array.write(Box::whole(values.shape()), values.view());

  // bfloat16 keeps 8 bits of a number: integers up to 256 are exact.
  const TypedArray<float> back(open_array_spec(read_spec(argv[1]).json()).read());
  const bool good = back.size() == numbers.size() && *(back.begin() + 200) == 200.0F;
  std::puts(good ? "the values came back" : "the values are not what was written");
  return good ? 0 : 1;
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
