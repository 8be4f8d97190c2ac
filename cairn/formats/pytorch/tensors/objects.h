// objects.h -- dicts, and objects of classes that nobody imports: what they hold, by name.
#pragma once

#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/fields.h>
#include <cairn/formats/pytorch/tensors/meaning.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace cairn::inline v0::pytorch {

// What an object has beside what a function made of its arguments.
struct Extras {
  // Both with the newest first.
  std::vector<pickle::Value> attributes;  // dicts; a newer one replaces what an older one has
  std::vector<pickle::Value> states;      // others, which only the object's class can read
  std::optional<pickle::Value> arguments, keywords;
  std::optional<pickle::Value> dtype, size;  // of a tensor that wraps others
  std::vector<std::string_view> unshown;     // attributes that only repeat what the object is
  bool of_tensor = false;                    // marks of torch.compile are not shown either

  // Adds a state that is older than those that there are: a dict, or a pair of dicts whose second
  // one has the slots, or any other value.
  void add_state(const pickle::Pickle& p, pickle::Value state);
  // Adds the states that BUILD gave to an object.
  void add_states_of(const pickle::Pickle& p, pickle::Value object);
};

// The members of a dict, each key once: a later value replaces an earlier one, as in Python. Keys
// of several types that have the same text get the names of their types.
Members members_of_dict(const pickle::Pickle& p, pickle::Value dict, Work* work = nullptr);
// The members of the state that BUILD gives to an object: a dict, or a pair of dicts whose second
// one has the slots. No members if it is anything else.
Members members_of_state(const pickle::Pickle& p, pickle::Value state, Work* work = nullptr);
// What a kCall or a kObject of any class holds: the items of a list, the entries of a dict, the
// parameters, buffers and modules of a torch.nn.Module, the attributes of any other object; an
// Opaque if it has nothing of these. Or the value that a function passes on. Adds what stands
// beside it to `extras`.
std::variant<Meaning, pickle::Value> object_meaning(const pickle::Pickle& p,
                                                    const std::string& name, pickle::Value object,
                                                    Extras& extras, Work* work);
// The members that stand for the extras; see Described.
Members members_of_extras(const pickle::Pickle& p, const Extras& extras, Work* work);
// Gives keys of one dict different texts.
class UniqueTexts {
 public:
  // Adds a key. If its text is taken, adds `what` to it in brackets.
  void claim(KeyText& key, std::string what);

 private:
  std::unordered_map<std::string, std::size_t> taken_;  // how often another key wanted the text
};

}  // namespace cairn::inline v0::pytorch
