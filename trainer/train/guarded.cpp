#include "trainer/train/guarded.h"

#include <string>
#include <utility>

#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::train {
namespace {

Error lost_peer_error(const World& world, const std::string& what) {
  return fail("process group", world.backend, "a collective failed, so a peer was lost: " + what,
              "looking for the first rank that ended, in this output and in Slurm's", ExitCode::Unavailable);
}

}  // namespace

Outcome failed(Error error, bool lost_peer) { return Outcome{Ending::Failed, Failure{std::move(error), lost_peer}}; }

std::optional<Outcome> guarded(const World& world, const std::function<void()>& work) {
  using process_group::Caught;
  const std::optional<Caught> caught = process_group::catch_exception(work);
  if (!caught) {
    return std::nullopt;
  }
  switch (caught->kind) {
    case Caught::Explained:
      return failed(caught->error, caught->error.exit_code == ExitCode::Unavailable);
    case Caught::NoMemory:
      return failed(caught->error);
    case Caught::LostPeer:
      return failed(lost_peer_error(world, caught->text), true);
    case Caught::Refused:
      break;
  }
  return failed(
      fail("training step", "", caught->text, "a smaller --batch-size if memory ran out", ExitCode::Internal));
}

}  // namespace rollcall::train
