// framed_file.h -- writes a file of tensors in which frames stand between the tensors: headers,
// checksums and directories, such as a zip archive has.
//
//   frame 0 | tensor 0 | frame 1 | tensor 1 | ... | frame n
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/distributed/process_group.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/raw/piece_writer.h>
#include <cairn/tensor_source.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// The layout of one such file.
class FramedFile {
 public:
  FramedFile() = default;
  FramedFile(const FramedFile&) = delete;
  FramedFile& operator=(const FramedFile&) = delete;
  virtual ~FramedFile() = default;

  // The tensors in their order in the file; the member `file` is not set.
  [[nodiscard]] virtual std::span<const Placement> tensors() const = 0;
  // Bytes of the whole file.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Frame `number`. `checksums` are the CRC-32 of the tensors before it, as stored; of the tensor
  // behind it, too, if frames_need_next().
  [[nodiscard]] virtual Bytes frame(std::size_t number,
                                    std::span<const std::uint32_t> checksums) const = 0;
  [[nodiscard]] virtual bool frames_need_next() const = 0;
};

// How the file is written.
struct FramedWriteOptions {
  Executor* executor = nullptr;
  std::uint64_t memory = 0;  // as PieceWriterOptions
  ProgressFn progress = {};
};

// Writes the whole file alone, from front to back. Its frames need no checksum of a tensor behind
// them.
void write_framed(ByteTarget& target, const FramedFile& layout, const FetchFn& fetch,
                  const FramedWriteOptions& options);

// Options of write_framed_file.
struct FramedFileOptions {
  IfExists if_exists = IfExists::kFail;
  Resources resources = {};
  ProgressFn progress = {};
};
// Writes one such file, which appears complete or not at all. All processes of the group call it,
// and each writes its share; to a store, the primary writes all. Each tensor is fetched once; twice
// if it goes to a store, front to back, and frames_need_next(). Throws unavailable if it has
// changed meanwhile; already_exists as if_exists says, io, and the errors of `fetch`.
void write_framed_file(const distributed::ProcessGroup& group, const OutputPlace& place,
                       const FramedFile& layout, const FetchFn& fetch,
                       const FramedFileOptions& options);

}  // namespace cairn::inline v0
