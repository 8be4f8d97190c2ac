// dcp_folder.cc -- plans the data files, writes them, and commits the folder.
#include <cairn/tools/dcp/dcp_folder.h>

#include <cairn/base/executor.h>
#include <cairn/distributed/consistency.h>
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

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace cairn::inline v0 {
namespace {

using distributed::ProcessGroup;
using distributed::StepKind;

constexpr std::string_view kMetadataFile = ".metadata";

// The data file of a process, by its rank.
std::string data_file(std::size_t rank) { return fmt::format("__{}_0.distcp", rank); }

// A planned checkpoint, as each process knows it.
struct DcpPlan {
  std::vector<pytorch::StateEntry> entries;
  std::unique_ptr<const pytorch::DistributedFile> own;  // what this process writes
  std::vector<pytorch::WrittenFile> files;              // of all processes that write something
  std::optional<std::size_t> number = {};               // of this process's own among them

  [[nodiscard]] Bytes metadata() const {
    return pytorch::distributed_metadata(entries, *own, files);
  }
};

// Plans this process's part, and learns those of the others. `alone`: the primary writes all.
DcpPlan make_plan(const ProcessGroup& group, const Tree& tree,
                  std::span<const TensorSource> sources, bool alone, const DcpOptions& options) {
  DcpPlan plan;
  distributed::ConsistencyCheck check("writes");
  std::vector<Bytes> messages = group.gather("write: entries", StepKind::kControl, [&] {
    plan.entries = pytorch::flatten_state(tree);
    std::string names;
    for (const pytorch::StateEntry& entry : plan.entries)
      names += entry.name + (entry.is_tensor ? " (a tensor)\n" : "\n");
    check.add("the processes do not save the same entries", names);
    return check.message();
  });
  check.check(messages, group, "write: other entries");
  messages = group.gather("write: plan", StepKind::kControl, [&] {
    const bool idle = alone && !group.is_primary();
    const WorkShare share = idle || alone ? WorkShare{idle ? std::size_t{1} : 0, idle ? 2U : 1U}
                                          : WorkShare{group.index(), group.count()};
    plan.own = std::make_unique<pytorch::DistributedFile>(
        plan.entries, sources, options.key_types, options.chunks,
        pytorch::WriterShare{.sources = share, .has_values = group.is_primary()});
    return pytorch::parts_message(plan.own->parts());
  });
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].empty()) continue;
    if (alone && rank != group.primary())
      group.step("write: refuse", StepKind::kControl, [] {
        throw Error(Code::kUnimplemented,
                    "a Distributed Checkpoint of arrays that several processes hold is written to "
                    "a folder of this machine only, not to a store");
      });
    if (rank == group.index()) plan.number = plan.files.size();
    plan.files.push_back({data_file(rank), pytorch::parts_of_message(messages[rank])});
  }
  return plan;
}

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
    if (entry.name != data_file(0) && entry.name != kMetadataFile)
      old.push_back(target + "/" + entry.name);
  return old;
}

void write_to_store(const ProcessGroup& group, const std::string& target, const DcpPlan& plan,
                    const FetchFn& fetch, const DcpOptions& options) {
  const std::string index = target + "/" + std::string(kMetadataFile);
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
  const DcpPlan plan = make_plan(group, tree, sources, is_store, options);
  if (is_store)
    write_to_store(group, where, plan, fetch, options);
  else
    write_local(group, where, plan, fetch, options);
}

}  // namespace cairn::inline v0
