// save.cc -- saves a tree in the format that the path or the caller names.
#include <cairn/base/cancellation.h>
#include <cairn/base/errors.h>
#include <cairn/convert.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/msgpack.h>
#include <cairn/npz.h>
#include <cairn/open.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/open.h>
#include <cairn/pytorch.h>
#include <cairn/safetensors.h>
#include <cairn/tools/dcp/dcp_folder.h>
#include <cairn/tools/save/named_arrays.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// Throws for an option of Orbax checkpoints, which the files of other formats lack.
void check_options_of_file(TargetFormat format, const SaveOptions& given) {
  const SaveOptions none;
  const bool is_dcp = format == TargetFormat::kDcp;
  const auto refuse_if = [&](bool differs, std::string_view name) {
    if (differs)
      invalid_argument(std::string(target_format_name(format)) + " has no option " +
                       std::string(name) + "; Orbax checkpoints do");
  };
  refuse_if(!is_dcp && given.multiprocessing.coordinator != nullptr, "multiprocessing");
  refuse_if(given.use_ocdbt != none.use_ocdbt, "use_ocdbt");
  refuse_if(given.use_zarr3 != none.use_zarr3, "use_zarr3");
  refuse_if(given.item != none.item, "item");
  refuse_if(given.v1 != none.v1, "v1");
  refuse_if(!(given.compression == none.compression), "compression");
  if (is_dcp && given.chunk_bytes && *given.chunk_bytes <= 0)
    invalid_argument("the largest size of a chunk is not positive");
  refuse_if(!is_dcp && given.chunk_bytes != none.chunk_bytes, "chunk_bytes");
  refuse_if(given.target_file_bytes != none.target_file_bytes, "target_file_bytes");
  refuse_if(given.support_rich_types != none.support_rich_types, "support_rich_types");
  const bool is_torch = is_dcp || format == TargetFormat::kTorch;
  refuse_if(!is_torch && !given.key_types.empty(), "key_types");
  refuse_if(!given.item_metadata.empty(), "item_metadata");
  refuse_if(!is_dcp && given.durability != none.durability, "durability");
  refuse_if(given.commit_protocol != none.commit_protocol, "commit_protocol");
  refuse_if(given.reuse != none.reuse || !given.reuse_from.empty(), "reuse");
  refuse_if(format != TargetFormat::kSafetensors && !given.custom_metadata.empty(),
            "custom_metadata");
}

// The entries of a JSON object; a value that is not a string is stored as its JSON.
std::vector<std::pair<std::string, std::string>> entries(const std::string& custom_metadata) {
  std::vector<std::pair<std::string, std::string>> found;
  if (custom_metadata.empty()) return found;
  const Json given = orbax::given_object(custom_metadata, "the custom metadata");
  for (const auto& [name, value] : *given.as_object())
    found.emplace_back(name, value.as_string() != nullptr ? *value.as_string()
                                                          : to_text(value, JsonStyle::kPython));
  return found;
}

void save_dcp(const std::string& path, const Tree& tree, const SaveOptions& options) {
  DcpOptions write{.key_types = options.key_types,
                   .if_exists = options.if_exists,
                   .durability = options.durability,
                   .store = options.store,
                   .resources = options.resources,
                   .progress = options.progress,
                   .multiprocessing = options.multiprocessing};
  if (options.chunk_bytes)
    write.chunks.chunk_bytes = static_cast<std::uint64_t>(*options.chunk_bytes);
  write_dcp(path, tree, {}, {}, write);
}

void save_file(TargetFormat format, const std::string& path, const Tree& tree,
               const SaveOptions& options) {
  if (format == TargetFormat::kMsgpack)
    return write_msgpack(path, tree,
                         {.encoding = {.dialect = MsgpackDialect::kFlaxState},
                          .if_exists = options.if_exists,
                          .store = options.store,
                          .resources = options.resources,
                          .progress = options.progress});
  if (format == TargetFormat::kTorch)
    return write_torch(path, tree,
                       {.key_types = options.key_types,
                        .if_exists = options.if_exists,
                        .store = options.store,
                        .resources = options.resources,
                        .progress = options.progress});
  if (format == TargetFormat::kDcp) return save_dcp(path, tree, options);
  const NamedArrays named(tree);
  if (format == TargetFormat::kNpz)
    return write_npz(path, named.sources, named.fetch(),
                     {.if_exists = options.if_exists,
                      .store = options.store,
                      .resources = options.resources,
                      .progress = options.progress});
  write_safetensors(path, named.sources, named.fetch(),
                    {.metadata = entries(options.custom_metadata),
                     .if_exists = options.if_exists,
                     .store = options.store,
                     .resources = options.resources,
                     .progress = options.progress});
}

}  // namespace

void save(const std::string& path, const Tree& tree, const SaveOptions& options) {
  save_as(save_format_of(normal_path(path)), path, tree, options);
}

void save_as(TargetFormat format, const std::string& path, const Tree& tree,
             const SaveOptions& options) {
  const std::string where = normal_path(path);
  SaveOptions chosen = options;
  switch (format) {
    case TargetFormat::kOrbaxZarr3:
      chosen.use_zarr3 = true;
      break;
    case TargetFormat::kOrbaxFiles:
      chosen.use_ocdbt = false;
      break;
    case TargetFormat::kOrbax:
      break;
    case TargetFormat::kTensorFlow:
      throw Error(Code::kUnimplemented,
                  path +
                      ": save writes no TensorFlow checkpoints; convert() makes one of a saved "
                      "checkpoint");
    case TargetFormat::kSafetensors:
    case TargetFormat::kNpz:
    case TargetFormat::kMsgpack:
    case TargetFormat::kTorch:
    case TargetFormat::kDcp:
      check_options_of_file(format, options);
      return with_cancellation(Cancellation(options.cancel, options.save_timeout), where,
                               [&] { save_file(format, where, tree, options); });
  }
  chosen.reuse_from = local_path(options.reuse_from);
  save_orbax(where, tree, chosen);
}

}  // namespace cairn::inline v0
