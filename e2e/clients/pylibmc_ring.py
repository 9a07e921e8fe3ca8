"""A ring over the pods of a cache, with pylibmc: python3 pylibmc_ring.py cache.default 11211"""
import socket
import sys

import pylibmc

name, port = sys.argv[1:]
found = socket.getaddrinfo(name, int(port), socket.AF_INET, socket.SOCK_STREAM)
pods = sorted({"%s:%d" % address for *_, address in found})
# Without ketama a pod more or less moves nearly all keys. pylibmc has no way to change the servers of a client: make a new
# client when the addresses behind the name change. `_poll_timeout` is how many milliseconds it waits for an answer;
# `receive_timeout` does nothing.
ring = pylibmc.Client(
    pods,
    behaviors={"ketama": True, "connect_timeout": 1000, "_poll_timeout": 1000, "remove_failed": 1, "retry_timeout": 10},
)
ring.set("greeting", "hello")
print(ring.get("greeting"))
