// torch_file.h -- a file of torch.save: its pickle, and where its storages are.
//
//   zip      <top>/data.pkl, <top>/byteorder, <top>/data/KEY for each storage
//   export   <top>/archive_format, and no pickle: see exported_program.h
//   legacy   a magic number, a version, facts about the machine, the object, the keys: five
//            pickles; then for each key the number of elements (8 bytes) and the elements
//   tar      see tar_file.h
#pragma once

#include <cairn/base/executor.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/exported_program.h>
#include <cairn/formats/raw/raw_read.h>
#include <cairn/formats/zip/zip_directory.h>
#include <cairn/io/file.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {

struct TorchFile {
  const char* layout = "";                 // in words
  pickle::Pickle pickle;                   // the object that was saved
  std::optional<ExportedProgram> program;  // of torch.export, in place of the pickle
  bool is_pickle_protected = false;        // a checksum of the pickle was stored, and matched
  bool big_endian = false;
  std::unordered_map<std::string, RawArray> storages;  // by key; runs are in file 0
  std::vector<std::string> notes;  // what is strange about the file, although PyTorch takes it
  // (subject, text) pairs that tell these values from others
  std::vector<std::pair<std::string, std::string>> revision;
};

// Throws data_loss for a damaged file, invalid_argument for a zip archive of another program.
// kLocalHeaders: storages may be missing.
TorchFile read_torch_file(const File& file, Executor& executor,
                          ZipReading reading = ZipReading::kDirectory);
// The same for a zip archive of `size` bytes that `read` reads; runs count from its beginning.
TorchFile read_torch_archive(std::uint64_t size, const ReadAtFn& read, Executor& executor,
                             ZipReading reading = ZipReading::kDirectory);

}  // namespace cairn::inline v0::pytorch
