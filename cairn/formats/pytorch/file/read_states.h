// read_states.h -- reads one file of a checkpoint that has several, with what its pickle says.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/pytorch/file/torch_file.h>
#include <cairn/io/file.h>

#include <cstdint>
#include <utility>

namespace cairn::inline v0::pytorch {

// What the pickle says, and the leaves.
template <class States>
struct ReadFile {
  States states;
  StateFile file;
};

// Reads a file, the reader's file `number`. `parse` gets the pickle. Throws as read_state_file(),
// with the path in front. The storages are shared.
template <class Parse>
auto read_states(const File& file, std::uint32_t number, Executor& executor, Parse parse) {
  // Lists of shapes and of positions make many small leaves, most of which are not shown.
  constexpr std::uint64_t kWalkMemory = std::uint64_t{256} << 20U, kWalkMemoryPerByte = 16;
  const auto read = [&] {
    TorchFile torch = read_torch_file(file, executor);
    auto states = parse(torch.pickle);
    std::uint64_t memory = kWalkMemory + kWalkMemoryPerByte * torch.pickle.end();
    StateFile leaves = read_state_in(std::move(torch), number, 0, memory);
    share_storages(leaves);
    return ReadFile<decltype(states)>{std::move(states), std::move(leaves)};
  };
  return explain_foreign(
      file, [&] { return with_context([&] { return file.path(); }, read); }, ForeignKind::kPytorch);
}

}  // namespace cairn::inline v0::pytorch
