// array_spec.h -- where and how one array of a checkpoint is stored, as Orbax says it to
// TensorStore: the specs, as JSON, with which it opens arrays for reading and writing, and what it
// keeps about each array.
//
// A spec is text: the JSON of a TensorStore spec, without white space. Nothing here touches a file;
// tensorstore_spec.h opens specs. What Orbax refuses is refused here: invalid_argument.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// ---- key-value stores ----

// The folder that one process writes its own OCDBT database to, below the checkpoint:
// "ocdbt.process_0", or "ocdbt.process_replica_0" where every replica has a folder of its own.
struct OcdbtProcessSpec {
  std::string process_id;  // letters and digits
  bool use_replica_suffix = false;

  // The folder's name. Throws for an id that is empty or has other characters.
  [[nodiscard]] std::string folder() const;
  // The reverse. Throws for a name that is none.
  static OcdbtProcessSpec parse(std::string_view folder);
  bool operator==(const OcdbtProcessSpec&) const = default;
};

// What an OCDBT database is opened for, beside reading.
enum class OcdbtWriteMode : std::uint8_t {
  kWrite,  // by the process whose database it is
  kMerge,  // to take in the databases of all processes
  // to take in metadata that has been kept elsewhere meanwhile (temporary_metadata)
  kCommitTemporary,
};

struct OcdbtWriteOptions {
  OcdbtWriteMode mode = OcdbtWriteMode::kWrite;
  // bytes; 0: no limit; none: 400 MiB in Google Cloud Storage, else 2 GiB
  std::optional<std::int64_t> target_data_file_size = {};
  bool store_ocdbt_metadata_and_values_separately = false;
};

struct KvStoreSpecOptions {
  // Absolute, or gs://bucket/path; without OCDBT it may be relative. Normalised as os.path.normpath
  // does.
  std::string directory;
  // the parameter's: the key prefix in a database, a folder without one
  std::optional<std::string> name = {};
  bool use_ocdbt = true;
  // The rest is OCDBT's and is passed over without it.
  std::optional<OcdbtProcessSpec> process = {};
  std::optional<OcdbtWriteOptions> write = {};  // none: for reading
  // A local folder where the database's manifest and nodes are kept until they are committed.
  std::optional<std::string> temporary_metadata = {};
};

// The spec of the store below `directory`. The driver for gs:// is "gcs", or what the environment's
// TENSORSTORE_GCS_BACKEND says.
std::string build_kvstore_tspec(const KvStoreSpecOptions& options);

// Whether a spec, JSON or a URL, names a store behind a network (gcs, gcs_grpc, s3; gs://, s3://)
// or one on top of such a store.
bool is_remote_storage(std::string_view spec);

// The spec of the JSON text that Orbax keeps about a leaf's sharding, in the file _sharding of
// `directory`.
std::string get_sharding_tensorstore_spec(const std::string& directory,
                                          std::string_view param_name);

// The resources that all specs share.
struct TsContextOptions {
  // with a cache for the nodes of databases
  bool use_ocdbt = true;
  std::optional<std::int64_t> file_io_concurrency_limit = {};  // at least 1; none: 128
  // at least 1; none: TensorStore's own
  std::optional<std::int64_t> data_copy_concurrency_limit = {};
};
std::string get_ts_context(const TsContextOptions& options = {});

// ---- sizes ----

struct ChunkShapeOptions {
  Shape global_shape;
  Shape write_shape;  // of the pieces that are written whole: a device's shard, or a part of it
  DType dtype = DType::kFloat32;
  std::optional<std::int64_t> target_byte_size = {};  // at least an element's
  // cut into single elements along these dimensions first
  std::vector<std::int64_t> shard_axes = {};
};
// The chunk shape that Orbax chooses: it divides write_shape, whose extents of 0 count as 1.
// Dimensions in which the array already is cut are cut further first, the largest first, each time
// to its next smaller divisor; only when that is used up, the others too.
Shape choose_chunk_shape(const ChunkShapeOptions& options);

struct ChunkByteSizeOptions {
  Shape write_shape;
  DType dtype = DType::kFloat32;  // as stored
  std::optional<std::int64_t> chunk_byte_size = {};
  std::int64_t ocdbt_target_data_file_size = std::int64_t{2} << 30U;  // 0: no limit
};
// The byte target of chunks in a database: no chunk is larger than a data file. None: a chunk is a
// piece.
std::optional<std::int64_t> calculate_chunk_byte_size(const ChunkByteSizeOptions& options);

// ---- arrays ----

// What a checkpoint says of an array beside its values (in array_metadatas/process_<id>, in part).
struct ArrayMetadata {
  std::string param_name;
  Shape shape;
  DType dtype = DType::kFloat32;  // as stored
  Shape write_shape;
  Shape chunk_shape;
  bool use_ocdbt = true;
  bool use_zarr3 = false;
  std::optional<std::string> ext_metadata = {};  // JSON, as given
  std::string compression_algorithm = "none";    // or "zstd"
  std::optional<int> compression_level = {};     // none: not compressed
  bool operator==(const ArrayMetadata&) const = default;
};

// How an array lies in its checkpoint, as a leaf's metadata tells its user.
struct StorageMetadata {
  std::optional<Shape> chunk_shape = {};  // of the smallest pieces that can be read alone
  std::optional<Shape> write_shape = {};
  bool operator==(const StorageMetadata&) const = default;
};

struct ArrayReadSpecOptions {
  std::string directory;                // as in KvStoreSpecOptions
  std::string relative_array_filename;  // the parameter's name
  bool use_zarr3 = false;
  bool use_ocdbt = true;
  std::optional<std::string> metadata_key = {};  // none: ".zarray" or "zarr.json"
  // false: chunks that are missing read as the fill value
  bool raise_array_data_missing_error = true;
  std::optional<DType> target_dtype = {};  // that the elements are cast to; none: as stored
};

// The spec for reading an array.
class ArrayReadSpec {
 public:
  explicit ArrayReadSpec(const ArrayReadSpecOptions& options);
  [[nodiscard]] const std::string& json() const { return json_; }

 private:
  std::string json_;
};

struct ArrayWriteSpecOptions {
  std::string directory;
  std::string relative_array_filename;
  Shape global_shape;
  Shape write_shape;                       // of the pieces that are written whole
  DType dtype = DType::kFloat32;           // of the values that are given
  std::optional<DType> target_dtype = {};  // that they are stored as; none: as given
  std::optional<std::int64_t> chunk_byte_size = {};
  std::vector<std::int64_t> shard_axes = {};
  bool use_compression = true;
  bool use_zarr3 = false;
  bool use_ocdbt = true;
  std::optional<std::int64_t> ocdbt_target_data_file_size = {};  // as in OcdbtWriteOptions
  // letters and digits; none: the database is the directory's own
  std::optional<std::string> process_id = {};
  std::optional<std::string> metadata_key = {};
  bool replica_separate_folder = false;
  std::optional<std::string> ext_metadata = {};  // JSON object, kept for metadata()
  bool store_ocdbt_metadata_and_values_separately = false;
  std::optional<std::string> temporary_metadata = {};  // as in KvStoreSpecOptions
};

// The spec for making and writing an array, its chunk shape chosen.
class ArrayWriteSpec {
 public:
  explicit ArrayWriteSpec(const ArrayWriteSpecOptions& options);
  [[nodiscard]] const std::string& json() const { return json_; }
  [[nodiscard]] const ArrayMetadata& metadata() const { return metadata_; }

 private:
  ArrayMetadata metadata_;
  std::string json_;
};

}  // namespace cairn
