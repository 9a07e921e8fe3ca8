"""A ring over the pods of a cache with TLS and a password, with pymemcache: python3 pymemcache_secure_ring.py ca.crt

The environment has CACHE_USER, CACHE_PASSWORD, and MEMCACHED_SERVERS as the cache's ConfigMap has it: cache.default:11212, or
with named pods one name for each pod, with commas between them. These names have to be in the certificate. pymemcache_ring.py,
which follows the pods, and pymemcache_named.py have to be beside this file.
"""
import os
import ssl
import sys

from pymemcache.client.base import Client
from pymemcache.client.hash import HashClient

import pymemcache_named
import pymemcache_ring


class Refused(Exception):
    """memcached does not take this user with this password."""


class ServiceName(ssl.SSLContext):
    """Checks the Service's name in the certificate, because pymemcache would check the address of the pod. A named pod is asked
    for its own name. Each new connection reads the file again: so an authority that was added to it is trusted without a
    restart."""

    def wrap_socket(self, sock, **options):
        self.load_verify_locations(self.authorities)
        name = self.service or options["server_hostname"]
        return super().wrap_socket(sock, **{**options, "server_hostname": name})


class SecureCache(pymemcache_ring.Cache):
    settings = pymemcache_ring.SETTINGS

    def __init__(self, name, port, ca, user, password, **options):
        super().__init__(name, port, **options)
        self.tls = ServiceName(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.service, self.tls.authorities = name, ca
        self.refusal = None
        cache, login = self, f"{user} {password}".encode()

        class LoggedIn(Client):
            """Logs in on each new connection, also after one that broke."""

            def _connect(self):
                try:
                    super()._connect()
                    self.log_in()
                except (ssl.SSLError, Refused) as refusal:
                    cache.refusal = refusal
                    raise

            def log_in(self):
                self.sock.sendall(b"set auth x 0 %d\r\n%s\r\n" % (len(login), login))
                answer = b""
                while not answer.endswith(b"\r\n") and (more := self.sock.recv(64)):
                    answer += more
                if answer != b"STORED\r\n":
                    self.close()
                    raise Refused(f"memcached does not let {user} in: {answer!r}")

        class Ring(HashClient):
            client_class = LoggedIn

        self.kind_of_ring = Ring

    def client_of(self, pods):
        ring = self.kind_of_ring(pods, tls_context=self.tls, **self.settings)
        for client in ring.clients.values():
            try:
                client.version()
            except (OSError, Refused):
                pass  # A pod that does not answer now; what is refused is raised below.
        return ring

    def ring(self):
        # ignore_exc makes a miss of every error, also of a refused login and of a certificate that is not trusted: the cache
        # would only look empty. So the error is raised here, at the next question.
        ring = super().ring()
        if self.refusal:
            refusal, self.refusal = self.refusal, None
            raise refusal
        return ring


class SecureNamedPods(SecureCache):
    """The same with named pods. The ring is made from their names, which stay: so it stays too."""

    settings = pymemcache_named.SETTINGS

    def __init__(self, servers, ca, user, password):
        super().__init__(None, None, ca, user, password)
        self.client, self.next_look = self.client_of(servers), float("inf")


def of_environment(ca):
    login = os.environ["CACHE_USER"], os.environ["CACHE_PASSWORD"]
    servers = [(name, int(port)) for name, port in (it.split(":") for it in os.environ["MEMCACHED_SERVERS"].split(","))]
    if len(servers) > 1:
        return SecureNamedPods(servers, ca, *login)
    return SecureCache(*servers[0], ca, *login)


if __name__ == "__main__":
    cache = of_environment(sys.argv[1])
    cache.ring().set("greeting", b"hello", noreply=False)
    print(cache.ring().get("greeting").decode())
