// dcp_steps.cc -- a manager's steps as Distributed Checkpoints of PyTorch.
//
//   <root>/<step>/.metadata               with __<rank>_0.distcp: as dcp_folder.h
//   <root>/<step>/metrics/metrics         the metrics of the step, if it has any
//   <root>/<step>/_CHECKPOINT_METADATA    as in Orbax's steps: times, and the metadata of the step;
//                                         PyTorch does not read it
#include <cairn/steps.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/formats/output/framed_file.h>
#include <cairn/formats/output/store_file.h>
#include <cairn/formats/pytorch/distributed/completeness.h>
#include <cairn/io/atomic_file.h>
#include <cairn/open.h>
#include <cairn/orbax/layout/names.h>
#include <cairn/orbax/save/step_format.h>
#include <cairn/tools/dcp/copied_tree.h>
#include <cairn/tools/dcp/dcp_plan.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using distributed::StepKind;

class DcpStepWrite final : public StepWrite {
 public:
  DcpStepWrite(const PyTreeSaveArgs& args, const StepTarget& target)
      : folder_(target.folder),
        options_(target.options),
        group_(target.group),
        progress_(target.progress),
        key_types_(args.key_types),
        workers_(options_.resources.threads) {
    group_.step("save: copy", StepKind::kControl, [&] {
      // A tree shares the values of the one that it is copied from.
      tree_ = target.copies ? copied_tree(args.item, workers_.executor()) : args.item;
      if (options_.chunk_bytes)
        chunks_.chunk_bytes = static_cast<std::uint64_t>(*options_.chunk_bytes);
    });
    plan_ = plan_dcp(group_, tree_, {}, key_types_, chunks_);
  }

  void write() override {
    group_.step("save: write", StepKind::kIo, [&] {
      if (plan_.number) write_data(plan_.files[*plan_.number].name);
    });
  }
  void finalize() override { folder_.write(orbax::kDistributedFile, as_text(plan_.metadata())); }

 private:
  void write_data(const std::string& name) const {
    const std::string path = folder_.child(name).path();
    if (folder_.is_local()) {
      AtomicFile file(path);
      write_to(file);
      return file.commit(Durability::kDeferredSync);
    }
    StoreFile file(
        folder_.files(options_.durability),
        {.key = name, .url = path, .size = plan_.own->size(), .if_exists = IfExists::kReplace});
    write_to(file);
    file.commit();
  }
  void write_to(ByteTarget& file) const {
    const FetchFn none = [](std::span<const TensorPiece> /*pieces*/) {};
    write_framed(file, *plan_.own,
                 [&](std::span<const TensorPiece> pieces) { plan_.own->fetch(pieces, none); },
                 {.executor = &workers_.executor(),
                  .memory = options_.resources.memory,
                  .progress = progress_});
  }

  OutputFolder folder_;
  const PyTreeCheckpointHandlerOptions& options_;
  const distributed::ProcessGroup& group_;
  ProgressFn progress_;
  std::vector<DictKeyTypes> key_types_;
  Workers workers_;
  pytorch::ChunkRules chunks_;
  Tree tree_;
  DcpPlan plan_;  // borrows the members above
};

class DcpSteps final : public StepFormat {
 public:
  void check_options(const PyTreeCheckpointHandlerOptions& options) const override {
    const PyTreeCheckpointHandlerOptions none;
    const std::pair<std::string_view, bool> given[] = {
        {"save_concurrent_gb", options.save_concurrent_gb || options.save_concurrent_bytes},
        {"restore_concurrent_gb",
         options.restore_concurrent_gb || options.restore_concurrent_bytes},
        {"save_device_host_concurrent_gb",
         options.save_device_host_concurrent_gb || options.save_device_host_concurrent_bytes},
        {"use_ocdbt", options.use_ocdbt != none.use_ocdbt},
        {"use_zarr3", options.use_zarr3 != none.use_zarr3},
        {"compression", options.use_compression != none.use_compression ||
                            !(options.compression == none.compression)},
        {"type_handler_registry", options.type_handler_registry != nullptr},
        {"support_rich_types", options.pytree_metadata_options.support_rich_types},
        {"array_metadata_validator", options.array_metadata_validator != nullptr},
        {"is_prioritized_key_fn", options.is_prioritized_key_fn != nullptr},
        {"reuse", options.reuse != none.reuse}};
    for (const auto& [name, is_given] : given) refuse_if(is_given, name);
    if (options.chunk_bytes && *options.chunk_bytes <= 0)
      invalid_argument("the largest size of a chunk is not positive");
  }

  std::shared_ptr<StepWrite> start(const PyTreeSaveArgs& args,
                                   const StepTarget& target) const override {
    refuse_if(args.save_args.has_value(), "save_args");
    refuse_if(args.ocdbt_target_data_file_size.has_value(), "ocdbt_target_data_file_size");
    refuse_if(!args.custom_metadata.empty(), "custom_metadata of a tree");
    refuse_if(!args.reuse_from.empty(), "reuse_from");
    return std::make_shared<DcpStepWrite>(args, target);
  }

  std::string why_incomplete(const FolderPtr& folder) const override {
    return pytorch::why_incomplete(FileTree(folder), folder->path());
  }

  Tree restore(const std::string& folder, const PyTreeRestoreArgs& args,
               const PyTreeCheckpointHandlerOptions& options) const override {
    refuse_if(args.item.has_value(), "item");
    refuse_if(args.restore_args.has_value(), "restore_args");
    refuse_if(args.transforms.has_value(), "transforms");
    refuse_if(args.legacy_transform_fn != nullptr, "legacy_transform_fn");
    refuse_if(args.partial_restore, "partial_restore");
    return load(folder, {.resources = options.resources, .store = options.store});
  }

 private:
  static void refuse_if(bool differs, std::string_view name) {
    if (differs)
      invalid_argument("steps of Distributed Checkpoints of PyTorch have no option " +
                       std::string(name) + "; Orbax's steps do");
  }
};

}  // namespace

std::shared_ptr<const StepFormat> distributed_checkpoint_steps() {
  return std::make_shared<DcpSteps>();
}

}  // namespace cairn::inline v0
