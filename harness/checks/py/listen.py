# Listens on two ports of the system's choice, and prints them, two more that are free, the node's
# IPv4 addresses, and the hardware addresses of their interfaces. It answers every connection with
# the token and ends after LIFE seconds or at "quit TOKEN". Arguments: LIFE TOKEN.

import fcntl
import os
import select
import socket
import struct
import sys
import time

SIOCGIFFLAGS, SIOCGIFADDR = 0x8913, 0x8915
UP, LOOPBACK = 1, 8


def listener():
    s = bound()
    s.listen(128)
    return s


def bound():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.bind(("", 0))
    return s


def addresses():
    ask = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _, name in socket.if_nameindex():
        packed = struct.pack("256s", name.encode()[:15])
        try:
            flags = struct.unpack("H", fcntl.ioctl(ask, SIOCGIFFLAGS, packed)[16:18])[0]
            if flags & UP and not flags & LOOPBACK:
                yield name, socket.inet_ntoa(fcntl.ioctl(ask, SIOCGIFADDR, packed)[20:24])
        except OSError:
            pass


def mac(name):
    try:
        with open("/sys/class/net/%s/address" % name) as file:
            return file.read().strip() or "-"
    except OSError:
        return "-"


def go_to_background():
    sys.stdout.flush()
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)


def answer(listeners, token, end):
    while time.monotonic() < end:
        for s in select.select(listeners, [], [], max(0, end - time.monotonic()))[0]:
            connection, _ = s.accept()
            connection.settimeout(2)
            try:
                connection.sendall(token + b"\n")
                if connection.recv(64).strip() == b"quit " + token:
                    end = 0
            except OSError:
                pass
            connection.close()


life, token = float(sys.argv[1]), sys.argv[2].encode()
listeners, others = [listener(), listener()], [bound(), bound()]
print("ports", *[s.getsockname()[1] for s in listeners])
print("free", *[s.getsockname()[1] for s in others])
for s in others:
    s.close()
for name, address in addresses():
    print("address", name, address)
    print("mac", name, mac(name))
go_to_background()
answer(listeners, token, time.monotonic() + life)
