// distributed_metadata_fuzz.cc -- parses any bytes as the `.metadata` of a Distributed Checkpoint
// of PyTorch, finds out how its chunks cover the tensors, and nests its names.
#include <cairn/error.h>
#include <cairn/formats/pytorch/distributed/nested_paths.h>
#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <cairn/formats/raw/coverage.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void cover_all(const cairn::pytorch::SavedValue& value, std::uint64_t& steps) {
  std::vector<cairn::Box> boxes;
  for (const auto& chunk : value.chunks) boxes.push_back(chunk.box);
  std::int64_t elements = 0;
  for (const auto& part : cairn::cover(boxes, steps).parts) {
    if (part.chunk >= boxes.size()) std::abort();
    for (std::size_t d = 0; d < part.box.rank(); ++d)
      if (part.box.origin[d] + part.box.shape[d] > value.shape[d]) std::abort();
    ++elements;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* first = reinterpret_cast<const std::byte*>(data);
  try {
    const auto metadata = cairn::pytorch::parse_distributed_metadata(
        cairn::pickle::parse_pickle(cairn::Bytes(first, first + size)));
    std::uint64_t steps = 100'000;
    std::vector<cairn::pytorch::StatePath> paths;
    std::vector<std::string> names;
    for (const auto& value : metadata.values) {
      for (const auto& chunk : value.chunks)
        if (chunk.entry && chunk.entry->file >= metadata.files.size()) std::abort();
      cover_all(value, steps);
      const auto path = metadata.paths.find(value.name);
      paths.push_back(path == metadata.paths.end() ? cairn::pytorch::StatePath{{.text = value.name}}
                                                   : path->second);
      names.push_back(value.name);
    }
    std::size_t leaves = 0;
    (void)cairn::pytorch::nest(
        paths, names, [&](std::size_t, const cairn::KeyPath&) { return ++leaves, cairn::Tree(1); },
        [&](const cairn::KeyPath&) { return cairn::Tree(); });
    if (leaves != names.size()) std::abort();
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
