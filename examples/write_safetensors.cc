// write_safetensors.cc -- writes arrays in memory as sharded safetensors: write_safetensors FOLDER.
#include <cairn/cairn.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: write_safetensors FOLDER\n", stderr), 2;
  std::vector<cairn::Array> arrays;
  std::vector<cairn::TensorSource> tensors;
  for (const char* name : {"layers.0.weight", "layers.1.weight", "layers.2.weight"}) {
    arrays.push_back(cairn::Array::allocate(cairn::DType::kUint8, {64, 64}));
    for (std::byte& byte : cairn::MutableByteView(arrays.back().mutable_view().data, 64 * 64))
      byte = std::byte{1};
    tensors.push_back({.name = name, .dtype = cairn::DType::kUint8, .shape = {64, 64}});
  }
  std::vector<cairn::ArrayView> views;
  for (const cairn::Array& array : arrays) views.push_back(array.view());

  cairn::SafetensorsWriteOptions options;
  options.metadata = {{"format", "pt"}};
  options.max_shard_bytes = 8192;  // two tensors a file
  options.if_exists = cairn::IfExists::kReplace;
  std::filesystem::create_directories(argv[1]);
  const std::string path = std::string(argv[1]) + "/model.safetensors";
  for (const std::string& file :
       cairn::write_safetensors(path, tensors, cairn::fetch_from(views), options))
    std::printf("%s\n", file.c_str());
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
