// bundle_reader.cc -- opens a TensorFlow checkpoint. It reads and checks the whole index.
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/formats/tensorflow/index/v1_checkpoint.h>
#include <cairn/formats/tensorflow/read/bundle_assemble.h>
#include <cairn/formats/tensorflow/read/bundle_locate.h>
#include <cairn/io/tree/read_ahead.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/tensorflow.h>

namespace cairn::inline v0 {
namespace {

BundleIndex read_index_file(const FileTree& tree, const File& file) {
  return explain_foreign(file, [&] {
    try {
      return with_context([&] { return file.path(); },
                          [&] {
                            return read_bundle_index(
                                file.size(), [&](std::uint64_t offset, MutableByteView out) {
                                  file.read_into(offset, out);
                                });
                          });
    } catch (const Error&) {
      refuse_v1_checkpoint(tree, file.path());
      throw;
    }
  });
}

}  // namespace

std::unique_ptr<Checkpoint> open_tensorflow(const std::string& path, const OpenOptions& options) {
  const std::string place = normal_path(path);
  return open_tensorflow(tree_around(place, options.store), place, options);
}

std::unique_ptr<Checkpoint> open_tensorflow(const FileTree& tree, const std::string& path,
                                            const OpenOptions& options) {
  const auto place = locate_bundle(tree, path, options.step);
  if (!place)
    throw Error(Code::kNotFound, path +
                                     ": not a TensorFlow checkpoint: expected a prefix (of "
                                     "<prefix>.index and <prefix>.data-00000-of-00001), "
                                     "a 'checkpoint' file, its folder, or a SavedModel's");
  const std::string index_path = bundle_index_path(place->prefix);
  File index_file = with_read_ahead(tree.open(index_path));
  BundleIndex index = read_index_file(tree, index_file);
  return assemble_bundle(tree, *place, std::move(index_file), std::move(index), options);
}

}  // namespace cairn::inline v0
