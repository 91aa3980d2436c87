"""The form of a contract's numbers, for `busbw run provider-acceptance --contract FILE`; the
clauses around it are docs/contract-template.md."""

from __future__ import annotations

TEMPLATE = """\
# Numbers of a contract, for: busbw run provider-acceptance --contract THIS-FILE
# Every number here is an example and nobody's promise: replace it by the contract's own. `busbw expect` says which numbers physics allows,
# and what meeting them would catch. Bus bandwidth in GB/s (10^9 bytes/s) as nccl-tests prints it, out of place; not Gb/s, not algbw.
title: "Order NUMBER, annex X"
# The whole number of nodes that is bought: what is measured on fewer proves fewer, and the page says so.
nodes: 16
# What every node must have: exactly, or ">= " for at least. Keys: docs/checks.md, spec.*
specification: {gpus: 8, nics: 8, nic_rate: 400, driver: ">= 580.95", nic_firmware: ">= 28.43"}
criteria:
  # id: as the contract numbers it. case: of the playbook. size: the message, powers of two (8G = 8 GiB).
  # quantile: of the launches; 0.5 = the median, 0 = the worst one must hold. trials: launches, at least; fewer are «not measured».
  - {id: "1", case: all-reduce, size: 8G, busbw_gb_s: 360, quantile: 0.5, trials: 3}
  # As a ring, NVLink hides nothing on any number of nodes: a lost rail of eight shows.
  - {id: "2", case: all-reduce-ring, size: 8G, busbw_gb_s: 355, quantile: 0.5, trials: 3}
  # What an oversubscribed fabric cannot hide.
  - {id: "3", case: alltoall, size: 1G, busbw_gb_s: 40, quantile: 0.5, trials: 3}
  - {id: "4", case: all-gather, size: 4G, busbw_gb_s: 340, quantile: 0.5, trials: 3}
  - {id: "5", case: reduce-scatter, size: 4G, busbw_gb_s: 340, quantile: 0.5, trials: 3}
  # A size that layers really send, where latency and protocol count.
  - {id: "6", case: all-reduce, size: 64M, busbw_gb_s: 150, quantile: 0.5, trials: 3}
  - {id: "7", case: latency, size: 8, time_us: 60, quantile: 0, trials: 3}
"""
