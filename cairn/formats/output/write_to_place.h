// write_to_place.h -- the functions that write one format, to an OutputPlace. The public functions
// of the same names make one of the path or URL that they get.
#pragma once

#include <cairn/formats/output/output_place.h>
#include <cairn/msgpack.h>
#include <cairn/npz.h>
#include <cairn/pytorch.h>
#include <cairn/safetensors.h>
#include <cairn/tensor_source.h>
#include <cairn/tensorflow.h>
#include <cairn/tree.h>

#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0 {

std::vector<std::string> write_safetensors(const OutputPlace& place,
                                           const std::vector<TensorSource>& tensors,
                                           const FetchFn& fetch,
                                           const SafetensorsWriteOptions& options);
void write_npz(const OutputPlace& place, const std::vector<TensorSource>& tensors,
               const FetchFn& fetch, const NpzWriteOptions& options);
void write_msgpack(const OutputPlace& place, const Tree& tree,
                   std::span<const TensorSource> sources, const FetchFn& fetch,
                   const MsgpackWriteOptions& options);
void write_torch(const OutputPlace& place, const Tree& tree, std::span<const TensorSource> sources,
                 const FetchFn& fetch, const TorchWriteOptions& options);
// The name of the place is the prefix.
std::vector<std::string> write_tensorflow(const OutputPlace& place,
                                          std::vector<TensorFlowSource> sources,
                                          const FetchFn& fetch,
                                          const TensorFlowWriteOptions& options);

}  // namespace cairn::inline v0
