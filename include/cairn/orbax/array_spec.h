// array_spec.h -- TensorStore specs (as JSON) with which Orbax opens the arrays of a checkpoint for
// reading and writing, and the metadata that Orbax keeps about each array.
//
// A spec is the JSON text of a TensorStore spec, without white space. The functions here do no I/O;
// tensorstore_spec.h opens specs. The rules are Orbax's: arguments that Orbax refuses throw
// invalid_argument.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/error.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// ---- names ----

// The drivers that specs name.
inline constexpr std::string_view kFileDriver = "file";
inline constexpr std::string_view kZarr2Driver = "zarr";
inline constexpr std::string_view kZarr3Driver = "zarr3";

// ---- key-value stores ----

// The folder, below the checkpoint, to which one process writes its own OCDBT database:
// "ocdbt.process_0", or "ocdbt.process_replica_0" where every replica has a folder of its own.
struct OcdbtProcessSpec {
  std::string process_id;           // letters and digits
  bool use_replica_suffix = false;  // "ocdbt.process_replica_<id>"

  // The folder's name. Throws invalid_argument for an id that is empty or has other characters.
  [[nodiscard]] std::string folder() const;
  // Parses a folder name. Throws invalid_argument for any other name.
  static OcdbtProcessSpec parse(std::string_view folder);
  bool operator==(const OcdbtProcessSpec&) const = default;
};

// Purpose for which an OCDBT database is opened, other than reading.
enum class OcdbtWriteMode : std::uint8_t {
  kWrite,            // a process writes to its own database
  kMerge,            // to merge the databases of all processes
  kCommitTemporary,  // to commit metadata that was temporarily kept elsewhere (temporary_metadata)
};

// Options for opening a database for writing.
struct OcdbtWriteOptions {
  OcdbtWriteMode mode = OcdbtWriteMode::kWrite;
  // Bytes; 0: no limit. None: 400 MiB in Google Cloud Storage, else 2 GiB.
  std::optional<std::int64_t> target_data_file_size = {};
  // Store nodes below "ocdbt_meta/" and values below "ocdbt_data/".
  bool store_ocdbt_metadata_and_values_separately = false;
};

// Options of build_kvstore_tspec.
struct KvStoreSpecOptions {
  // An absolute path or gs://bucket/path; without OCDBT it may be relative. Normalised as
  // os.path.normpath does.
  std::string directory;
  // Name of the parameter: a key prefix in a database, a folder without one.
  std::optional<std::string> name = {};
  // The members below apply to OCDBT only and are ignored without it.
  bool use_ocdbt = true;
  std::optional<OcdbtProcessSpec> process = {};
  std::optional<OcdbtWriteOptions> write = {};  // none: for reading
  // Local folder that holds the database's manifest and nodes until they are committed.
  std::optional<std::string> temporary_metadata = {};
};

// The kvstore spec of the store below `directory`. The driver for gs:// is "gcs", or the value of
// the environment variable TENSORSTORE_GCS_BACKEND.
std::string build_kvstore_tspec(const KvStoreSpecOptions& options);

// Whether a spec (JSON or URL) names a network store (gcs, gcs_grpc, s3; gs://, s3://) or a store
// on top of one.
bool is_remote_storage(std::string_view spec);

// The spec of the JSON text that Orbax keeps about a leaf's sharding, in the file _sharding of
// `directory`.
std::string get_sharding_tensorstore_spec(const std::string& directory,
                                          std::string_view param_name);

// Options of get_ts_context.
struct TsContextOptions {
  bool use_ocdbt = true;  // include a cache for the nodes of databases
  std::optional<std::int64_t> file_io_concurrency_limit = {};  // at least 1; none: 128
  // At least 1; none: TensorStore's default.
  std::optional<std::int64_t> data_copy_concurrency_limit = {};
};
// The TensorStore context (shared resources) that all specs use, as JSON.
std::string get_ts_context(const TsContextOptions& options = {});

// ---- sizes ----

// Options of choose_chunk_shape.
struct ChunkShapeOptions {
  Shape global_shape;  // of the whole array
  // Shape of the pieces that are written whole: a device's shard, or a part of it.
  Shape write_shape;
  DType dtype = DType::kFloat32;  // as stored
  // bytes, at least the size of one element; none: no limit
  std::optional<std::int64_t> target_byte_size = {};
  // Dimensions that are split into single elements first.
  std::vector<std::int64_t> shard_axes = {};
};
// The chunk shape that Orbax chooses. It divides write_shape, whose extents of 0 count as 1. The
// dimensions in which the array is already split are split further first: the largest first, each
// time to its next smaller divisor. The other dimensions follow only when these cannot be split
// further.
Shape choose_chunk_shape(const ChunkShapeOptions& options);

// Options of calculate_chunk_byte_size.
struct ChunkByteSizeOptions {
  Shape write_shape;                                 // shape of the pieces that are written whole
  DType dtype = DType::kFloat32;                     // as stored
  std::optional<std::int64_t> chunk_byte_size = {};  // wanted chunk size in bytes
  // Bytes; 0: no limit. None: the default of the store that kvstore_spec describes.
  std::optional<std::int64_t> ocdbt_target_data_file_size = {};
  // The spec of the database (build_kvstore_tspec): 400 MiB on top of Google Cloud Storage, else
  // 2 GiB. None: 2 GiB.
  std::optional<std::string> kvstore_spec = {};
};
// Target size in bytes of chunks in a database: no chunk is larger than a data file. None: one
// chunk per piece. Throws invalid_argument for a kvstore_spec that is not a JSON object.
std::optional<std::int64_t> calculate_chunk_byte_size(const ChunkByteSizeOptions& options);

// ---- arrays ----

// Metadata of an array in a checkpoint. array_metadatas/process_<id> stores a part of it.
struct ArrayMetadata {
  std::string param_name = {};
  Shape shape = {};               // of the whole array
  DType dtype = DType::kFloat32;  // as stored
  Shape write_shape = {};         // shape of the pieces that are written whole
  Shape chunk_shape = {};
  bool use_ocdbt = true;
  bool use_zarr3 = false;
  std::optional<std::string> ext_metadata = {};  // JSON, as given
  std::string compression_algorithm = "none";    // "none" or "zstd"
  std::optional<int> compression_level = {};     // none: not compressed
  bool operator==(const ArrayMetadata&) const = default;
};

// Storage layout of an array, as the metadata of a leaf reports it.
struct StorageMetadata {
  std::optional<Shape> chunk_shape = {};  // of the smallest pieces that can be read separately
  std::optional<Shape> write_shape = {};  // of the pieces that are written whole
  // None: unknown, or TensorStore does not read such an array. Not compared by ==, as in Orbax.
  std::optional<ZarrMetadata> zarr_metadata = {};
  bool operator==(const StorageMetadata& other) const {
    return chunk_shape == other.chunk_shape && write_shape == other.write_shape;
  }
};

// What an array's own metadata says, in the form in which the metadata of a leaf reports it: of the
// text of .zarray or zarr.json, or of the member `metadata` of the spec of an open array. Reads as
// leniently as Orbax: a missing member has its default. nullopt for another version than 2 and 3.
// Throws invalid_argument for text that is not a JSON object.
std::optional<ZarrMetadata> zarr_metadata_from_json(std::string_view json);

// Options of ArrayReadSpec.
struct ArrayReadSpecOptions {
  std::string directory;                         // as in KvStoreSpecOptions
  std::string relative_array_filename;           // name of the parameter
  bool use_zarr3 = false;                        // Zarr v3; false: Zarr v2
  bool use_ocdbt = true;                         // the array is in a database; false: in a folder
  std::optional<std::string> metadata_key = {};  // none: ".zarray" or "zarr.json"
  bool raise_array_data_missing_error = true;    // false: missing chunks read as the fill value
  std::optional<DType> target_dtype = {};        // type to which elements are cast; none: as stored
};

// The spec for reading an array. The constructor throws invalid_argument for options that Orbax
// refuses.
class ArrayReadSpec {
 public:
  explicit ArrayReadSpec(const ArrayReadSpecOptions& options);
  [[nodiscard]] const std::string& json() const { return json_; }

 private:
  std::string json_;
};

// Options of ArrayWriteSpec.
struct ArrayWriteSpecOptions {
  std::string directory;                   // of the item
  std::string relative_array_filename;     // the array's name below `directory`: the parameter
  Shape global_shape;                      // of the whole array
  Shape write_shape;                       // shape of the pieces that are written whole
  DType dtype = DType::kFloat32;           // type of the given values
  std::optional<DType> target_dtype = {};  // type in which they are stored; none: as given
  // target chunk size in bytes; none: one chunk per piece
  std::optional<std::int64_t> chunk_byte_size = {};
  std::vector<std::int64_t> shard_axes = {};  // dimensions that are split first
  bool use_compression = true;                // zstd; false: none
  bool use_zarr3 = false;                     // Zarr v3; false: Zarr v2
  bool use_ocdbt = true;                      // write into a database; false: into a folder
  std::optional<std::int64_t> ocdbt_target_data_file_size = {};  // as in OcdbtWriteOptions
  // Letters and digits. None: the database of the directory itself.
  std::optional<std::string> process_id = {};
  std::optional<std::string> metadata_key = {};  // as in ArrayReadSpecOptions
  bool replica_separate_folder = false;          // as OcdbtProcessSpec::use_replica_suffix
  std::optional<std::string> ext_metadata = {};  // JSON object, returned by metadata()
  bool store_ocdbt_metadata_and_values_separately = false;  // as in OcdbtWriteOptions
  std::optional<std::string> temporary_metadata = {};       // as in KvStoreSpecOptions
};

// The spec for creating and writing an array, with its chunk shape chosen. The constructor throws
// invalid_argument for options that Orbax refuses.
class ArrayWriteSpec {
 public:
  explicit ArrayWriteSpec(const ArrayWriteSpecOptions& options);
  [[nodiscard]] const std::string& json() const { return json_; }
  [[nodiscard]] const ArrayMetadata& metadata() const { return metadata_; }

 private:
  ArrayMetadata metadata_;
  std::string json_;
};

// ---- casts ----

// Wraps the spec of an array, for writing: elements are given as `dtype` and stored as
// `target_dtype` (none: as given). Orbax's get_cast_tspec_serialize. Throws invalid_argument for
// text that is not a JSON object.
std::string get_cast_tspec_serialize(std::string_view spec, DType dtype,
                                     std::optional<DType> target_dtype = {});
// Wraps the spec of an array, for reading: elements are read as `dtype`. None: returns the spec
// without a cast. Orbax's get_cast_tspec_deserialize. Throws invalid_argument for text that is not
// a JSON object.
std::string get_cast_tspec_deserialize(std::string_view spec, std::optional<DType> dtype);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
