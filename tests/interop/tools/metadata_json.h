// metadata_json.h -- the metadata of a step as JSON: {"init", "commit": n | null,
// "handlers": {...}, "items": [...], "metrics": {...} | null, "custom": text}.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/orbax/step_metadata.h>

#include <utility>

namespace cairn::testing {

inline Json metadata_json(const StepMetadata& metadata) {
  JsonObject handlers, metrics;
  JsonArray items;
  for (const auto& [item, handler] : metadata.item_handlers) handlers.emplace_back(item, handler);
  for (const std::string& item : metadata.items) items.push_back(item);
  if (metadata.metrics)
    for (const auto& [name, value] : *metadata.metrics) metrics.emplace_back(name, value);
  const auto time = [](const auto& ns) { return ns ? Json(*ns) : Json(); };
  return JsonObject{{"init", time(metadata.init_timestamp_ns)},
                    {"commit", time(metadata.commit_timestamp_ns)},
                    {"handlers", std::move(handlers)},
                    {"items", std::move(items)},
                    {"metrics", metadata.metrics ? Json(std::move(metrics)) : Json()},
                    {"custom", metadata.custom_metadata}};
}

}  // namespace cairn::testing
