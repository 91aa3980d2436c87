# Multiplies two bfloat16 matrices on each GPU and prints its TFLOP/s. Exit status 3: no PyTorch.

import sys

try:
    import torch
except Exception as error:
    print("no torch:", error, file=sys.stderr)
    sys.exit(3)

SIZE, ROUNDS = 8192, 40


def tflop_s(gpu):
    torch.cuda.set_device(gpu)
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(ROUNDS):
        a @ b
    end.record()
    torch.cuda.synchronize()
    return round(2 * SIZE**3 * ROUNDS / start.elapsed_time(end) / 1e9, 1)


for gpu in range(torch.cuda.device_count()):
    print("matmul", gpu, tflop_s(gpu), torch.cuda.get_device_name(gpu), flush=True)
