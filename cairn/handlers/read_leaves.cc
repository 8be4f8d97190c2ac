// read_leaves.cc -- reads stored arrays for handlers.
#include <cairn/handlers/read_leaves.h>

#include <cairn/orbax/byte_limiter.h>
#include <cairn/tree/converting_reader.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {

Executor& ItemReader::executor() const { return default_executor(); }

namespace handlers {
namespace {

// Whether an entry of a partition spec leaves a dimension whole: all its axes belong to the mesh
// and have one device.
bool splits_nothing(const Mesh& mesh, const std::vector<std::string>& entry) {
  return std::all_of(entry.begin(), entry.end(), [&](const std::string& axis) {
    const auto found = std::find(mesh.axis_names.begin(), mesh.axis_names.end(), axis);
    const auto number = static_cast<std::size_t>(found - mesh.axis_names.begin());
    return number < mesh.shape.size() && mesh.shape[number] == 1;
  });
}

// Bytes of stored elements that are held while they are converted: no more than the limiter of the
// leaves grants.
std::uint64_t held_bytes(const ItemReader& reader, std::span<const ParamInfo> infos) {
  std::uint64_t most = ConvertingReader::usual_bytes(reader.executor());
  for (const ParamInfo& info : infos)
    if (info.byte_limiter && info.byte_limiter->limit())
      most = std::min(most, static_cast<std::uint64_t>(*info.byte_limiter->limit()));
  return most;
}

template <class Pointer>
auto& shared_of(std::span<const ParamInfo> infos, Pointer ParamInfo::*member, const char* what) {
  for (const ParamInfo& info : infos) {
    if (info.*member == nullptr || (info.*member) != (infos[0].*member))
      throw Error(Code::kInvalidArgument,
                  info.name + ": has no " + what +
                      ", or a different one than the other leaves of the call");
    if (!info.is_ocdbt_checkpoint || info.is_ocdbt_checkpoint != infos[0].is_ocdbt_checkpoint)
      throw Error(Code::kInvalidArgument, info.name +
                                              ": whether the checkpoint uses OCDBT must be "
                                              "known, and all leaves of a call must agree");
  }
  return *(infos[0].*member);
}

}  // namespace

void read_leaves(const ItemReader& reader, std::span<const ParamInfo> infos,
                 std::span<const LeafRead> reads) {
  std::vector<ItemReader::Read> direct;
  ConvertingReader converter(held_bytes(reader, infos), reader.executor(),
                             [&](std::span<ConvertingReader::Part> parts) {
                               std::vector<ItemReader::Read> plan;
                               plan.reserve(parts.size());
                               for (auto& [i, box, out] : parts)
                                 plan.push_back({reads[i].name, std::move(box), std::move(out)});
                               reader.read(plan);
                             });
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const LeafRead& read = reads[i];
    if (read.out.dtype == read.stored->dtype) {
      direct.push_back({read.name, read.box, read.out});
      continue;
    }
    if (read.stored->dtype == DType::kOpaque || read.out.dtype == DType::kOpaque)
      throw Error(
          Code::kInvalidArgument,
          std::string(read.name) + ": elements that Cairn does not interpret cannot be converted");
    converter.add(i, *read.stored, read.box, read.out);
  }
  converter.flush();
  if (!direct.empty()) reader.read(direct);
}

std::vector<TensorInfo> stored_arrays(const ItemReader& reader, std::span<const ParamInfo> infos,
                                      const std::string& metadata_key) {
  std::vector<std::string_view> names;
  names.reserve(infos.size());
  for (const ParamInfo& info : infos) names.push_back(info.name);
  return reader.arrays_under(names, metadata_key);
}

std::vector<ValueMetadata> array_value_metadata(std::span<const ParamInfo> infos,
                                                std::string_view typestr,
                                                const std::string& metadata_key) {
  std::vector<ValueMetadata> out;
  out.reserve(infos.size());
  const std::vector<TensorInfo> stored = stored_arrays(reader_of(infos), infos, metadata_key);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    ValueMetadata& entry = out.emplace_back();
    entry.typestr = typestr;
    entry.name = infos[i].name;
    entry.directory = infos[i].parent_dir;
    entry.shape = stored[i].shape;
    entry.dtype = stored[i].dtype;
    entry.storage = StorageMetadata{stored[i].chunk_shape, std::nullopt,
                                    infos[i].reader->zarr_metadata(infos[i].name)};
  }
  return out;
}

const ItemReader& reader_of(std::span<const ParamInfo> infos) {
  return shared_of(infos, &ParamInfo::reader, "reader");
}
ItemWriter& writer_of(std::span<const ParamInfo> infos) {
  return shared_of(infos, &ParamInfo::writer, "writer");
}

std::optional<DType> dtype_of(const AnyRestoreArgs& args) {
  return std::visit([](const auto& of) { return of.dtype; }, args);
}

std::optional<RestoreType> restore_type_of(const AnyRestoreArgs& args) {
  return std::visit([](const auto& of) { return of.restore_type; }, args);
}

Sharding for_rank(Sharding sharding, std::size_t rank) {
  if (auto* named = std::get_if<NamedSharding>(&sharding))
    while (named->spec.size() > rank && splits_nothing(named->mesh, named->spec.back()))
      named->spec.pop_back();
  return sharding;
}

StoreArray store_array(const ParamInfo& info, const SaveArgs& args, DType dtype, Shape shape) {
  StoreArray out;
  out.name = info.name;
  out.source_dtype = dtype;
  out.dtype = args.dtype.value_or(dtype);
  out.shape = std::move(shape);
  out.chunk_byte_size = args.chunk_byte_size;
  out.shard_axes = args.shard_axes;
  out.write_chunk_shape = args.write_chunk_shape;
  out.read_chunk_shape = args.read_chunk_shape;
  return out;
}

}  // namespace handlers
}  // namespace cairn::inline v0
