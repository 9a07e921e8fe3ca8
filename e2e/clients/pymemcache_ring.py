"""A ring over the pods of a cache, with pymemcache: python3 pymemcache_ring.py cache.default 11211"""
import socket
import sys
import time

from pymemcache.client.hash import HashClient


def pods(name, port):
    """Address and port of every pod that is ready: the Service is headless, so that its name has one address a pod."""
    found = socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)
    return sorted({address for *_, address in found})


# A pod that does not answer counts as a miss, and is asked again after ten seconds.
SETTINGS = {"connect_timeout": 1, "timeout": 1, "retry_attempts": 1, "dead_timeout": 10, "ignore_exc": True}


class Cache:
    """Looks every ten seconds whether pods came or went, and makes a new ring when they did."""

    def __init__(self, name, port, every=10):
        self.name, self.port, self.every = name, port, every
        self.pods, self.next_look = None, 0

    def ring(self):
        if time.monotonic() >= self.next_look:
            self.next_look = time.monotonic() + self.every
            try:
                found = pods(self.name, self.port)
            except socket.gaierror:
                # No pod is ready, or the name server is away: the ring of before stays.
                if self.pods is None:
                    raise
                found = self.pods
            if found != self.pods:
                self.client = self.client_of(found)
                self.pods = found
        return self.client

    def client_of(self, pods):
        return HashClient(pods, **SETTINGS)


if __name__ == "__main__":
    cache = Cache(sys.argv[1], int(sys.argv[2]))
    cache.ring().set("greeting", b"hello", noreply=False)
    print(cache.ring().get("greeting").decode())
