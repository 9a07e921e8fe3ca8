"""How many keys are found again when the servers of a ring change: python3 hit_ratios.py RING FROM TO [FROM TO]...

RING is pymemcache, pylibmc or pylibmc-default; or pymemcache-named or pylibmc-named, for pods that have names. FROM and TO are
host:port,... of memcacheds. Prints a share for each pair: of 5,000 keys that are stored in the ring FROM, those that the ring TO
finds. An error is a miss.

Without FROM and TO it reads orders, one a line, and prints a share for each, and "..." for every 500 keys on the way to it:
    store FROM KEYS    5,000 keys whose names begin with KEYS, with a new client: the share that was stored
    find TO            the share of them that is found; with the client of before, if TO is the same
    read               the share that the client finds that there is
    again              stores the same keys with the client that there is: the share that is then found
    missed             the numbers of the keys that these three have missed since this was asked, or since the keys were stored
    work TO COUNT      reads the next COUNT keys and stores those that it misses, as an application does: the share that was found
pymemcache only:
    fill FROM COUNT    COUNT keys in each server, with a new client: the share that was stored
    any COUNT          reads COUNT of them in each server, whichever, and stores those that it misses: how many were found
"""
import os
import random
import sys

sys.dont_write_bytecode = True

import mmh3
import pylibmc
from pymemcache.client.hash import HashClient
from pymemcache.client.murmur3 import murmur3_32

import pylibmc_named
import pymemcache_named
import pymemcache_ring

KEYS = 5000
# As many are asked for at once, where the library can.
BATCH = 500
TAKES_ORDERS = not sys.argv[2:]

# A machine that is busy makes no miss.
for settings in pymemcache_named.SETTINGS, pymemcache_ring.SETTINGS:
    settings["timeout"] = 10
pylibmc_named.BEHAVIORS["_poll_timeout"] = 10_000


def of_addresses(servers):
    return HashClient([(host, int(port)) for host, port in (it.split(":") for it in servers)], **pymemcache_ring.SETTINGS)


def hashed_in_c(text):
    """What pymemcache computes in Python, which takes most of a client's time."""
    return mmh3.hash(text, 0, signed=False)


assert all(hashed_in_c(f"cache-0:11211-{number}") == murmur3_32(f"cache-0:11211-{number}") for number in range(100))

RINGS = {
    "pymemcache": of_addresses,
    "pymemcache-named": pymemcache_named.ring,
    "pylibmc": lambda servers: pylibmc.Client(servers, behaviors={"ketama": True, "_poll_timeout": 10_000}),
    "pylibmc-default": lambda servers: pylibmc.Client(servers, behaviors={"ketama": False, "_poll_timeout": 10_000}),
    "pylibmc-named": pylibmc_named.ring,
}


class Client:
    def __init__(self, ring):
        self.ring, self.servers = ring, None
        # Numbers of keys: which the last share lacks, and which reads have missed.
        self.lacking, self.misses = set(), set()
        # The same choice in every run.
        self.random, self.in_server = random.Random(1), {}
        if ring.startswith("pymemcache"):
            self.get_some, self.set_some, self.put_some = self.get_at_once, self.set_at_once, self.put_at_once
        else:
            self.get_some, self.set_some, self.put_some = self.get_each, self.set_each, self.set_each

    def use(self, servers):
        self.servers, self.client = servers, RINGS[self.ring](servers.split(","))
        if self.ring.startswith("pymemcache"):
            self.client.hasher.hash_function = hashed_in_c

    def get_at_once(self, names):
        return self.client.get_many(names)

    def put_at_once(self, names):
        # Without answers pymemcache would go on before memcached has read all, and another connection may be first.
        self.client.set_many(dict.fromkeys(names, "value"), noreply=False)

    def set_at_once(self, names):
        # With `ignore_exc` it does not tell of each name that it could not store: so it is asked for them.
        self.put_at_once(names)
        return self.client.get_many(names)

    def get_each(self, names):
        return self.each(self.client.get, names)

    def set_each(self, names):
        return self.each(lambda name: self.client.set(name, "value"), names)

    def each(self, ask, names):
        done = []
        for name in names:
            try:
                if ask(name):
                    done.append(name)
            except pylibmc.Error:
                pass
        return done

    def share(self, ask):
        self.lacking = set(range(KEYS))
        for first in range(0, KEYS, BATCH):
            if TAKES_ORDERS:
                print("...", flush=True)
            numbers = {f"{self.keys}-{number}": number for number in range(first, first + BATCH)}
            self.lacking -= {numbers[name] for name in ask(list(numbers))}
        return 100 * (KEYS - len(self.lacking)) // KEYS

    def store(self, servers, keys):
        self.keys, self.next, self.misses = keys, 0, set()
        self.use(servers)
        return self.share(self.set_some)

    def find(self, servers):
        if servers != self.servers:
            self.use(servers)
        return self.read()

    def read(self):
        share = self.share(self.get_some)
        self.misses |= self.lacking
        return share

    def missed(self):
        misses, self.misses = sorted(self.misses), set()
        return " ".join(map(str, misses))

    def again(self):
        self.share(self.set_some)
        return self.read()

    def work(self, servers, count):
        if servers != self.servers:
            self.use(servers)
        count, names = int(count), []
        for _ in range(count):
            names.append(f"{self.keys}-{self.next}")
            self.next = (self.next + 1) % KEYS
        found = self.get_some(names)
        missed = [name for name in names if name not in found]
        if missed:
            self.put_some(missed)
        return 100 * len(found) // count

    def fill(self, servers, count):
        self.use(servers)
        count, number = int(count), 0
        keys = {server: [] for server in servers.split(",")}
        # The ring takes its time for a key: where it is the same one, so are the keys.
        if keys.keys() == self.in_server.keys():
            keys = self.in_server
        while any(len(it) < count for it in keys.values()):
            if number % BATCH == 0:
                print("...", flush=True)
            of_server = keys[self.client.hasher.get_node(f"key-{number}")]
            if len(of_server) < count:
                of_server.append(f"key-{number}")
            number += 1
        self.in_server, stored = keys, 0
        for of_server in keys.values():
            for start in range(0, count, BATCH):
                some = of_server[start:start + BATCH]
                stored += len(self.set_at_once(some))
                print("...", flush=True)
        return 100 * stored // (count * len(keys))

    def any(self, count):
        keys = [key for of_server in self.in_server.values() for key in self.random.sample(of_server, int(count))]
        found = self.client.get_many(keys)
        missed = [key for key in keys if key not in found]
        if missed:
            self.put_at_once(missed)
        return len(found)


client = Client(sys.argv[1])
if TAKES_ORDERS:
    for order in sys.stdin:
        name, *words = order.split()
        print(getattr(client, name)(*words), flush=True)
else:
    for number, (before, after) in enumerate(zip(sys.argv[2::2], sys.argv[3::2])):
        assert client.store(before, f"{os.getpid()}-{number}") == 100
        print(client.find(after))
