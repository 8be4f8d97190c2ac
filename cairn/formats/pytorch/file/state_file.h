// state_file.h -- the leaves of one file of torch.save, and where their elements are.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/formats/pytorch/file/torch_file.h>
#include <cairn/formats/pytorch/tensors/state_walk.h>
#include <cairn/io/file.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {

// A storage that no leaf shows: its tensor is not read, or nothing refers to it.
struct UnusedStorage {
  std::string key;
  std::shared_ptr<const CommonBytes> bytes;
};

struct StateFile {
  State state;
  const char* layout = "";
  std::size_t storages = 0;
  // (leaf, earlier leaf) pairs of indices: both show the same elements.
  std::vector<std::pair<std::size_t, std::size_t>> ties;
  std::vector<std::string> unsafe_globals;  // that PyTorch's restricted unpickler refuses
  std::vector<std::string> notes;           // what is strange about the file
  std::vector<UnusedStorage> unused;
  std::vector<std::pair<std::string, std::string>> revision;
};

// Reads a file of torch.save. Its runs are in the reader's file `number`. A leaf whose elements are
// not there gets an error. Throws data_loss for a damaged file, invalid_argument for one of another
// program.
StateFile read_state_file(const File& file, Executor& executor, std::uint32_t number,
                          ZipReading reading = ZipReading::kDirectory);
// The same for an archive that begins at byte `begin` of the file; `memory` as in walk_state().
StateFile read_state_in(TorchFile torch, std::uint32_t number, std::uint64_t begin,
                        std::uint64_t& memory);

// Makes the bytes of each leaf bytes that several arrays may show.
void share_storages(StateFile& file);

}  // namespace cairn::inline v0::pytorch
