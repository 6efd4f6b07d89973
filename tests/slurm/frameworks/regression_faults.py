"""What the scripts of this folder do where a test asks for it: lose a rank in the middle."""

import os
import signal


def die_if_asked(rank):
    """Ends rank DIES as the kernel would, without a word; once, where DIED names a file that remembers it.

    torchrun's count of restarts is no such memory: an agent that starts anew because of another node's loss does not count it, and
    its worker may be rank DIES then."""
    if os.environ.get("DIES") == str(rank) and first_time(os.environ.get("DIED")):
        os.kill(os.getpid(), signal.SIGKILL)


def first_time(file):
    try:
        if file:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
