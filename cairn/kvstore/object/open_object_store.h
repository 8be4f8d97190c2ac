// open_object_store.h -- opens the store of an s3://, gs://, http(s):// or hf:// URL.
#pragma once

#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

#include <string_view>

namespace cairn::inline v0::object {

// The values below the URL, which is a folder: keys are what follows it and a '/'. Connections and
// credentials are shared with other stores of the same endpoint and options. Sends no request.
StorePtr open_object_store(std::string_view url, const StoreOptions& options);

}  // namespace cairn::inline v0::object
