# Connects to each "NODE ADDRESS PORT" of standard input and compares what it hears with the token.
# The NODE "quit" ends the listener at that address. Arguments: SECONDS (for one attempt) TOKEN.

import concurrent.futures
import socket
import sys

limit, token = float(sys.argv[1]), sys.argv[2].encode()


def attempt(line):
    node, address, port = line.split()
    place = " ".join((node, address, port))
    try:
        with socket.create_connection((address, int(port)), limit) as connection:
            connection.settimeout(limit)
            reply = connection.recv(64).strip()
            connection.sendall((b"quit " if node == "quit" else b"ok ") + token)
    except OSError as error:
        return "no %s %s" % (place, error.strerror or str(error) or "timed out")
    return "ok " + place if reply == token else "no %s something else answered" % place


with concurrent.futures.ThreadPoolExecutor(64) as pool:
    for result in pool.map(attempt, [line for line in sys.stdin if line.strip()]):
        print(result)
