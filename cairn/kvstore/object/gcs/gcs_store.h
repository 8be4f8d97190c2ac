// gcs_store.h -- a bucket of Google Cloud Storage as a KvStore. A version is a generation.
#pragma once

#include <cairn/kvstore/object/gcs/gcs_client.h>
#include <cairn/storage/kvstore.h>

#include <memory>

namespace cairn::inline v0::object {

// Keys are names of objects, without percent-encoding. Names that a folder could not hold are
// refused, and left out of listings (flaw_of_object_key). If the answer to a conditional write is
// lost, a random number beside the object tells whose it is. A value that a third writer has
// replaced meanwhile counts as not written.
StorePtr make_gcs_store(std::shared_ptr<const GcsClient> client);

}  // namespace cairn::inline v0::object
