// finalize.cc -- checks and merges the files that several processes wrote.
#include <cairn/orbax/save/finalize.h>

#include <cairn/base/observer/observe.h>
#include <cairn/base/text.h>
#include <cairn/handlers/array_reader.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/ocdbt/write/writer.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/save/database_options.h>
#include <cairn/zarr/read/array.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::size_t kShownNames = 5;

using Recorded = std::vector<SavedArrayMetadata>;

Recorded parse_recorded(ByteView text) {
  Recorded out;
  for (StoredArrayMetadata& array : parse_array_metadatas(as_text(text)))
    out.push_back({std::move(array.name), std::move(array.write_shape),
                   std::move(array.chunk_shape), std::move(array.random_key_impl)});
  return out;
}

void compare(const Recorded& first, const Recorded& other) {
  const auto refuse = [](const std::string& what) { throw Error(Code::kDataLoss, what); };
  if (first.size() != other.size())
    refuse("the processes saved different numbers of arrays: " + std::to_string(first.size()) +
           " and " + std::to_string(other.size()));
  std::unordered_map<std::string_view, const SavedArrayMetadata*> by_name;
  for (const SavedArrayMetadata& array : first) by_name.emplace(array.param_name, &array);
  for (const SavedArrayMetadata& array : other) {
    const auto it = by_name.find(array.param_name);
    if (it == by_name.end())
      refuse(array.param_name + ": was saved by one process but not by another");
    const SavedArrayMetadata& same = *it->second;
    if (same.write_shape != array.write_shape)
      refuse(array.param_name + ": processes wrote it in pieces of " +
             shape_text(same.write_shape) + " and " + shape_text(array.write_shape));
    if (same.chunk_shape != array.chunk_shape)
      refuse(array.param_name + ": processes wrote it in chunks of " +
             shape_text(same.chunk_shape) + " and " + shape_text(array.chunk_shape));
    if (same.random_key_impl != array.random_key_impl)
      refuse(array.param_name + ": processes wrote it as a PRNG key of '" + same.random_key_impl +
             "' and '" + array.random_key_impl + "'");
  }
}

// The number at the end of a file's name.
std::size_t process_of_file(const std::string& file, std::string_view name) {
  const std::string_view digits = name.substr(kArrayMetadataPrefix.size());
  std::size_t process = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  if (!consists_of(digits, kDecimalDigits) || read.ec != std::errc())
    throw Error(Code::kDataLoss,
                file + ": the name does not end with the number of a process (process_0)");
  return process;
}

// Calls the caller's validator with the records of all processes.
void validate_with(const ArrayMetadataValidator& validator, const Listing& listing) {
  std::map<std::size_t, Recorded> by_process;
  for (const std::string& name : listing.files) {
    const std::string file = join(listing.path, name);
    const std::size_t process = process_of_file(file, name);
    by_process[process] = with_context(
        [&] { return file; },
        [&] { return parse_recorded(listing.folder->read_text(file, kMaxMetadataFile)); });
  }
  with_context([&] { return listing.path; }, [&] { validator(by_process); });
}

std::string names_text(const std::set<std::string>& names) {
  std::string text;
  std::size_t shown = 0;
  for (const std::string& name : names)
    if (shown++ < kShownNames) text += (text.empty() ? "'" : ", '") + name + "'";
  return text + (names.size() > kShownNames ? ", ..." : "");
}

// The names of the arrays of one or more databases.
struct ArrayNames {
  std::set<std::string> described, stored;  // with .zarray; with a chunk
};

void add_names(const KvStore& store, ArrayNames& names) {
  for (const ListEntry& entry : store.list("")) {
    const auto name = handlers::array_of_key(entry.key);
    if (name)
      (handlers::is_metadata_key(entry.key) ? names.described : names.stored).emplace(*name);
  }
}

// Removes the names of arrays without elements, which have no chunks.
void drop_empty(std::set<std::string>& names, std::span<const StorePtr> stores) {
  std::erase_if(names, [&](const std::string& name) {
    return std::any_of(stores.begin(), stores.end(), [&](const StorePtr& store) {
      const auto text =
          store->read_at_most(zarr::ZarrArray::metadata_key(name, 2), kMaxMetadataFile);
      return text && element_count(zarr::parse_zarray(as_text(*text)).shape) == 0;
    });
  });
}

// The names in `some` that are not in `others`.
std::set<std::string> missing_from(const std::set<std::string>& others,
                                   const std::set<std::string>& some) {
  std::set<std::string> missing;
  std::set_difference(some.begin(), some.end(), others.begin(), others.end(),
                      std::inserter(missing, missing.end()));
  return missing;
}

// Checks the arrays of the databases in these folders, and of the directory's own, together: throws
// unless each array with `.zarray` has a chunk, and each chunk belongs to an array.
void check_merged(const OutputFolder& directory, const Listing& listing,
                  const std::vector<std::string>& folders) {
  ArrayNames names;
  std::vector<StorePtr> stores;
  const auto add = [&](const OutputFolder& folder) {
    with_context([&] { return folder.path(); },
                 [&] {
                   stores.push_back(open_ocdbt(folder.files(Durability::kUnsynced)));
                   add_names(*stores.back(), names);
                 });
  };
  if (listing.has_file(kManifestFile)) add(directory);
  for (const std::string& folder : folders) add(directory.child(folder));
  std::set<std::string> without_chunks = missing_from(names.stored, names.described);
  const std::set<std::string> without_metadata = missing_from(names.described, names.stored);
  drop_empty(without_chunks, stores);
  if (!without_chunks.empty())
    throw Error(Code::kDataLoss,
                directory.path() +
                    ": after merging, params are missing: no process wrote values of " +
                    names_text(without_chunks));
  if (!without_metadata.empty())
    throw Error(Code::kDataLoss, directory.path() +
                                     ": after merging, there are values but no .zarray of " +
                                     names_text(without_metadata));
}

// Compares what the processes recorded in array_metadatas/process_<i>. If `validator` is null, this
// function compares it itself. `processes` as in FinalizeOptions.
void check_array_metadatas(const FolderPtr& directory, const ArrayMetadataValidator& validator,
                           std::size_t processes) {
  const std::string folder = join(directory->path(), kArrayMetadataFolder);
  if (!directory->is_folder(folder)) return;  // a tree without device arrays
  Listing listing = list_directory(directory, folder);
  std::erase_if(listing.files,
                [](const std::string& name) { return !name.starts_with(kArrayMetadataPrefix); });
  if (listing.files.empty()) throw Error(Code::kDataLoss, folder + ": has no file of any process");
  for (std::size_t p = 0; p < processes; ++p)
    if (!listing.has_file(std::string(kArrayMetadataPrefix) + std::to_string(p)))
      throw Error(Code::kDataLoss, folder + ": process " + std::to_string(p) + " of " +
                                       std::to_string(processes) + " has recorded no arrays");
  if (validator) return validate_with(validator, listing);
  Buffer first_text;
  std::optional<Recorded> first;
  for (const std::string& name : listing.files) {
    const std::string file = join(folder, name);
    (void)process_of_file(file, name);
    Buffer text = directory->read_text(file, kMaxMetadataFile);
    if (first && as_text(text) == as_text(first_text)) continue;
    Recorded recorded = with_context([&] { return file; }, [&] { return parse_recorded(text); });
    if (!first) {
      if (recorded.empty()) throw Error(Code::kDataLoss, file + ": the process recorded no arrays");
      first = std::move(recorded);
      first_text = std::move(text);
      continue;
    }
    with_context([&] { return file + ", compared with " + listing.files[0]; },
                 [&] { compare(*first, recorded); });
  }
}

// As merge_databases(), for a directory that is open for reading.
std::size_t merge(const OutputFolder& directory, const FolderPtr& opened,
                  const MergeOcdbtOptions& options) {
  const Stopwatch watch;
  const Listing listing = list_directory(opened, directory.path());
  std::vector<std::string> folders;
  for (const std::string& name : listing.folders)
    if (name.starts_with(kProcessPrefix)) folders.push_back(name);
  if (folders.empty()) return 0;
  if (options.enable_validation && !options.use_zarr3) check_merged(directory, listing, folders);
  ocdbt::WriterOptions writing = database_options(options.resources.threads);
  if (options.store_ocdbt_metadata_and_values_separately) {
    writing.value_prefix = "ocdbt_data/";
    writing.btree_prefix = writing.version_prefix = "ocdbt_meta/";
  }
  ocdbt::Writer writer(directory.files(Durability::kUnsynced), std::move(writing));
  for (const std::string& folder : folders)
    with_context([&] { return join(directory.path(), folder); },
                 [&] { writer.copy_database(folder + "/"); });
  writer.commit();
  observe(options.observer, EventLevel::kInfo, "save.merged",
          {{"path", directory.path()}, {"databases", static_cast<std::int64_t>(folders.size())}},
          watch.elapsed());
  return folders.size();
}

}  // namespace

std::size_t merge_databases(const OutputFolder& directory, const MergeOcdbtOptions& options) {
  const FolderPtr opened = directory.try_open();
  return opened == nullptr ? 0 : merge(directory, opened, options);
}

void finalize_item(const OutputFolder& directory, const FinalizeOptions& options) {
  const bool looks = options.compares || options.merges;  // in a store, this takes requests
  if (const FolderPtr opened = looks ? directory.try_open() : nullptr) {
    if (options.compares) check_array_metadatas(opened, options.validator, options.processes);
    if (options.merges)
      (void)merge(directory, opened,
                  {.enable_validation = options.validates,
                   .resources = {.threads = options.threads},
                   .observer = options.observer});
  }
  if (options.registry == nullptr) return;
  for (const TypeHandlerPtr& handler : options.registry->handlers())
    handler->finalize(directory.path());
}

}  // namespace cairn::inline v0::orbax

namespace cairn::inline v0 {

std::size_t merge_ocdbt_per_process_files(const std::string& directory,
                                          const MergeOcdbtOptions& options) {
  const std::string path = normal_path(directory);
  return orbax::merge_databases(OutputFolder::at(path, options.store), options);
}

}  // namespace cairn::inline v0
