// handlers.h -- registries of type handlers with options of one's own.
#pragma once

#include <cairn/orbax/handlers.h>
#include <cairn/orbax/sharding.h>

#include <memory>
#include <typeinfo>

namespace cairn {

// The standard handlers, but that of sharded arrays has these options.
inline std::shared_ptr<const TypeHandlerRegistry> with_array_options(
    const ArrayHandler::Options& array) {
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(ShardedArray), std::make_shared<ArrayHandler>(array), {nullptr, true});
  return registry;
}

}  // namespace cairn
