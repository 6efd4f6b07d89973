"""The sealed channel of runtime/rendezvous/sealing.h, spoken by tests: the protocol's second implementation."""
import ctypes
import ctypes.util
import hashlib
import hmac
import os
import socket

OPENING = b"rollcall sealed1"
HELLO = b"rollcall 6\nagent\n0\n0\nthere"  # what the client says first (runtime/rendezvous/handshake.h)
HEADER, TAG, STATE, MESSAGE = 24, 17, 52, 0


def sodium():
    library = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
    assert library.sodium_init() >= 0
    return library


def secret_file(folder):
    """A file for --rdzv-conf=secret=FILE."""
    path = folder / "secret"
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(os.urandom(32).hex() + "\n")
    return path


def secret_of(drawn, name):
    return hashlib.blake2b(f"rollcall secret {len(drawn)} {drawn}{name}".encode(), digest_size=32).digest()


def received(connection, size):
    taken = connection.recv(size, socket.MSG_WAITALL)
    if len(taken) < size:
        raise ConnectionResetError("the peer closed the connection")
    return taken


class Sealed:
    """One end of a connection of `rollcall run`, after the openings and the hello."""

    def __init__(self, connection, drawn, server, purpose=b"elastic"):
        self.connection, self.sodium = connection, sodium()
        own = OPENING + os.urandom(32)
        if not server:
            connection.sendall(own)
        other = received(connection, len(own))
        if server:
            connection.sendall(own)
        openings = other + own if server else own + other

        def key(sender):
            return hmac.digest(secret_of(drawn, "rollcall run"), sender + openings + purpose, "sha256")
        self.own_key, self.others_key = (key(b"s"), key(b"c")) if server else (key(b"c"), key(b"s"))
        self.outgoing = self.incoming = None
        if server:
            assert self.hear().split(b"\n")[:2] == HELLO.split(b"\n")[:2]
        else:
            self.say(HELLO)

    def say(self, text):
        header = b""
        if self.outgoing is None:
            self.outgoing, begin = ctypes.create_string_buffer(STATE), ctypes.create_string_buffer(HEADER)
            self.sodium.crypto_secretstream_xchacha20poly1305_init_push(self.outgoing, begin, self.own_key)
            header = begin.raw
        sealed = ctypes.create_string_buffer(len(text) + TAG)
        self.sodium.crypto_secretstream_xchacha20poly1305_push(self.outgoing, sealed, None, text, ctypes.c_ulonglong(len(text)), None,
                                                                ctypes.c_ulonglong(0), ctypes.c_ubyte(MESSAGE))
        frame = header + sealed.raw
        self.connection.sendall(len(frame).to_bytes(4, "big") + frame)

    def hear(self):
        frame = received(self.connection, int.from_bytes(received(self.connection, 4), "big"))
        if self.incoming is None:
            self.incoming = ctypes.create_string_buffer(STATE)
            assert self.sodium.crypto_secretstream_xchacha20poly1305_init_pull(self.incoming, frame[:HEADER], self.others_key) == 0
            frame = frame[HEADER:]
        text = ctypes.create_string_buffer(max(1, len(frame) - TAG))
        opened = self.sodium.crypto_secretstream_xchacha20poly1305_pull(self.incoming, text, None, None, frame,
                                                                         ctypes.c_ulonglong(len(frame)), None, ctypes.c_ulonglong(0))
        assert opened == 0, "the other end does not know the secret"
        return text.raw[:len(frame) - TAG]
