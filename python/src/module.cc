// module.cc -- cairn._cairn, the part of the Python package that is native.
#include "conversions.h"
#include "directories.h"
#include "errors.h"
#include "handlers.h"
#include "manager.h"
#include "policies.h"
#include "reader.h"
#include "saver.h"
#include "specs.h"
#include "stores.h"
#include "tensorflow.h"
#include "tools.h"
#include "values/arrays.h"
#include "values/sharded.h"

#include <cairn/open.h>

#include <nanobind/nanobind.h>

NB_MODULE(_cairn, module) {
  // JAX keeps arrays in caches until the process ends, which is no leak of ours.
  nanobind::set_leak_warnings(false);
  module.doc() = "The native part of the package cairn. Its names may change; use cairn's.";
  const auto version = cairn::version();
  module.attr("version") = nanobind::str(version.data(), version.size());
  cairn::python::define_errors(module);
  cairn::python::define_arrays(module);
  cairn::python::define_sharded(module);
  cairn::python::define_reader(module);
  cairn::python::define_saver(module);
  cairn::python::define_handlers(module);
  cairn::python::define_manager(module);
  cairn::python::define_policies(module);
  cairn::python::define_tools(module);
  cairn::python::define_conversions(module);
  cairn::python::define_directories(module);
  cairn::python::define_specs(module);
  cairn::python::define_stores(module);
  cairn::python::define_tensorflow(module);
}
