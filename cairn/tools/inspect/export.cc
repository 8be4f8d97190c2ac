// export.cc -- writes the bytes of one leaf, raw or as a .npy file.
#include <cairn/inspect.h>
#include <cairn/io/atomic_file.h>
#include <cairn/npz.h>

#include <cairn/io/file.h>
#include <cairn/io/output_file.h>
#include <cairn/tools/source/capacity.h>
#include <cairn/tools/source/source_files.h>

namespace cairn::inline v0 {

void export_leaf(const Checkpoint& checkpoint, std::size_t index, const ExportOptions& options,
                 const SinkFn& sink) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  if (!tensor.error.empty()) throw Error(Code::kDataLoss, tensor.name + ": " + tensor.error);
  const bool npy = options.encoding == LeafEncoding::kNpy;
  if (tensor.is_string()) {
    if (!tensor.shape.empty())
      throw Error(
          Code::kInvalidArgument,
          tensor.name + ": an array of strings cannot be written as bytes; it can only be shown");
    if (npy)
      throw Error(Code::kInvalidArgument,
                  tensor.name + ": a string cannot be a .npy file; write its UTF-8 bytes raw");
    if (options.slice)
      throw Error(Code::kInvalidArgument, tensor.name + ": a string has no slices");
    sink(as_bytes(checkpoint.read_string(index)));
    return;
  }
  if (!tensor.is_array())
    throw Error(Code::kInvalidArgument,
                tensor.name + ": has no data: it is a node of kind " + tensor.typestr);
  if (!options.slice) check_dense(tensor);
  const SliceSpec slice = options.slice ? parse_slice(*options.slice, tensor.shape)
                                        : SliceSpec{Box::whole(tensor.shape), tensor.shape};
  if (npy) {
    if (tensor.dtype == DType::kOpaque)
      throw Error(Code::kUnimplemented, tensor.name + ": elements of type " + tensor.dtype_name +
                                            " cannot be a .npy file; write the raw bytes");
    sink(npy_header(tensor.dtype, slice.shape));
  }
  stream_box(checkpoint, index, slice.box, options.memory, sink);
}

std::uint64_t export_leaf(const Checkpoint& checkpoint, std::size_t index,
                          const ExportOptions& options, const std::string& path) {
  check_replaceable_file(path);
  check_not_source(checkpoint, path);
  AtomicFile file(path);
  export_leaf(checkpoint, index, options, [&](ByteView bytes) { file.append(bytes); });
  file.commit_output(IfExists::kReplace);
  return file.size();
}

}  // namespace cairn::inline v0
