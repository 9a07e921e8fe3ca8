"""TLS and a password, with emcache: python3 emcache_secure.py POD-ADDRESS PORT ca.crt USER PASSWORD

emcache checks the authority and no name. Besides ca.crt it trusts the authorities of the machine. To trust ca.crt only, set the
environment SSL_CERT_FILE to ca.crt, and SSL_CERT_DIR to an empty folder.
"""
import asyncio
import sys

import emcache

address, port, ca, user, password = sys.argv[1:]


async def main():
    client = await emcache.create_client(
        [emcache.MemcachedHostAddress(address, int(port))],
        ssl=True, ssl_extra_ca=ca, username=user, password=password, timeout=2.0,
    )
    await client.set(b"greeting", b"hello")
    print((await client.get(b"greeting")).value.decode())
    await client.close()


asyncio.run(main())
