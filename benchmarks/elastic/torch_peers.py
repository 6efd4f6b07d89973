"""PyTorch's two ways for many processes to find each other, for scale_peers.py: torchrun's rendezvous and a barrier in a TCPStore.

The store is of the kind that torchrun's first agent holds (TCPStore over libuv), in a process of its own, so that its memory and processor
time can be told; both include what importing torch takes."""
import contextlib
import datetime
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time

import torch.distributed as dist
import torch.distributed.elastic.rendezvous.registry as registry
from scale import status_of
from torch.distributed.elastic.rendezvous import RendezvousError, RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend

FORK = multiprocessing.get_context("fork")  # torch is imported once; each child is a process of its own all the same
MONITOR_INTERVAL = 0.1  # torchrun's default: how often an agent asks for the state of the rendezvous
CLIENT_THREADS = 4
RUN = "many"


class NotWithin(Exception):
    """What was waited for did not come in time."""


@contextlib.contextmanager
def store_process():
    """(process, port) of a server that ends with the block."""
    end, said = FORK.Pipe()

    def serve():
        end.close()
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, multi_tenant=True)
        said.send(store.port)
        with contextlib.suppress(EOFError):
            said.recv()

    process = FORK.Process(target=serve, daemon=True)
    process.start()
    said.close()
    try:
        yield process, end.recv()
    finally:
        end.close()
        process.join()


class Torchrun:
    """Agents, each a process with the handler that torchrun makes of `--nnodes=N-1:N --rdzv-backend=c10d`, with its defaults: a keep-alive
    each 5 s, of which three may fail, a last call of 30 s, the state polled each 0.1 s and read anew when it is a second old. Nothing else
    of torchrun is there: no workers, which would be stopped and started."""

    def __init__(self, agents, port):
        self.agents, self.port = agents, port
        self.joined, self.told, self.rejoined = (FORK.Array("d", agents, lock=False) for _ in range(3))  # moments; 0: not yet
        self.missed = FORK.Array("i", agents, lock=False)  # of how many nodes, the lost one included, an agent was told that they are gone
        self.victim = FORK.Value("i", 0)
        self.ready = FORK.Semaphore(0)
        reader, self.go = os.pipe()
        self.processes = [FORK.Process(target=self._agent, args=(number, reader), daemon=True) for number in range(agents)]
        for process in self.processes:
            process.start()
        os.close(reader)

    def begin(self):
        """Lets all agents connect and join at the same time."""
        for _ in self.processes:
            self.ready.acquire()
        begun = time.monotonic()
        os.close(self.go)
        return begun

    def lose_one(self):
        self.victim.value = self.processes[-1].pid
        lost = time.monotonic()
        os.kill(self.victim.value, signal.SIGKILL)
        return lost

    def wait(self, moments, number, end):
        """Until the first `number` agents have written a moment: the latest."""
        while not all(moments[:number]):
            if time.monotonic() > end or self.gave_up():
                raise NotWithin
            time.sleep(0.01)
        return max(moments[:number])

    def gave_up(self):
        return sum(process.exitcode == 1 for process in self.processes)

    def participants(self):
        """How many there are, as the store says."""
        state = C10dRendezvousBackend(dist.TCPStore("127.0.0.1", self.port, wait_for_workers=False), RUN).get_state()
        return len(pickle.loads(state[0]).participants) if state else 0

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()

    def _agent(self, number, reader):
        os.close(self.go)
        logging.disable(logging.WARNING)  # hundreds of lines about heartbeats that came late: `wrongly_lost` says what follows from them
        self.ready.release()
        os.read(reader, 1)  # ends when the benchmark closes its end
        try:
            self._take_part(number)
        except RendezvousError:
            sys.exit(1)

    def _take_part(self, number):
        handler = registry.get_rendezvous_handler(RendezvousParameters(
            "c10d", f"127.0.0.1:{self.port}", RUN, self.agents - 1, self.agents, local_addr="127.0.0.1", is_host="false"))
        handler.next_rendezvous()
        self.joined[number] = time.monotonic()
        while self.told[number] == 0:
            time.sleep(MONITOR_INTERVAL)
            handler.num_nodes_waiting()  # what torchrun's agent polls, by which its handler reads the state
            nodes = handler._state_holder.state.participants
            if not any(self.told):  # who was told leaves the round
                self.missed[number] = max(self.missed[number], self.agents - len(nodes))
            if self.victim.value and not any(node.pid == self.victim.value for node in nodes):
                self.told[number] = time.monotonic()
        handler.next_rendezvous()  # where its workers have failed, an agent of torchrun does the same
        self.rejoined[number] = time.monotonic()
        signal.pause()  # and keeps its heartbeats


def torchrun(agents, limit):
    """Seconds until all have joined; from the loss of one (kill -9) until no other's handler counts it any longer; until all others are in
    the next round. None: not within `limit` seconds. `wrongly_lost`: of how many nodes that lived somebody was told that they are gone."""
    with store_process() as (store, port):
        agents_of = Torchrun(agents, port)
        try:
            begun = agents_of.begin()
            try:
                figures = {"joined_seconds": agents_of.wait(agents_of.joined, agents, begun + limit) - begun}
            except NotWithin:
                return {"joined_seconds": None, "reason": f"{agents_of.participants()} were there, {agents_of.gave_up()} had given up"}
            lost = agents_of.lose_one()
            for name, moments in {"told_seconds": agents_of.told, "next_generation_seconds": agents_of.rejoined}.items():
                figures[name] = None
                with contextlib.suppress(NotWithin):
                    figures[name] = agents_of.wait(moments, agents - 1, lost + limit) - lost
            figures["wrongly_lost"] = max(0, max(agents_of.missed[:agents - 1]) - 1)
            return figures | of_store(store)
        finally:
            agents_of.end()


def store(agents, limit):
    """Seconds until so many clients of a TCPStore, all in one process, have connected and passed a barrier as init_process_group makes it:
    each adds one to a number, the last one sets a key, all wait for that key. `barrier_seconds`: of this without the connecting."""
    with store_process() as (server, port):
        clients, moments = [], []
        all_connected = threading.Barrier(CLIENT_THREADS, action=lambda: moments.append(time.monotonic()))
        timeout = datetime.timedelta(seconds=limit)

        def take_part(number):
            try:
                own = [dist.TCPStore("127.0.0.1", port, wait_for_workers=False, timeout=timeout) for _ in range(number)]
                clients.extend(own)
                all_connected.wait(limit)
                for client in own:
                    if client.add("arrived", 1) == agents:
                        client.set("all", "")
                for client in own:
                    client.wait(["all"])
                moments.append(time.monotonic())
            except (RuntimeError, threading.BrokenBarrierError):  # c10d's errors are RuntimeErrors
                all_connected.abort()

        share = [agents // CLIENT_THREADS + (number < agents % CLIENT_THREADS) for number in range(CLIENT_THREADS)]
        threads = [threading.Thread(target=take_part, args=(number,)) for number in share]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(moments) <= CLIENT_THREADS:
            return {"joined_seconds": None, "reason": f"{len(clients)} were connected"}
        return {"joined_seconds": moments[-1] - begun, "barrier_seconds": moments[-1] - moments[0]} | of_store(server)


def of_store(process):
    memory, cpu = status_of(process.pid)
    return {"coordinator_mib": memory, "coordinator_cpu_seconds": cpu}
