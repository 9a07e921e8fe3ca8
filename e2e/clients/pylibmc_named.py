"""A ring over pods that have names, with pylibmc: python3 pylibmc_named.py /etc/cache/servers

The file is the key `servers` of the mounted ConfigMap: one name:port a line.
"""
import sys

import pylibmc

# A pod that is away comes back under its name, so it keeps its place in the ring: no `remove_failed`. Once a second one request
# tries to connect; the others fail at once. `_poll_timeout` is how many milliseconds pylibmc waits for an answer; its
# `receive_timeout` does nothing.
BEHAVIORS = {"ketama": True, "connect_timeout": 1000, "_poll_timeout": 1000, "retry_timeout": 1}


def ring(servers):
    """libmemcached looks a name up at each connect: the ring stays when a pod gets another address."""
    return pylibmc.Client(servers, behaviors=BEHAVIORS)


def get(ring, key):
    """An error is a miss: the pod of this key is away."""
    try:
        return ring.get(key)
    except pylibmc.Error:
        return None


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        cache = ring(file.read().split())
    cache.set("greeting", "hello")
    print(get(cache, "greeting"))
