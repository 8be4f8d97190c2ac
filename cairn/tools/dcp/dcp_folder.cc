// dcp_folder.cc -- writes the planned data files, and commits the folder.
#include <cairn/tools/dcp/dcp_folder.h>

#include <cairn/base/executor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/formats/output/framed_file.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/output/store_output.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/names.h>
#include <cairn/tools/dcp/dcp_plan.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace cairn::inline v0 {
namespace {

using distributed::ProcessGroup;
// Each process writes its data file. When all have done so, calls `commit` in the primary.
void write_data(SharedFiles& files, const DcpPlan& plan, const FetchFn& fetch,
                const DcpOptions& options, const std::function<void()>& commit) {
  const Workers workers(options.resources.threads);
  const FetchFn fetch_parts = [&](std::span<const TensorPiece> pieces) {
    plan.own->fetch(pieces, fetch);
  };
  files.write([&] {
    if (plan.number)
      write_framed(files[*plan.number], *plan.own, fetch_parts,
                   {.executor = &workers.executor(),
                    .memory = options.resources.memory,
                    .progress = options.progress});
    return Bytes();
  });
  files.commit(commit);
}

void write_local(const ProcessGroup& group, const std::string& target, const DcpPlan& plan,
                 const FetchFn& fetch, const DcpOptions& options) {
  using orbax::PendingDirectory;
  std::optional<PendingDirectory> pending;  // in the primary
  const std::string folder = PendingDirectory::path_for(target, CommitProtocol::kAtomicRename);
  std::vector<std::string> paths;
  for (const pytorch::WrittenFile& file : plan.files) paths.push_back(folder + "/" + file.name);
  SharedFiles files(group, paths,
                    [&] { pending.emplace(target, options.if_exists, options.durability); });
  write_data(files, plan, fetch, options, [&] {
    for (AtomicFile& file : files.temporaries()) file.commit(Durability::kDeferredSync);
    orbax::write_pending_file(folder, orbax::kDistributedFile, as_text(plan.metadata()));
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
    if (entry.name != dcp_data_file(0) && entry.name != orbax::kDistributedFile)
      old.push_back(target + "/" + entry.name);
  return old;
}

void write_to_store(const ProcessGroup& group, const std::string& target, const DcpPlan& plan,
                    const FetchFn& fetch, const DcpOptions& options) {
  const std::string index = target + "/" + std::string(orbax::kDistributedFile);
  const OutputPlace place(index, options.store);
  std::vector<OutputFile> outputs;
  for (const pytorch::WrittenFile& file : plan.files)
    outputs.push_back({target + "/" + file.name, group.is_primary() ? plan.own->size() : 0});
  StoreOutput output(place, outputs, index, options.if_exists);
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
  const std::string where = normal_path(target);
  const bool is_store = is_store_url(where);
  const DcpPlan plan = plan_dcp(group, tree, sources,
                                {.key_types = options.key_types, .chunks = options.chunks, .alone = is_store});
  if (is_store)
    write_to_store(group, where, plan, fetch, options);
  else
    write_local(group, where, plan, fetch, options);
}

}  // namespace cairn::inline v0
