// store_options.cc -- reads the options of object stores.
#include "store_options.h"

#include "option_values.h"
#include "options.h"

#include <cairn/error.h>

#include <nanobind/stl/string.h>

#include <chrono>
#include <cstddef>
#include <string>

namespace nb = nanobind;

namespace cairn::python {
namespace {

std::string name_of_type(nb::handle value) {
  return nb::cast<std::string>(nb::type_name(value.type()));
}

// A str. An error names only the type of another value, because the value may be a secret.
std::string private_text(const std::string& name, nb::handle value) {
  std::string text;
  if (!nb::try_cast(value, text))
    throw Error(Code::kInvalidArgument, name + ": expected a str, not " + name_of_type(value));
  return text;
}

std::size_t positive_number(const std::string& name, nb::handle value) {
  const auto number = number_option<std::size_t>(name, value);
  if (number == 0) throw Error(Code::kInvalidArgument, name + ": expected a positive int, not 0");
  return number;
}

using StoreSetters = Setters<StoreOptions>;

StoreSetters::mapped_type text_setter(std::string StoreOptions::*member) {
  return [member](StoreOptions& o, const std::string& n, nb::handle v) {
    o.*member = private_text(n, v);
  };
}

StoreSetters::mapped_type credential_setter(std::string StoreCredentials::*member) {
  return [member](StoreOptions& o, const std::string& n, nb::handle v) {
    if (!o.credentials) o.credentials.emplace();
    (*o.credentials).*member = private_text(n, v);
  };
}

StoreSetters::mapped_type time_setter(std::chrono::milliseconds StoreOptions::*member) {
  return [member](StoreOptions& o, const std::string& n, nb::handle v) {
    o.*member = seconds_option(n, v);
  };
}

const StoreSetters& store_setters() {
  static const StoreSetters all{
      {"endpoint", text_setter(&StoreOptions::endpoint)},
      {"region", text_setter(&StoreOptions::region)},
      {"profile", text_setter(&StoreOptions::profile)},
      {"ca_file", text_setter(&StoreOptions::ca_file)},
      {"access_key", credential_setter(&StoreCredentials::access_key)},
      {"secret_key", credential_setter(&StoreCredentials::secret_key)},
      {"session_token", credential_setter(&StoreCredentials::session_token)},
      {"bearer_token", credential_setter(&StoreCredentials::bearer_token)},
      {"anonymous", [](StoreOptions& o, const std::string& n,
                       nb::handle v) { o.anonymous = bool_option(n, v); }},
      {"path_style", [](StoreOptions& o, const std::string& n,
                        nb::handle v) { o.path_style = bool_option(n, v); }},
      {"verify_tls", [](StoreOptions& o, const std::string& n,
                        nb::handle v) { o.verify_tls = bool_option(n, v); }},
      {"max_connections", [](StoreOptions& o, const std::string& n,
                             nb::handle v) { o.max_connections = positive_number(n, v); }},
      {"connect_timeout", time_setter(&StoreOptions::connect_timeout)},
      {"stall_timeout", time_setter(&StoreOptions::stall_timeout)},
      {"retry_time", time_setter(&StoreOptions::retry_time)},
  };
  return all;
}

// Throws invalid_argument for a key that is not the name of an option.
void check_names(nb::dict options) {
  for (const auto [key, value] : options) {
    const std::string name = private_text("the name of an option", key);
    if (store_setters().contains(name)) continue;
    std::string known;
    for (const auto& [each, setter] : store_setters()) known += (known.empty() ? "" : ", ") + each;
    throw Error(Code::kInvalidArgument, "unknown option '" + name + "'; the options are " + known);
  }
}

// Throws invalid_argument for a part of the keys of an account.
void check_keys(const StoreOptions& options) {
  if (!options.credentials) return;
  const StoreCredentials& given = *options.credentials;
  if (given.access_key.empty() != given.secret_key.empty())
    throw Error(Code::kInvalidArgument, "access_key and secret_key: only one of them is given");
  if (given.access_key.empty() && !given.session_token.empty())
    throw Error(Code::kInvalidArgument, "session_token: access_key and secret_key are missing");
}

}  // namespace

StoreOptions store_options(nb::handle given) {
  StoreOptions result;
  if (given.is_none()) return result;
  with_context([] { return std::string("storage_options"); },
               [&] {
                 nb::dict options;
                 if (!nb::try_cast(given, options))
                   throw Error(Code::kInvalidArgument,
                               "expected a dict, not " + name_of_type(given));
                 check_names(options);
                 set_options(options, {&store_setters()}, result);
                 check_keys(result);
               });
  return result;
}

}  // namespace cairn::python
