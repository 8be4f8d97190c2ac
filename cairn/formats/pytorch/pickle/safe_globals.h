// safe_globals.h -- the globals that torch.load(weights_only=True) accepts.
#pragma once

#include <string_view>

namespace cairn::inline v0::pickle {

// Whether the restricted unpickler of PyTorch 2.13 imports `module`.`name`: it builds tensors and
// plain values. To unpickle a file with any other global may run any code. Names of Python 2
// (`__builtin__`) are those of Python 3.
bool is_safe_global(std::string_view module, std::string_view name);

}  // namespace cairn::inline v0::pickle
