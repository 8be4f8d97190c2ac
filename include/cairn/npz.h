// npz.h -- NumPy's files: reads .npy, reads and writes .npz.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/tensor_source.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Opens a .npz archive as numpy.savez and numpy.savez_compressed write it, or one .npy file, whose
// array gets the file's name. Supports every NumPy type except objects and structures. Stored
// members are read in place and in parallel; deflated members are read from the front, in bounded
// memory. The reader returns data of an array only after the archive's CRC-32 of the array has been
// verified. `path` is a path or a URL. Throws as cairn::open.
std::unique_ptr<Checkpoint> open_npz(const std::string& path, const OpenOptions& options = {});
std::unique_ptr<Checkpoint> open_npy(const std::string& path, const OpenOptions& options = {});
// Options of write_npz.
struct NpzWriteOptions {
  IfExists if_exists = IfExists::kFail;  // what to do if the target exists
  StoreOptions store = {};               // how to reach the store, if the path is a URL
  Resources resources = {};
  ProgressFn progress = {};
  MultiprocessingOptions multiprocessing = {};  // as in SafetensorsWriteOptions
};
// The descr of a NumPy header: "<f4". Types that NumPy lacks are written as raw elements, "|V2" or
// "|V1" (docs/reference/npz.md).
std::string npy_descr(DType dtype);
// The header of a .npy file, padded to 64 bytes: version 1.0, or 2.0 if it is long.
Bytes npy_header(DType dtype, std::span<const std::int64_t> shape);
// Writes an uncompressed (stored) zip archive with one <name>.npy per tensor, with zip64 where
// needed and CRC-32 of every member. numpy.load reads it. The file appears complete or not at all.
// Throws invalid_argument for a duplicate name or one that is too long for a zip, already_exists as
// if_exists says, io, and the errors of `fetch`.
void write_npz(const std::string& path, const std::vector<TensorSource>& tensors,
               const FetchFn& fetch, const NpzWriteOptions& options);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
