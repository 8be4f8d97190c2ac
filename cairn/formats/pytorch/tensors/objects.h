// objects.h -- dicts, and objects of classes that nobody imports: what they hold, by name.
#pragma once

#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/meaning.h>

#include <string>

namespace cairn::inline v0::pytorch {

// The members of a dict, each key once: a later value replaces an earlier one, as in Python. Keys
// of several types that have the same text get the names of their types.
Members members_of_dict(const pickle::Pickle& p, pickle::Value dict);
// The members of the state that BUILD gives to an object: a dict, or a pair of dicts whose second
// one has the slots. No members if it is anything else.
Members members_of_state(const pickle::Pickle& p, pickle::Value state);
// What a kCall or a kObject of any class holds: the items of a list, the entries of a dict, the
// parameters, buffers and modules of a torch.nn.Module, the attributes of any other object; an
// Opaque if it has nothing of these.
Meaning object_meaning(const pickle::Pickle& p, const std::string& name, pickle::Value object);

}  // namespace cairn::inline v0::pytorch
