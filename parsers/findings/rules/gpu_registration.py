"""Memory of a GPU that the NIC's driver does not register: no GPUDirect RDMA on this node.

The line that fails is the same for memory of the host; that it is memory of a GPU stands in the
command or in the lines before it. With DMA-BUF asked for, DMA-BUF is what is missing; without, the
module that lends the GPU's memory (nvidia_peermem).
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_FAILED = Watch(
    "failed",
    r"Couldn't (?:allocate MR|register GPU MR)|[Ff]ailed to create mr|ibv_reg_(?:mr|dmabuf_mr)\b.*fail",
    unless=r"NCCL (?:WARN|INFO) ",
)
_GPU = Watch(
    "gpu",
    r"--use_(?:cuda|rocm)|(?:initializing|creating) CUDA|Using ROCm Device|cuMemAlloc|GPU (?:MR|buffer)",
)
_DMABUF = Watch("dmabuf", r"--use_(?:cuda|rocm)_dmabuf|dmabuf")


def _judge(view: View) -> Iterator[Clue]:
    gpu = {line.artefact for line in view.sightings(_GPU.name)}
    dmabuf = {line.artefact for line in view.sightings(_DMABUF.name)}
    for line in view.sightings(_FAILED.name):
        if line.artefact in gpu:
            entry = "dmabuf-register-unsupported" if line.artefact in dmabuf else "peermem-missing"
            yield line.clue(entry, Weight.STRONG, "perftest")


RULE = Rule(
    name="gpu-registration",
    conclusion="Memory of a GPU cannot be registered: DMA-BUF if it was asked for, or peer memory.",
    watches=(_FAILED, _GPU, _DMABUF),
    judge=_judge,
    fires=(
        Fires(
            "ib_read_bw -d mlx5_2 --use_cuda=1\ncreating CUDA Ctx\nCouldn't allocate MR\n",
            (("peermem-missing", "strong"),),
        ),
        Fires(
            "ib_read_bw -d mlx5_2 --use_cuda=1 --use_cuda_dmabuf\nCouldn't allocate MR with error=95\n",
            (("dmabuf-register-unsupported", "strong"),),
        ),
    ),
    silent=("ib_read_bw -d mlx5_2\nCouldn't allocate MR with error=12\n", "creating CUDA Ctx\n"),
)
