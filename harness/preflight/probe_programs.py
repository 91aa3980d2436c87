"""The small Python programs that a node runs for `busbw.preflight.probe`; written for any Python 3, standard library only."""

from __future__ import annotations

LISTEN = r"""
import fcntl, os, select, socket, struct, sys, time
life, token = float(sys.argv[1]), sys.argv[2].encode()
listeners = []
for _ in range(2):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.bind(("", 0))
    s.listen(128)
    listeners.append(s)
print("ports", *[s.getsockname()[1] for s in listeners])
ask = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _, name in socket.if_nameindex():
    packed = struct.pack("256s", name.encode()[:15])
    try:
        flags = struct.unpack("H", fcntl.ioctl(ask, 0x8913, packed)[16:18])[0]
        if flags & 1 and not flags & 8:
            print("address", name, socket.inet_ntoa(fcntl.ioctl(ask, 0x8915, packed)[20:24]))
    except OSError:
        pass
sys.stdout.flush()
if os.fork():
    os._exit(0)
os.setsid()
null = os.open(os.devnull, os.O_RDWR)
for number in range(3):
    os.dup2(null, number)
end = time.monotonic() + life
while time.monotonic() < end:
    for s in select.select(listeners, [], [], max(0, end - time.monotonic()))[0]:
        c, _ = s.accept()
        c.settimeout(2)
        try:
            c.sendall(token + b"\n")
            if c.recv(64).strip() == b"quit " + token:
                end = 0
        except OSError:
            pass
        c.close()
"""
"""argv: seconds to live, token. SIOCGIFFLAGS, then SIOCGIFADDR of what is up and no loopback."""

CONNECT = r"""
import concurrent.futures, socket, sys
limit, token = float(sys.argv[1]), sys.argv[2].encode()
def attempt(line):
    node, address, port = line.split()
    try:
        with socket.create_connection((address, int(port)), limit) as c:
            c.settimeout(limit)
            heard = c.recv(64).strip()
            c.sendall((b"quit " if node == "quit" else b"ok ") + token)
        return "ok %s %s %s" % (node, address, port) if heard == token else "no %s %s %s something else answered" % (node, address, port)
    except OSError as error:
        return "no %s %s %s %s" % (node, address, port, error.strerror or str(error) or "timed out")
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    for told in pool.map(attempt, [line for line in sys.stdin if line.strip()]):
        print(told)
"""
"""argv: seconds per attempt, token; standard input: `NODE ADDRESS PORT` per line, NODE `quit` ends the listener there."""

NCCL = r"""
import ctypes, glob, os, sys
for name in [name for name in os.environ if name.startswith("NCCL_")]:
    del os.environ[name]
if sys.argv[1]:
    os.environ["NCCL_SOCKET_IFNAME"] = sys.argv[1]
os.environ["NCCL_DEBUG"] = "INFO"
os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,BOOTSTRAP,ENV"
found = ["libnccl.so.2"]
for place in sys.path:
    found += glob.glob(os.path.join(place, "nvidia", "nccl", "lib", "libnccl.so.2"))
for pattern in ("/usr/local/cuda*/lib64", "/usr/local/nccl*/lib", "/opt/nccl*/lib", "/opt/hpcx*/nccl*/lib"):
    found += sorted(glob.glob(os.path.join(pattern, "libnccl.so.2")))
reasons = []
for path in found:
    try:
        library = ctypes.CDLL(path)
        break
    except OSError as error:
        reasons.append(str(error))
else:
    print("nccl none " + reasons[0])
    sys.exit(0)
with open("/proc/self/maps") as maps:
    real = [line.split()[-1] for line in maps if "libnccl.so" in line]
print("nccl path " + (real[0] if real else path))
number = ctypes.c_int(0)
if library.ncclGetVersion(ctypes.byref(number)) == 0:
    v = number.value
    print("nccl version %d.%d.%d" % ((v // 1000, v // 100 % 10, v % 100) if v < 10000 else (v // 10000, v // 100 % 100, v % 100)))
sys.stdout.flush()
status = library.ncclGetUniqueId(ctypes.create_string_buffer(128))
ctypes.CDLL(None).fflush(None)
print("nccl unique_id %d" % status)
sys.stdout.flush()
os._exit(0)
"""
"""argv: NCCL_SOCKET_IFNAME, empty = NCCL's own choice. NCCL's version code changed its base with 2.9; what NCCL wrote is flushed by
hand, since the program ends at once, without destructors."""
