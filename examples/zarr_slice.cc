// zarr_slice.cc -- makes a Zarr array by a TensorStore spec, and reads a slice of it:
// zarr_slice FOLDER (an absolute path).
#include <cairn/cairn.h>
#include <cairn/storage/tensorstore_spec.h>

#include <cstdio>
#include <cstring>
#include <string>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: zarr_slice FOLDER\n", stderr), 2;
  const std::string spec =
      R"({"driver": "zarr", "create": true, "delete_existing": true,
          "kvstore": {"driver": "file", "path": ")" +
      std::string(argv[1]) + R"(/a/"},
          "metadata": {"shape": [100, 8], "chunks": [10, 8], "dtype": "<i4"}})";
  cairn::SpecArray array = cairn::open_array_spec(spec);

  cairn::Array ones = cairn::Array::allocate(cairn::DType::kInt32, {20, 8});
  std::memset(ones.mutable_view().data, 1, ones.bytes().size());
  array.write({.origin = {40, 0}, .shape = {20, 8}}, ones.view());

  cairn::Array row = cairn::Array::allocate(cairn::DType::kInt32, {1, 8});
  array.read({.origin = {42, 0}, .shape = {1, 8}}, row.mutable_view());  // one chunk is read
  std::printf("%s", cairn::preview_array(row.view()).c_str());
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
