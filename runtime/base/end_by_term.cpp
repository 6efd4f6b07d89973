#include "runtime/base/end_by_term.h"

#include <unistd.h>

namespace rollcall {

EndByTerm::EndByTerm() {
  struct sigaction action {};
  action.sa_handler = [](int) { ::_exit(1); };
  ::sigaction(SIGTERM, &action, &before_);
}

EndByTerm::~EndByTerm() { ::sigaction(SIGTERM, &before_, nullptr); }

}  // namespace rollcall
