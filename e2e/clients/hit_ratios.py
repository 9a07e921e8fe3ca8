"""How many keys are found again when the servers of a ring change: python3 hit_ratios.py LIBRARY FROM TO [FROM TO]...

LIBRARY is pymemcache, pylibmc or pylibmc-default. FROM and TO are address:port,... of memcacheds. Prints a share for each
pair: of 5,000 keys that are stored in the ring FROM, those that the ring TO finds.
"""
import os
import sys

import pylibmc
from pymemcache.client.hash import HashClient

KEYS = 5000


def ring(library, servers):
    if library == "pymemcache":
        return HashClient([(host, int(port)) for host, port in (it.split(":") for it in servers)])
    return pylibmc.Client(servers, behaviors={"ketama": library == "pylibmc"})


def share(library, number, before, after):
    keys = [f"{os.getpid()}-{number}-{key}" for key in range(KEYS)]
    # Without an answer of its own pymemcache would go on before memcached has read all, and another connection may be first.
    answered = {"noreply": False} if library == "pymemcache" else {}
    assert not ring(library, before).set_multi({key: "value" for key in keys}, **answered)
    return 100 * len(ring(library, after).get_multi(keys)) // KEYS


library, *rings = sys.argv[1:]
servers = [it.split(",") for it in rings]
for number, (before, after) in enumerate(zip(servers[::2], servers[1::2])):
    print(share(library, number, before, after))
