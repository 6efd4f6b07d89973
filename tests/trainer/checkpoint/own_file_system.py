"""A private file system for a test that can be frozen or filled up."""
import contextlib
import fcntl
import os
import pathlib
import subprocess
import threading

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878


class Refused(Exception):
    """This machine mounts no file system for this user, or freezes none."""


class OwnFileSystem:
    """ext4 in a sparse file, mounted at `folder`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def freeze(self):
        """Blocks all writes until thaw()."""
        fcntl.ioctl(self.descriptor, FIFREEZE, 0)

    def thaw(self):
        fcntl.ioctl(self.descriptor, FITHAW, 0)

    @contextlib.contextmanager
    def filled(self, left):
        """Filled except for `left` bytes; space that is freed meanwhile is filled as well."""
        filler, ended = self.folder / "filler", threading.Event()

        def fill(file):
            while not ended.wait(0.01):
                facts = os.statvfs(self.folder)
                free = facts.f_bavail * facts.f_frsize - left
                if free > 0:
                    with contextlib.suppress(OSError):  # others took it in between
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)

        with open(filler, "wb") as file:
            thread = threading.Thread(target=fill, args=(file,))
            thread.start()
            try:
                yield
            finally:
                ended.set()
                thread.join()
        filler.unlink()


@contextlib.contextmanager
def mounted(place, size=1 << 30):
    """In the folder `place`. Raises Refused."""
    image, folder = place / "image", place / "room"
    folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(size)
    for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, folder]):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Refused(f"no file system can be mounted here: {getattr(error, 'stderr', error)}") from error
    room = OwnFileSystem(folder)
    try:
        try:
            room.freeze()
            room.thaw()
        except PermissionError as error:
            raise Refused("freezing a file system is refused here") from error
        yield room
    finally:
        with contextlib.suppress(OSError):
            room.thaw()
        os.close(room.descriptor)
        subprocess.run(["umount", folder], check=True)
