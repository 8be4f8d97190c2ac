// transforms.h -- what the bytes of an entry went through when they were saved: names such as
// "stream.zstd/1", in the order in which a reader undoes them.
//
//   name[@domain]/version   "stream.zstd": frames of zstd, which need not declare their sizes
//
// Source of the rules: torch.distributed.checkpoint._extension of torch 2.13.
#pragma once

#include <cairn/codec/decompress.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

using Transforms = std::vector<std::string>;

// "stream.zstd/1, x@y/2"
std::string transforms_text(const Transforms& transforms);
// Throws unimplemented for a transform that Cairn does not undo, and for more than a few.
void check_transforms(const Transforms& transforms);

// Streams that undo all transforms of `encoded_size` bytes. Each reads from the one before; the
// last one has the bytes that were saved. Throws as check_transforms(), unimplemented for a zstd
// window of more than 128 MiB, and data_loss for damage.
std::vector<std::shared_ptr<ByteStream>> undo_transforms(const Transforms& transforms,
                                                         ByteSource source,
                                                         std::uint64_t encoded_size);

}  // namespace cairn::inline v0::pytorch
