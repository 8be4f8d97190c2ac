// npz.h -- NumPy's files: .npy (read) and .npz (read and write).
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/tensor_source.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn {

// An archive of .npy files as numpy.savez and savez_compressed write it, or one .npy file, whose
// array gets the file's name. Arrays of any NumPy type but objects and structures. Stored members
// are read in place, in parallel; deflated ones from the front, in bounded memory. The archive's
// CRC-32 of an array is checked before anything of it is handed out.
std::unique_ptr<Checkpoint> open_npz(const std::string& path, const OpenOptions& options = {});
std::unique_ptr<Checkpoint> open_npy(const std::string& path, const OpenOptions& options = {});
struct NpzWriteOptions {
  IfExists if_exists = IfExists::kFail;
  std::uint64_t memory = std::uint64_t{1} << 30U;
  ProgressFn progress;
  MultiprocessingOptions multiprocessing;  // as in SafetensorsWriteOptions
};
// The descr of a NumPy header: "<f4"; types NumPy lacks are written as raw "|V2" / "|V1" elements,
// documented in docs/npz.md.
std::string npy_descr(DType dtype);
// Header of a .npy file (version 1.0, or 2.0 for long ones), padded to 64 bytes.
Bytes npy_header(DType dtype, std::span<const std::int64_t> shape);
// An uncompressed (stored) zip with one <name>.npy per tensor; zip64 where needed; CRC-32 filled.
// numpy.load reads it.
void write_npz(const std::string& path, const std::vector<TensorSource>& tensors,
               const FetchFn& fetch, const NpzWriteOptions& options);

}  // namespace cairn
