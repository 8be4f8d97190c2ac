// dcp_folder.cc -- plans the data file, writes it, and commits the folder.
#include <cairn/tools/dcp/dcp_folder.h>

#include <cairn/base/executor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/formats/output/framed_file.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/output/store_output.h>
#include <cairn/formats/pytorch/write/distributed_metadata.h>
#include <cairn/formats/pytorch/write/state_entries.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/contents.h>

#include <optional>
#include <string_view>

namespace cairn::inline v0 {
namespace {

using distributed::ProcessGroup;
using distributed::StepKind;

constexpr std::string_view kDataFile = "__0_0.distcp";
constexpr std::string_view kMetadataFile = ".metadata";

// A planned checkpoint.
struct Plan {
  std::vector<pytorch::StateEntry> entries;
  std::optional<pytorch::DistributedFile> file;

  [[nodiscard]] Bytes metadata() const {
    return pytorch::distributed_metadata(entries, *file, std::string(kDataFile));
  }
};

// Writes the data file and, when all processes have done so, calls `commit` in the primary.
void write_data(SharedFiles& files, const Plan& plan, const FetchFn& fetch,
                const DcpOptions& options, const std::function<void()>& commit) {
  const Workers workers(options.resources.threads);
  const FetchFn fetch_parts = [&](std::span<const TensorPiece> pieces) {
    plan.file->fetch(pieces, fetch);
  };
  FramedWriter writer(files, {&*plan.file}, fetch_parts,
                      {.executor = &workers.executor(),
                       .memory = options.resources.memory,
                       .progress = options.progress});
  const std::vector<Bytes> checksums = files.write([&] { return writer.write(); });
  files.commit([&] {
    writer.finish(checksums);
    commit();
  });
}

void write_local(const ProcessGroup& group, const std::string& target, const Plan& plan,
                 const FetchFn& fetch, const DcpOptions& options) {
  using orbax::PendingDirectory;
  std::optional<PendingDirectory> pending;  // in the primary
  const std::string folder =
      PendingDirectory::path_for(target, CommitProtocol::kAtomicRename);
  SharedFiles files(group, {folder + "/" + std::string(kDataFile)}, [&] {
    pending.emplace(target, options.if_exists, options.durability);
  });
  write_data(files, plan, fetch, options, [&] {
    files.temporaries().front().commit(Durability::kDeferredSync);
    orbax::write_pending_file(folder, kMetadataFile, as_text(plan.metadata()));
    pending->commit();
  });
}

// The data files of an older checkpoint in the folder of a store. Throws already_exists if
// something is there that may not be replaced.
std::vector<std::string> old_files(const std::string& target, const DcpOptions& options) {
  std::vector<std::string> old;
  FolderPtr folder;
  try {
    folder = open_folder(target, options.store);
  } catch (const Error& e) {
    if (e.code() == Code::kNotFound) return old;
    throw;
  }
  if (options.if_exists == IfExists::kFail)
    throw Error(Code::kAlreadyExists, target + ": already exists");
  orbax::check_only_checkpoint(folder, orbax::DirectoryRole::kTarget);
  for (const FolderEntry& entry : folder->entries(folder->path()))
    if (entry.name != kDataFile && entry.name != kMetadataFile)
      old.push_back(target + "/" + entry.name);
  return old;
}

void write_to_store(const ProcessGroup& group, const std::string& target, const Plan& plan,
                    const FetchFn& fetch, const DcpOptions& options) {
  const std::string index = target + "/" + std::string(kMetadataFile);
  const OutputPlace place(index, options.store);
  StoreOutput output(place, {{target + "/" + std::string(kDataFile), plan.file->size()}}, index,
                     options.if_exists);
  std::vector<std::string> old;
  SharedFiles files(group, output, 0, [&] {
    old = old_files(target, options);
    output.begin();
  });
  write_data(files, plan, fetch, options, [&] {
    output.commit(plan.metadata());
    output.remove_old(old);
  });
}

}  // namespace

void write_dcp(const std::string& target, const Tree& tree, std::span<const TensorSource> sources,
               const FetchFn& fetch, const DcpOptions& options) {
  const ProcessGroup group(options.multiprocessing);
  Plan plan;
  group.step("write: plan", StepKind::kControl, [&] {
    plan.entries = pytorch::flatten_state(tree);
    plan.file.emplace(plan.entries, sources, options.key_types, options.chunks);
  });
  const std::string where = normal_path(target);
  if (is_store_url(where))
    write_to_store(group, where, plan, fetch, options);
  else
    write_local(group, where, plan, fetch, options);
}

}  // namespace cairn::inline v0
