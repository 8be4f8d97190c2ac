// save.cc -- saves trees, through the default type handlers, and items that the caller has put
// together.
#include <cairn/orbax/save/save.h>

#include <cairn/base/executor.h>
#include <cairn/orbax/commit/checkpoint_transaction.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/open.h>
#include <cairn/orbax/save/finalize.h>
#include <cairn/orbax/save/pytree_save.h>
#include <cairn/orbax/save/save_progress.h>

#include <functional>
#include <utility>

namespace cairn::inline v0 {
namespace orbax {
namespace {

// Adds a tree's report to that of the trees before it. The larger part names rates and reason.
void add(const CompressionReport& tree, CompressionReport& all) {
  const auto bytes = [](const CompressionReport& report) {
    return report.compressed_bytes + report.raw_bytes + report.incompressible_bytes;
  };
  CompressionReport sum = bytes(tree) > bytes(all) ? tree : all;
  sum.compressed_bytes = tree.compressed_bytes + all.compressed_bytes;
  sum.compressed_size = tree.compressed_size + all.compressed_size;
  sum.raw_bytes = tree.raw_bytes + all.raw_bytes;
  sum.incompressible_bytes = tree.incompressible_bytes + all.incompressible_bytes;
  all = std::move(sum);
}

}  // namespace

CompressionReport save_items(const std::string& path, ItemsSave save, const SaveOptions& options,
                             const MultiprocessingOptions& job) {
  const distributed::ProcessGroup group(job);
  const Workers workers(options.resources.threads);
  CompressionReport report;
  const auto folder_of = [&](const OutputFolder& folder, const std::string& item) {
    return save.content.items.empty() ? folder : folder.child(item);
  };
  SaveProgress progress(options.progress);
  const auto write = [&](const OutputFolder& folder) {
    for (SavedTree& tree : save.trees) progress.expect(tree.item);
    progress.run([&] {
      for (SavedTree& tree : save.trees)
        add(write_pytree_item(folder_of(folder, tree.name), std::move(tree.item), tree.options,
                              workers.executor(), group)
                .compression,
            report);
    });
  };
  const auto prepare = [&](const OutputFolder& folder) { return [&, folder] { write(folder); }; };
  const auto finalize = [&](const OutputFolder& folder) {
    for (const SavedTree& tree : save.trees)
      if (!group.is_single())
        finalize_item(folder_of(folder, tree.name),
                      {.processes = group.count(), .threads = options.resources.threads});
    for (const CopiedItem& item : save.copies) copy_item(item, folder_of(folder, item.name));
  };
  start_save({.path = path,
              .options = options,
              .content = save.content,
              .group = group,
              .prepare = prepare,
              .finalize = finalize,
              .gives_up = true})();
  return report;
}

}  // namespace orbax

void save_orbax(const std::string& path, const Tree& tree, const SaveOptions& options) {
  if (options.multiprocessing.coordinator != nullptr)
    throw Error(Code::kInvalidArgument,
                "multiprocessing: a Checkpointer saves Orbax checkpoints of several processes");
  if (!options.reuse_from.empty() && options.reuse == Reuse::kNone)
    throw Error(Code::kInvalidArgument,
                "reuse_from is set, but the option reuse is not kUnchanged");
  const distributed::ProcessGroup group({});
  const Workers workers(options.resources.threads);
  orbax::SaveProgress progress(options.progress);
  const orbax::SaveContext context{.options = options,
                                   .support_rich_types = options.support_rich_types,
                                   .registry = &default_type_handler_registry(),
                                   .group = &group,
                                   .executor = &workers.executor(),
                                   .observer = options.observer,
                                   .reuse = {.from = options.reuse_from,
                                             .for_later = options.reuse == Reuse::kUnchanged,
                                             .observer = options.observer},
                                   .progress = &progress};
  const auto prepare = [&](const OutputFolder& folder) -> std::function<void()> {
    auto prepared = orbax::prepare_save(folder, tree, context);
    return [write = std::move(prepared.write), &progress, &options] {
      progress.run([&] { write({.memory = options.resources.memory}); });
    };
  };
  const auto finalize = [&](const OutputFolder& folder) {
    // One process has written it. To look for others in a store would take requests.
    orbax::finalize_item(folder, {.compares = folder.is_local(),
                                  .merges = folder.is_local(),
                                  .threads = options.resources.threads,
                                  .registry = context.registry,
                                  .observer = options.observer});
  };
  orbax::start_save({.path = path,
                     .options = options,
                     .content = {.custom_metadata = options.custom_metadata},
                     .group = group,
                     .prepare = prepare,
                     .finalize = finalize})();
}

}  // namespace cairn::inline v0
