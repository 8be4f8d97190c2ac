// hub_error.h -- what a refusal of the Hugging Face Hub means, and what the user can do about it.
#pragma once

#include <cairn/error.h>
#include <cairn/kvstore/object/http/hub_url.h>
#include <cairn/kvstore/object/transport/http.h>

namespace cairn::inline v0::object {

// Whether an answer says that the file or folder is absent, and not the repository or the revision.
bool is_missing_file(const HttpResponse& response);

// The error for an answer of the Hub that is not a result. The header X-Error-Code decides:
// RepoNotFound, RevisionNotFound, GatedRepo; else the status.
Error error_of_hub(const HubUrl& url, const HttpRequest& request, const HttpResponse& response);

}  // namespace cairn::inline v0::object
