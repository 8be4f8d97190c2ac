// export.cc -- writes the bytes of one leaf, raw or as a .npy file.
#include <cairn/inspect.h>
#include <cairn/io/atomic_file.h>
#include <cairn/npz.h>

#include <cairn/base/text.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/store_output.h>
#include <cairn/io/file.h>
#include <cairn/io/output_file.h>
#include <cairn/tools/source/capacity.h>
#include <cairn/tools/source/source_files.h>

#include <algorithm>
#include <optional>

namespace cairn::inline v0 {
namespace {

// What an export writes: `head`, then the elements of the box.
struct ExportedBytes {
  Bytes head;  // a string, or the header of a .npy file
  std::optional<Box> box;
  std::uint64_t size = 0;  // bytes of both
};

Bytes string_bytes(const Checkpoint& checkpoint, std::size_t index, const ExportOptions& options) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  if (!tensor.shape.empty())
    throw Error(
        Code::kInvalidArgument,
        tensor.name + ": an array of strings cannot be written as bytes; it can only be shown");
  if (options.encoding == LeafEncoding::kNpy)
    throw Error(Code::kInvalidArgument,
                tensor.name + ": a string cannot be a .npy file; write its UTF-8 bytes raw");
  if (options.slice) throw Error(Code::kInvalidArgument, tensor.name + ": a string has no slices");
  const std::string text = checkpoint.read_string(index);
  const ByteView bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

// Checks the leaf and the options.
ExportedBytes exported_bytes(const Checkpoint& checkpoint, std::size_t index,
                             const ExportOptions& options) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  if (!tensor.error.empty()) throw Error(Code::kDataLoss, tensor.name + ": " + tensor.error);
  ExportedBytes exported;
  if (tensor.is_string()) {
    exported.head = string_bytes(checkpoint, index, options);
    exported.size = exported.head.size();
    return exported;
  }
  if (!tensor.is_array())
    throw Error(Code::kInvalidArgument,
                tensor.name + ": has no data: it is a node of kind " + tensor.typestr);
  if (!options.slice) check_dense(tensor);
  SliceSpec slice = options.slice ? parse_slice(*options.slice, tensor.shape)
                                  : SliceSpec{Box::whole(tensor.shape), tensor.shape};
  if (options.encoding == LeafEncoding::kNpy) {
    if (tensor.dtype == DType::kOpaque)
      throw Error(Code::kUnimplemented, tensor.name + ": elements of type " + tensor.dtype_name +
                                            " cannot be a .npy file; write the raw bytes");
    exported.head = npy_header(tensor.dtype, slice.shape);
  }
  exported.size =
      saturating_add(exported.head.size(),
                     saturating_multiply(static_cast<std::uint64_t>(element_count(slice.box.shape)),
                                         std::max<std::size_t>(tensor.element_size, 1)));
  exported.box = std::move(slice.box);
  return exported;
}

void pass_on(const Checkpoint& checkpoint, std::size_t index, const ExportedBytes& exported,
             const ExportOptions& options, const SinkFn& sink) {
  std::uint64_t done = 0;
  const SinkFn counting = [&](ByteView bytes) {
    sink(bytes);
    done += bytes.size();
    if (options.progress) options.progress(done, exported.size);
  };
  if (!exported.head.empty() || !exported.box) counting(exported.head);
  if (exported.box) stream_box(checkpoint, index, *exported.box, options.memory, counting);
}

}  // namespace

void export_leaf(const Checkpoint& checkpoint, std::size_t index, const ExportOptions& options,
                 const SinkFn& sink) {
  pass_on(checkpoint, index, exported_bytes(checkpoint, index, options), options, sink);
}

std::uint64_t export_leaf(const Checkpoint& checkpoint, std::size_t index,
                          const ExportOptions& options, const std::string& path) {
  const OutputPlace place(path, options.store);
  if (place.is_local()) check_replaceable_file(path);
  check_not_source(checkpoint, path);
  if (!place.is_local()) {
    const ExportedBytes exported = exported_bytes(checkpoint, index, options);
    StoreOutput output(place, {{path, exported.size}}, "", IfExists::kReplace);
    output.begin();
    pass_on(checkpoint, index, exported, options, [&](ByteView bytes) { output[0].append(bytes); });
    output.commit();
    return exported.size;
  }
  AtomicFile file(path);
  export_leaf(checkpoint, index, options, [&](ByteView bytes) { file.append(bytes); });
  file.commit_output(IfExists::kReplace);
  return file.size();
}

}  // namespace cairn::inline v0
