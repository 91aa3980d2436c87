# Loads libnccl and lets it choose its bootstrap interface. It prints the library, its version, what
# NCCL logs, and the status of ncclGetUniqueId. Argument: NCCL_SOCKET_IFNAME; empty = NCCL's choice.

import ctypes
import glob
import os
import sys

PLACES = [
    "/usr/local/cuda*/lib64",
    "/usr/local/nccl*/lib",
    "/opt/nccl*/lib",
    "/opt/hpcx*/nccl*/lib",
]


def set_environment(interface):
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        del os.environ[name]
    if interface:
        os.environ["NCCL_SOCKET_IFNAME"] = interface
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,BOOTSTRAP,ENV"


def libraries():
    yield "libnccl.so.2"
    for place in sys.path:
        for path in glob.glob(os.path.join(place, "nvidia", "nccl", "lib", "libnccl.so.2")):
            yield path
    for pattern in PLACES:
        for path in sorted(glob.glob(os.path.join(pattern, "libnccl.so.2"))):
            yield path


def load():
    reasons = []
    for path in libraries():
        try:
            return path, ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    print("nccl none " + reasons[0])
    sys.exit(0)


def version(number):
    # The code of the version changed its base with 2.9.
    base = 1000 if number < 10000 else 10000
    return "%d.%d.%d" % (number // base, number // 100 % (base // 100), number % 100)


set_environment(sys.argv[1])
path, library = load()
with open("/proc/self/maps") as maps:
    real = [line.split()[-1] for line in maps if "libnccl.so" in line]
print("nccl path " + (real[0] if real else path))
number = ctypes.c_int(0)
if library.ncclGetVersion(ctypes.byref(number)) == 0:
    print("nccl version " + version(number.value))
sys.stdout.flush()
status = library.ncclGetUniqueId(ctypes.create_string_buffer(128))
# NCCL's own lines are flushed by hand: the program ends at once, without destructors.
ctypes.CDLL(None).fflush(None)
print("nccl unique_id %d" % status)
sys.stdout.flush()
os._exit(0)
