#include "runtime/resolve/env_patch.h"

namespace rollcall::resolve {

const EnvChange* EnvPatch::find(std::string_view name) const {
  for (const EnvChange& change : changes) {
    if (change.name == name) {
      return &change;
    }
  }
  return nullptr;
}

Environment apply(const EnvPatch& patch, Environment environment) {
  for (const EnvChange& change : patch.changes) {
    if (change.action == Action::Set) {
      environment.set(change.name, change.value);
    } else if (change.action == Action::Unset) {
      environment.unset(change.name);
    }
  }
  return environment;
}

}  // namespace rollcall::resolve
