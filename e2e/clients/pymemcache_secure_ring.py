"""A ring over the pods of a cache with TLS and a password, with pymemcache:
python3 pymemcache_secure_ring.py cache.default.svc 11212 ca.crt USER PASSWORD

The name has to be in the certificate. pymemcache_ring.py, which follows the pods, has to be beside this file.
"""
import ssl
import sys

from pymemcache.client.base import Client
from pymemcache.client.hash import HashClient

import pymemcache_ring


class Refused(Exception):
    """memcached does not take this user with this password."""


class ServiceName(ssl.SSLContext):
    """Checks the Service's name in the certificate, because pymemcache would check the address of the pod."""

    def wrap_socket(self, sock, **options):
        return super().wrap_socket(sock, **{**options, "server_hostname": self.service})


class SecureCache(pymemcache_ring.Cache):
    def __init__(self, name, port, ca, user, password, **options):
        super().__init__(name, port, **options)
        self.tls = ServiceName(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.service = name
        self.tls.load_verify_locations(ca)
        login = f"{user} {password}".encode()

        class LoggedIn(Client):
            """Logs in on each new connection, also after one that broke."""

            def _connect(self):
                super()._connect()
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
        ring = self.kind_of_ring(pods, tls_context=self.tls, **pymemcache_ring.SETTINGS)
        # ignore_exc makes a miss of every error, also of a refused login and of a certificate that is not trusted: the cache
        # would only look empty. So each pod is asked once where nothing hides that.
        for client in ring.clients.values():
            try:
                client.version()
            except ssl.SSLError:
                raise
            except OSError:
                pass  # A pod that does not answer now.
        return ring


if __name__ == "__main__":
    name, port, ca, user, password = sys.argv[1:]
    cache = SecureCache(name, int(port), ca, user, password)
    cache.ring().set("greeting", b"hello", noreply=False)
    print(cache.ring().get("greeting").decode())
