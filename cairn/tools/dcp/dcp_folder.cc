// dcp_folder.cc -- writes the planned data files, and commits the folder.
#include <cairn/tools/dcp/dcp_folder.h>

#include <cairn/base/executor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/formats/output/framed_file.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/output/store_file.h>
#include <cairn/formats/output/store_output.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/names.h>
#include <cairn/tools/dcp/dcp_plan.h>

#include <optional>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

using distributed::ProcessGroup;
using distributed::StepKind;
// Writes this process's data file.
void write_own(ByteTarget& file, const DcpPlan& plan, const FetchFn& fetch,
               const DcpOptions& options) {
  const Workers workers(options.resources.threads);
  const FetchFn fetch_parts = [&](std::span<const TensorPiece> pieces) {
    plan.own->fetch(pieces, fetch);
  };
  write_framed(file, *plan.own, fetch_parts,
               {.executor = &workers.executor(),
                .memory = options.resources.memory,
                .progress = options.progress});
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
  files.write([&] {
    if (plan.number) write_own(files[*plan.number], plan, fetch, options);
    return Bytes();
  });
  files.commit([&] {
    for (AtomicFile& file : files.temporaries()) file.commit(Durability::kDeferredSync);
    orbax::write_pending_file(folder, orbax::kDistributedFile, as_text(plan.metadata()));
    pending->commit();
  });
}

// Adds the files below a folder of a store that the new checkpoint does not write again.
void add_old_files(const FolderHandle& folder, const std::string& path,
                   const std::set<std::string>& written, std::vector<std::string>& old) {
  for (const FolderEntry& entry : folder.entries(path)) {
    std::string file = path + "/" + entry.name;
    if (entry.is_folder)
      add_old_files(folder, file, written, old);
    else if (!written.contains(file))
      old.push_back(std::move(file));
  }
}

// The files of an older checkpoint in the folder of a store. Throws already_exists if something is
// there that may not be replaced.
std::vector<std::string> old_files(const std::string& target, const std::set<std::string>& written,
                                   const DcpOptions& options) {
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
  add_old_files(*folder, folder->path(), written, old);
  return old;
}

// The data file of another process than the primary, on its way to a store. It is stored before the
// primary commits. If the processes do not get that far, it is removed.
class OtherFile {
 public:
  OtherFile(const OutputPlace& place, const std::string& url, std::uint64_t size)
      : file_(
            place.store(),
            {.key = place.key_of(url), .url = url, .size = size, .if_exists = IfExists::kReplace}) {
  }
  OtherFile(const OtherFile&) = delete;
  OtherFile& operator=(const OtherFile&) = delete;
  ~OtherFile() {
    if (!kept_) file_.discard();
  }
  [[nodiscard]] StoreFile& file() { return file_; }
  void keep() { kept_ = true; }

 private:
  StoreFile file_;
  bool kept_ = false;
};

void write_to_store(const ProcessGroup& group, const std::string& target, const DcpPlan& plan,
                    const FetchFn& fetch, const DcpOptions& options) {
  const std::string index = target + "/" + std::string(orbax::kDistributedFile);
  const OutputPlace place(index, options.store);
  std::set<std::string> written{index};
  for (const pytorch::WrittenFile& file : plan.files) written.insert(target + "/" + file.name);
  const std::string own = target + "/" + dcp_data_file(group.index());
  const bool is_primary = group.is_primary();
  std::vector<OutputFile> of_primary;
  if (is_primary && plan.number) of_primary.push_back({own, plan.own->size()});
  StoreOutput output(place, of_primary, index, options.if_exists);
  std::optional<OtherFile> other;
  if (!is_primary && plan.number) other.emplace(place, own, plan.own->size());
  std::vector<std::string> old;
  group.step("write: begin", StepKind::kIo, [&] {
    if (!is_primary) return;
    old = old_files(target, written, options);
    output.begin();
  });
  group.step("write: data", StepKind::kIo, [&] {
    if (is_primary && plan.number) write_own(output[0], plan, fetch, options);
    if (other) write_own(other->file(), plan, fetch, options);
  });
  group.step("write: hold", StepKind::kIo, [&] {
    if (is_primary) output.check_claim();
  });
  group.step("write: store", StepKind::kIo, [&] {
    if (other) other->file().commit();
  });
  // An error of the commit may come after the index is in place, which names this file.
  if (other) other->keep();
  group.step("write: commit", StepKind::kIo, [&] {
    if (!is_primary) return;
    output.commit(plan.metadata());
    output.remove_old(old);
  });
}

}  // namespace

void write_dcp(const std::string& target, const Tree& tree, std::span<const TensorSource> sources,
               const FetchFn& fetch, const DcpOptions& options) {
  const ProcessGroup group(options.multiprocessing);
  const std::string where = normal_path(target);
  const DcpPlan plan = plan_dcp(group, tree, sources, options.key_types, options.chunks);
  if (is_store_url(where))
    write_to_store(group, where, plan, fetch, options);
  else
    write_local(group, where, plan, fetch, options);
}

}  // namespace cairn::inline v0
