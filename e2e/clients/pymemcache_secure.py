"""TLS and a password, with pymemcache: python3 pymemcache_secure.py POD-ADDRESS PORT SERVICE ca.crt USER PASSWORD

SERVICE is a name that the certificate has, such as cache.default.svc. For a client certificate, add
`tls.load_cert_chain("tls.crt", "tls.key")`.
"""
import ssl
import sys

from pymemcache.client.base import Client

address, port, service, ca, user, password = sys.argv[1:]


class ServiceName(ssl.SSLContext):
    """Checks the Service's name in the certificate, because pymemcache would check the address of the pod."""

    def wrap_socket(self, sock, **options):
        return super().wrap_socket(sock, **{**options, "server_hostname": service})


class LoggedIn(Client):
    """Logs in on each new connection, also after one that broke."""

    def _connect(self):
        super()._connect()
        login = f"{user} {password}".encode()
        self.sock.sendall(b"set auth x 0 %d\r\n%s\r\n" % (len(login), login))
        answer = b""
        while not answer.endswith(b"\r\n") and (more := self.sock.recv(64)):
            answer += more
        if answer != b"STORED\r\n":
            self.close()
            raise ConnectionError(f"memcached does not let {user} in: {answer!r}")


tls = ServiceName(ssl.PROTOCOL_TLS_CLIENT)
tls.load_verify_locations(ca)
client = LoggedIn((address, int(port)), connect_timeout=2, timeout=2, tls_context=tls)
client.set("greeting", b"hello", noreply=False)
print(client.get("greeting").decode())
