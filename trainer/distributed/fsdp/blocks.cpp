#include "trainer/distributed/fsdp/blocks.h"

#include <map>
#include <set>
#include <utility>

namespace rollcall::parallel::fsdp {
namespace {

class WrappedImpl : public torch::nn::Module {
 public:
  WrappedImpl(torch::nn::AnyModule inner, BlockEvents events) : inner_(std::move(inner)), events_(std::move(events)) {}

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor output = inner_.forward(events_.before(input));
    events_.after(output);
    return output;
  }

 private:
  torch::nn::AnyModule inner_;
  BlockEvents events_;
};

struct Place {
  std::string name;
  torch::nn::AnyModule* element;
};

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// The elements of the outermost Sequentials.
void find_places(torch::nn::Module& module, const std::string& prefix, std::vector<Place>& places) {
  if (auto* const sequential = module.as<torch::nn::SequentialImpl>()) {
    const auto children = module.named_children();
    std::size_t i = 0;
    for (torch::nn::AnyModule& element : *sequential) {
      places.push_back({joined(prefix, children.keys().at(i)), &element});
      ++i;
    }
    return;
  }
  for (const auto& child : module.named_children()) {
    find_places(*child.value(), joined(prefix, child.key()), places);
  }
}

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() != nullptr || module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm3dImpl>() != nullptr;
}

using Impl = const void*;

void collect(const torch::nn::Module& module, const std::string& prefix, std::vector<Member>& members,
             std::set<Impl>& seen) {
  for (const auto& entry : module.named_parameters(/*recurse=*/false)) {
    if (seen.insert(entry.value().unsafeGetTensorImpl()).second) {
      members.push_back({joined(prefix, entry.key()), entry.value(), is_batch_norm(module)});
    }
  }
  for (const auto& child : module.named_children()) {
    collect(*child.value(), joined(prefix, child.key()), members, seen);
  }
}

/// How many of `places`, or of the rest of the model, use each parameter.
std::map<Impl, int> users_of(const std::vector<Place>& places) {
  std::map<Impl, int> users;
  for (const Place& place : places) {
    std::set<Impl> of_this;
    for (const at::Tensor& parameter : place.element->ptr()->parameters()) {
      of_this.insert(parameter.unsafeGetTensorImpl());
    }
    for (const Impl impl : of_this) {
      users[impl] += 1;
    }
  }
  return users;
}

/// Parameters registered outside of all places.
void collect_outside(const torch::nn::Module& module, const std::set<const torch::nn::Module*>& inside,
                     std::set<Impl>& outside) {
  if (inside.contains(&module)) {
    return;
  }
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
    outside.insert(parameter.unsafeGetTensorImpl());
  }
  for (const std::shared_ptr<torch::nn::Module>& child : module.children()) {
    collect_outside(*child, inside, outside);
  }
}

}  // namespace

Division divide(torch::nn::Module& root) {
  std::vector<Place> places;
  find_places(root, "", places);
  const std::map<Impl, int> users = users_of(places);
  std::set<const torch::nn::Module*> inside;
  for (const Place& place : places) {
    inside.insert(place.element->ptr().get());
  }
  std::set<Impl> outside;
  collect_outside(root, inside, outside);

  Division division;
  std::set<Impl> taken;
  for (const Place& place : places) {
    Block block{.name = place.name, .place = place.element, .members = {}};
    std::vector<Member> all;
    std::set<Impl> seen;
    collect(*place.element->ptr(), place.name, all, seen);
    for (Member& member : all) {
      const Impl impl = member.tensor.unsafeGetTensorImpl();
      if (users.at(impl) == 1 && !outside.contains(impl)) {
        taken.insert(impl);
        block.members.push_back(std::move(member));
      }
    }
    if (!block.members.empty()) {
      division.blocks.push_back(std::move(block));
    }
  }
  collect(root, "", division.rest, taken);
  return division;
}

torch::nn::AnyModule wrap(torch::nn::AnyModule& place, BlockEvents events) {
  torch::nn::AnyModule before = place;
  place = torch::nn::AnyModule(std::make_shared<WrappedImpl>(before, std::move(events)));
  return before;
}

}  // namespace rollcall::parallel::fsdp
