// load.cc -- the module is a shared library in a folder beside the command's.
#include "load.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

namespace cairn::cli {
namespace {

// The path is relative to the command: it is the same in the build tree and after installation.
std::string module_path() {
  std::error_code error;
  const auto command = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    throw Error(Code::kUnavailable,
                "cannot find the path of the cairn command: " + error.message());
  return (command.parent_path() / CAIRN_MODULES / "cairn-mpi.so").lexically_normal().string();
}

using Refuse = std::function<Error(const std::string& why)>;

template <class Function>
Function* function_of_module(const char* name, const Refuse& refuse) {
  const std::string path = module_path();
  if (::access(path.c_str(), F_OK) != 0)
    throw refuse("it was built or installed without its module for MPI: " + path + " is missing");
  // RTLD_GLOBAL, because MPI loads plug-ins that need its symbols. The library is never closed,
  // because MPI may have registered functions that run at exit.
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr)
    throw refuse(std::string("its module for MPI cannot be loaded: ") + ::dlerror());
  auto* function = reinterpret_cast<Function*>(::dlsym(module, name));
  if (function == nullptr)
    throw Error(Code::kFailedPrecondition, path + ": is not a module of this command");
  return function;
}

}  // namespace

StartFunction* load_mpi_module(const Refuse& refuse) {
  return function_of_module<StartFunction>(kStartFunction, refuse);
}

std::string mpi_module_library() {
  std::string text;
  function_of_module<LibraryFunction>(kLibraryFunction, [](const std::string& why) {
    return Error(Code::kUnavailable, why);
  })(text);
  return text;
}

}  // namespace cairn::cli
