"""A ring over pods that have names, with pymemcache: python3 pymemcache_named.py /etc/cache/servers

The file is the key `servers` of the mounted ConfigMap: one name:port a line.
"""
import sys
import time

from pymemcache.client.hash import HashClient

# A pod that is away comes back under its name, so it keeps its place in the ring. Until then its keys are misses, and once a
# second one request tries to connect. With fewer attempts pymemcache would give its keys to other pods for a while.
SETTINGS = {"connect_timeout": 1, "timeout": 1, "retry_attempts": sys.maxsize, "retry_timeout": 1, "ignore_exc": True}


def ring(servers, **more):
    """pymemcache looks a name up at each connect: the ring stays when a pod gets another address."""
    return HashClient([(name, int(port)) for name, port in (it.rsplit(":", 1) for it in servers)], **SETTINGS, **more)


class Cache:
    """Looks into the file every ten seconds, and makes a new ring when the number of pods has changed."""

    def __init__(self, file, every=10):
        self.file, self.every = file, every
        self.servers, self.next_look = None, 0

    def ring(self):
        if time.monotonic() >= self.next_look:
            self.next_look = time.monotonic() + self.every
            with open(self.file) as file:
                servers = file.read().split()
            if servers != self.servers:
                self.client, self.servers = ring(servers), servers
        return self.client


if __name__ == "__main__":
    cache = Cache(sys.argv[1])
    cache.ring().set("greeting", b"hello", noreply=False)
    print(cache.ring().get("greeting").decode())
