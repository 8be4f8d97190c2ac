// save.cc -- saves trees, through the default type handlers, and items that the caller has put
// together.
#include <cairn/orbax/save/save.h>

#include <cairn/base/executor.h>
#include <cairn/handlers.h>
#include <cairn/orbax.h>
#include <cairn/orbax/save/checkpoint_transaction.h>
#include <cairn/orbax/save/finalize.h>
#include <cairn/orbax/save/pytree_save.h>

#include <functional>
#include <utility>

namespace cairn::inline v0 {
namespace orbax {

void save_item(const std::string& path, SaveItem item, const SaveOptions& options,
               const MultiprocessingOptions& job) {
  const distributed::ProcessGroup group(job);
  const Workers workers(options.resources.threads);
  const auto prepare = [&](const std::string& folder) {
    return [&, folder] {
      write_pytree_item(folder, std::move(item), options, workers.executor(), group);
    };
  };
  const auto finalize = [&](const std::string& folder) {
    if (!group.is_single()) finalize_item(folder, {.processes = group.count()});
  };
  start_save({.path = path,
              .options = options,
              .custom_metadata = "",
              .group = group,
              .prepare = prepare,
              .finalize = finalize,
              .gives_up = true})();
}

}  // namespace orbax

void save_orbax(const std::string& path, const Tree& tree, const SaveOptions& options) {
  const distributed::ProcessGroup group({});
  const Workers workers(options.resources.threads);
  const orbax::SaveContext context{.options = options,
                                   .registry = &default_type_handler_registry(),
                                   .group = &group,
                                   .executor = &workers.executor(),
                                   .observer = options.observer};
  const auto prepare = [&](const std::string& folder) -> std::function<void()> {
    auto prepared = orbax::prepare_save(folder, tree, context);
    return [write = std::move(prepared.write), &options] {
      write({.memory = options.resources.memory});
    };
  };
  const auto finalize = [&](const std::string& folder) {
    orbax::finalize_item(folder, {.registry = context.registry, .observer = options.observer});
  };
  orbax::start_save({.path = path,
                     .options = options,
                     .custom_metadata = "",
                     .group = group,
                     .prepare = prepare,
                     .finalize = finalize})();
}

}  // namespace cairn::inline v0
