// legacy_file.h -- files of torch.save before PyTorch 1.6.
#pragma once

#include <cairn/formats/pytorch/file/torch_file.h>
#include <cairn/io/file.h>

namespace cairn::inline v0::pytorch {

// Throws data_loss for a damaged file. Such files have no checksums.
TorchFile read_legacy_file(const File& file, ZipReading reading);

}  // namespace cairn::inline v0::pytorch
