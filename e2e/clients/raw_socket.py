"""TLS and a password, without a library: python3 raw_socket.py POD-ADDRESS PORT SERVICE ca.crt USER PASSWORD [get]

With "get" it stores nothing and asks for what an earlier run stored."""
import socket
import ssl
import sys

address, port, service, ca, user, password, *only = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
plain = socket.create_connection((address, int(port)), timeout=10)
# First TLS, then the password: nobody on the way reads it.
connection = tls.wrap_socket(plain, server_hostname=service)
answers = connection.makefile("rb")


def say(line, value):
    connection.sendall(b"%s %d\r\n%s\r\n" % (line, len(value), value))
    return answers.readline().strip()


# The first command of a connection logs in. Its key, flags and time mean nothing.
assert say(b"set auth x 0", f"{user} {password}".encode()) == b"STORED", "memcached refuses the login"
if only != ["get"]:
    assert say(b"set greeting 0 0", b"hello") == b"STORED"
connection.sendall(b"get greeting\r\n")
assert answers.readline().startswith(b"VALUE greeting"), "the cache does not hold the greeting"
print(answers.readline().strip().decode())
