// encoded_archive.h -- the archive of an entry that was transformed (compressed) when it was saved.
// It is decoded once to find its members; the elements of its storages are decoded when they are
// read. Only its two ends are ever in memory.
#pragma once

#include <cairn/formats/pytorch/distributed/entry_decoder.h>
#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <cairn/formats/pytorch/file/torch_file.h>
#include <cairn/io/file.h>

#include <cstdint>
#include <memory>

namespace cairn::inline v0::pytorch {

// Reads the archive. Its storages are streams, which read from `entry.file` of the reader's files;
// `file` is that file. Takes the decoded bytes from `left`. Throws data_loss for damage and if
// `left` does not suffice; unimplemented for a transform that Cairn does not undo, for a deflated
// storage, and for a pickle that decodes to a large multiple of the entry.
TorchFile read_encoded_archive(const File& file, const Entry& entry, std::uint64_t& left,
                               const std::shared_ptr<DecoderPool>& pool);

}  // namespace cairn::inline v0::pytorch
