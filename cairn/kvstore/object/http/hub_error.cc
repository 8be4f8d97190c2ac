// hub_error.cc -- reads X-Error-Code. The Hub answers 401 where there is no token, and else 403 or
// 404.
#include <cairn/kvstore/object/http/hub_error.h>

#include <cairn/kvstore/object/request/store_error.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::object {
namespace {

constexpr std::string_view kTokenPlaces = "HF_TOKEN, or the file that `hf auth login` writes";

std::string error_code_of(const HttpResponse& response) {
  return std::string(response.headers.find("x-error-code").value_or(""));
}

std::string repository_of(const HubUrl& url) {
  const std::string kind = url.kind == "models" ? "" : url.kind + "/";
  return "repository '" + kind + url.repository + "'";
}

std::string missing_repository(const HubUrl& url, bool has_token) {
  return has_token
             ? repository_of(url) + " does not exist, or the user of the token may not read it"
             : repository_of(url) +
                   " does not exist, or it is private: then it needs a token of a user who "
                   "may read it (" +
                   std::string(kTokenPlaces) + ")";
}

std::string gated_repository(const HubUrl& url, bool has_token) {
  return repository_of(url) + " is gated: accept its conditions on its page of the Hub" +
         (has_token ? std::string(", as the user of the token")
                    : ", and give a token of that user (" + std::string(kTokenPlaces) + ")");
}

}  // namespace

bool is_missing_file(const HttpResponse& response) {
  const std::string code = error_code_of(response);
  return response.status == 404 && (code.empty() || code == "EntryNotFound");
}

Error error_of_hub(const HubUrl& url, const HttpRequest& request, const HttpResponse& response) {
  const std::string where = place_of(request) + ": ";
  const std::string code = error_code_of(response);
  const int status = response.status;
  if (code == "RepoNotFound") {
    const bool has_token = status != 401;
    return {has_token ? Code::kNotFound : Code::kIo, where + missing_repository(url, has_token)};
  }
  if (code == "GatedRepo") return {Code::kIo, where + gated_repository(url, status != 401)};
  if (code == "RevisionNotFound")
    return {Code::kNotFound, where + repository_of(url) + " has no revision '" + url.revision +
                                 "'; give a branch, a tag or a commit"};
  if (status == 404) return {Code::kNotFound, where + "no such repository or revision"};
  const std::string refusal = where + status_text(response) + ": ";
  if (status == 401 && response.headers.find("x-error-message") ==
                           std::string_view("Invalid credentials in Authorization header"))
    return {Code::kIo, refusal + "the Hub does not know the token (" + std::string(kTokenPlaces) +
                           "); give a valid one, or none"};
  if (status == 401 || status == 403)
    return {Code::kIo, refusal +
                           "the repository does not exist, or it needs a token of a user who may "
                           "read it (HF_TOKEN)"};
  return error_of_answer(request, response);
}

}  // namespace cairn::inline v0::object
