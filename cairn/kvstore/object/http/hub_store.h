// hub_store.h -- the files of a repository on the Hugging Face Hub as a KvStore, for reading.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/kvstore/object/http/hub_client.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

#include <memory>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// A version is the hash of a file's content. Writing throws unimplemented.
StorePtr make_hub_store(std::shared_ptr<const HubClient> client);

// Opens hf://owner/name@revision/path. No request is sent. The endpoint is that of the options,
// else HF_ENDPOINT, else https://huggingface.co. The token is that of the options (bearer_token),
// else HF_TOKEN, else the file that `hf auth login` writes (HF_TOKEN_PATH, HF_HOME); one that is
// found is sent over https alone, or to this machine. Sharing and `surroundings` as in open_gcs.h.
StorePtr open_hub_store(std::string_view url, const StoreOptions& options,
                        const Surroundings& surroundings);

// Where the token of its requests comes from, for messages: "HF_TOKEN", a path, "anonymous access",
// ... No secret. "": requests go unsigned.
std::string hub_token_source(const StoreOptions& options, const Surroundings& surroundings);

}  // namespace cairn::inline v0::object
