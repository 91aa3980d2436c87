"""Ceilings of bus bandwidth by algorithm and collective: what must cross which link, divided by
what the link carries.

Symbols: k nodes (or NVLink domains), g GPUs per node, n = g k ranks, S the size nccl-tests prints,
W network of one node, B = W / g, N NVLink of one GPU, P PCIe of one GPU; GB/s, one direction. busbw
is S / t times `busbw_factor`, so it is a wire speed only where a ring ran.

With rates of the specification the results are physical limits, which nothing exceeds; with `Rates`
as the transport and NCCL deliver them they are the model of what a tuned system reaches. The loads
of trees follow from NCCL 2.30.7 src/graph/trees.cc.
"""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model import Limit
from busbw.parsers.expect.link_rates import rounded


@dataclass(frozen=True, slots=True)
class Rates:
    """A cluster as the formulas see it."""

    nodes: int
    """k. Where NVLink spans trays, a node is one NVLink domain."""
    gpus_per_node: int
    """g."""
    network_gb_s: float | None = None
    """W; None only where there is one node."""
    nvlink_gb_s: float | None = None
    """N; None = no NVLink, or not known: what depends on it is left out."""
    pcie_gb_s: float | None = None
    """P; None = not between GPU and NIC, or not known."""
    switch_adds: bool = False
    """NVLink SHARP: the switch adds up and copies."""
    nic_gb_s: float | None = None
    """One NIC; None = not known."""
    pair_gb_s: float | None = None
    """NVLink or xGMI between two GPUs: N behind a switch, one link in a mesh; None = N."""

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 1 or self.ranks < 2:
            raise ValueError(
                f"a collective needs two ranks or more, found {self.nodes} nodes x"
                f" {self.gpus_per_node} GPUs"
            )
        if self.nodes > 1 and self.network_gb_s is None:
            raise ValueError("several nodes need the network rate of a node")
        for name, value in (
            ("W", self.network_gb_s),
            ("N", self.nvlink_gb_s),
            ("P", self.pcie_gb_s),
            ("NIC", self.nic_gb_s),
        ):
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0 GB/s, found {value!r}; not known is None")

    @property
    def ranks(self) -> int:
        """n."""
        return self.nodes * self.gpus_per_node

    @property
    def w(self) -> float:
        """W of several nodes, or g P where the GPUs' own PCIe links carry less: what every formula
        calls W.

        Raises:
            ValueError: there is one node, and nothing crosses the network.
        """
        if self.network_gb_s is None or self.nodes == 1:
            raise ValueError("one node: nothing crosses the network")
        if self.pcie_gb_s is None:
            return self.network_gb_s
        return min(self.network_gb_s, self.gpus_per_node * self.pcie_gb_s)

    @property
    def share(self) -> float:
        """B = W / g, the network share of one GPU. Raises as `w`."""
        return self.w / self.gpus_per_node

    @property
    def only_link_gb_s(self) -> float | None:
        """P of GPUs without NVLink: each byte in or out of such a GPU passes it, from its peers as
        from its NIC. None = they have NVLink, or P is not known."""
        if self.nvlink_gb_s is not None:
            return None
        return self.pcie_gb_s

    @property
    def pair(self) -> float | None:
        """What two GPUs of a node have between them; None = N is not known."""
        return self.nvlink_gb_s if self.pair_gb_s is None else self.pair_gb_s

    def to_peers(self, factor: float = 1.0) -> float | None:
        """N, times a factor, for traffic between the GPUs of a node; None = N is not known, or a
        node has one GPU."""
        if self.nvlink_gb_s is None or self.gpus_per_node == 1:
            return None
        return self.nvlink_gb_s * factor

    @property
    def inner_hops(self) -> float:
        """g / (g - 1): of g hops of a ring or chain through a node, one is the network's."""
        return self.gpus_per_node / max(1, self.gpus_per_node - 1)


def _least(formula: str, rates: Rates, *candidates: float | None) -> Limit | None:
    """The smallest of what is known; None = nothing is."""
    known = [value for value in candidates if value is not None]
    if not known:
        return None
    return _limit(min(known), formula, rates)


def _limit(value: float, formula: str, rates: Rates) -> Limit:
    inputs = [("k", str(rates.nodes)), ("g", str(rates.gpus_per_node))]
    if rates.nodes > 1:
        inputs.append(("W", rounded(rates.w) + ("" if rates.w == rates.network_gb_s else " = g P")))
    inputs += [
        (name, rounded(rate))
        for name, rate in (("N", rates.nvlink_gb_s), ("P", rates.pcie_gb_s))
        if rate is not None
    ]
    return Limit(value, formula, tuple(inputs))


def tree_load(nodes: int) -> float:
    """Bytes that the busiest node sends in a double binary tree, in units of S: S/2 for each edge
    it has over both trees.

    >>> tree_load(2), tree_load(3), tree_load(4), tree_load(64)
    (1.0, 1.5, 2.0, 2.0)

    Raises:
        ValueError: fewer than two nodes.
    """
    if nodes < 2:
        raise ValueError(f"a tree over the network needs two nodes or more, found {nodes}")
    return {2: 1.0, 3: 1.5}.get(nodes, 2.0)


def highest(*limits: Limit | None) -> Limit | None:
    """The highest of several ways to run; None = none of them is known."""
    known = [limit for limit in limits if limit is not None]
    if not known:
        return None
    return max(known, key=lambda limit: limit.value_gb_s)


def information_bound(rates: Rates) -> Limit:
    """all_reduce, all_gather, reduce_scatter by any algorithm without reduction in the network:
    (n-1)/(g(k-1)) W.

    All-reduce: a node sends and receives 2(k-1)/k S or more, reduce-scatter then all-gather. Raises
    ValueError for one node.
    """
    whole = rates.w
    across = rates.gpus_per_node * (rates.nodes - 1)
    return _limit((rates.ranks - 1) / across * whole, "(n-1)/(g(k-1)) W", rates)


def ring(rates: Rates) -> Limit | None:
    """all_reduce, all_gather, reduce_scatter as a ring; None = no rate of the node's inside is
    known.

    One node: N, or PCIe where there is no NVLink. Several: min(W, N g/(g-1)), without NVLink
    min(W, P).
    """
    if rates.nodes == 1:
        if rates.nvlink_gb_s is None:
            return _least("P", rates, rates.pcie_gb_s)
        return _least("N", rates, rates.nvlink_gb_s)
    if rates.only_link_gb_s is not None:
        return _least("min(W, P)", rates, rates.w, rates.only_link_gb_s)
    return _least("min(W, N g/(g-1))", rates, rates.w, rates.to_peers(rates.inner_hops))


def tree(rates: Rates) -> Limit | None:
    """all_reduce as (double binary) tree between nodes and chain inside them; None as in `ring`.

    Network: 2(n-1)/n W / load. NVLink: N (n-1)/n g/(g-1), the chain's 2(g-1) hops spread over g
    GPUs.
    """
    n = rates.ranks
    if rates.only_link_gb_s is not None and rates.nodes > 1:
        own = 2 * (n - 1) / n * rates.only_link_gb_s
        return _least("2(n-1)/n min(W/load, P)", rates, _tree_network(rates), own)
    chain = rates.to_peers((n - 1) / n * rates.inner_hops)
    if rates.nodes == 1:
        return _least("N (n-1)/n g/(g-1)", rates, chain)
    return _least("min(2(n-1)/n W/load, N (n-1)/n g/(g-1))", rates, _tree_network(rates), chain)


def _tree_network(rates: Rates) -> float:
    return 2 * (rates.ranks - 1) / rates.ranks * rates.w / tree_load(rates.nodes)


def nvls(rates: Rates) -> Limit | None:
    """all_reduce with NVLink SHARP on one node: 2(g-1)/(g+1) N; None = no such switch, N not known,
    or several nodes.

    Each GPU moves S(1 + 1/g) in each direction: the switch reads all of its shards and writes its
    reduced one, then the reverse.
    """
    if rates.nodes > 1 or not rates.switch_adds or rates.nvlink_gb_s is None:
        return None
    g = rates.gpus_per_node
    return _limit(2 * (g - 1) / (g + 1) * rates.nvlink_gb_s, "2(g-1)/(g+1) N", rates)


def nvls_nvlink(rates: Rates) -> float | None:
    """What NVLink allows an all_reduce whose node part is NVLS: 2(n-1)/n g/(g+1) N, GB/s; None = no
    such switch, or N not known."""
    if not rates.switch_adds or rates.nvlink_gb_s is None:
        return None
    n, g = rates.ranks, rates.gpus_per_node
    return 2 * (n - 1) / n * g / (g + 1) * rates.nvlink_gb_s


def nvls_tree(rates: Rates) -> Limit | None:
    """all_reduce, NVLS inside nodes and trees between them; None = no such switch, N not known, or
    one node."""
    inside = nvls_nvlink(rates)
    if inside is None or rates.nodes == 1:
        return None
    return _least("min(2(n-1)/n W/load, 2(n-1)/n g/(g+1) N)", rates, _tree_network(rates), inside)


def sharp(rates: Rates) -> Limit:
    """all_reduce with reduction in the network's switches: a node sends S and receives S, 2(n-1)/n
    W for any k, then NVLink's own cap.

    Without NVLink SHARP the node part is a chain. Raises ValueError for one node.
    """
    n, g = rates.ranks, rates.gpus_per_node
    inside = nvls_nvlink(rates)
    if inside is None and rates.nvlink_gb_s is not None and g > 1:
        inside = rates.nvlink_gb_s * (n - 1) / n * g / (g - 1)
    limit = _least("min(2(n-1)/n W, NVLink)", rates, 2 * (n - 1) / n * rates.w, inside)
    assert limit is not None
    return limit


def all_reduce_any(rates: Rates) -> Limit | None:
    """all_reduce by any algorithm without reduction in the network: what a measurement cannot
    exceed; None as in `ring`.

    Information bound, and the more of what NVLS and what a ring with the GPU's own NIC share can
    get out of the node's inside.
    """
    if rates.nodes == 1:
        return highest(ring(rates), nvls(rates))
    if rates.only_link_gb_s is not None:
        own = 2 * (rates.ranks - 1) / rates.ranks * rates.only_link_gb_s
        network = information_bound(rates).value_gb_s
        return _least("min((n-1)/(g(k-1)) W, 2(n-1)/n P)", rates, network, own)
    inside = [value for value in (nvls_nvlink(rates), _into_one_gpu(rates)) if value is not None]
    formula = (
        "min((n-1)/(g(k-1)) W, max(2(n-1)/n g/(g+1) N, N + B))"
        if rates.switch_adds
        else "min((n-1)/(g(k-1)) W, N + B)"
    )
    return _least(
        formula, rates, information_bound(rates).value_gb_s, max(inside) if inside else None
    )


def gather_any(rates: Rates) -> Limit | None:
    """all_gather and reduce_scatter by any algorithm: each GPU takes in (n-1)/n S through NVLink
    and its NIC share; None as in `ring`."""
    if rates.nodes == 1:
        return ring(rates)
    return _least(
        "min((n-1)/(g(k-1)) W, N + B)",
        rates,
        information_bound(rates).value_gb_s,
        _into_one_gpu(rates),
    )


def _into_one_gpu(rates: Rates) -> float | None:
    """N + B, without NVLink P; None = neither is known, or N has nobody to talk to."""
    if rates.nvlink_gb_s is None:
        return rates.only_link_gb_s
    if rates.gpus_per_node == 1:
        return None
    return rates.nvlink_gb_s + rates.share


def alltoall(rates: Rates) -> Limit | None:
    """alltoall: (n-1)/n k/(k-1) B between nodes, N (n-1)/(g-1) inside; one node: N. No reduction
    helps it: the honest test of a fabric."""
    n, k, g = rates.ranks, rates.nodes, rates.gpus_per_node
    if k == 1:
        return ring(rates)
    if rates.only_link_gb_s is not None:
        across = (n - 1) / n * k / (k - 1) * rates.share
        return _least("min((n-1)/n k/(k-1) B, P)", rates, across, rates.only_link_gb_s)
    return _least(
        "min((n-1)/n k/(k-1) B, N (n-1)/(g-1))",
        rates,
        (n - 1) / n * k / (k - 1) * rates.share,
        rates.to_peers((n - 1) / max(1, g - 1)),
    )


def broadcast(rates: Rates) -> Limit | None:
    """broadcast and reduce: min(W, N), one node N. Each GPU takes in S."""
    if rates.nodes == 1:
        return ring(rates)
    if rates.only_link_gb_s is not None:
        return _least("min(W, P)", rates, rates.w, rates.only_link_gb_s)
    return _least("min(W, N)", rates, rates.w, rates.to_peers())


def sendrecv(rates: Rates) -> Limit | None:
    """sendrecv, each rank to the next: the slowest hop; one node: what two GPUs have between them.

    Between nodes one GPU alone leaves the node, so where GPUs share NICs it has a whole NIC; where
    it has several, its share B.
    """
    if rates.nodes == 1:
        return _between_two(rates)
    own = max(rates.share, rates.nic_gb_s or 0.0)
    return _least(
        "min(max(B, NIC), P, N)",
        rates,
        own,
        rates.pcie_gb_s,
        rates.pair if rates.gpus_per_node > 1 else None,
    )


def _between_two(rates: Rates) -> Limit | None:
    """One node, each GPU to one other: N, one link of a mesh, or PCIe; None as in `ring`."""
    if rates.nvlink_gb_s is None or rates.pair == rates.nvlink_gb_s:
        return ring(rates)
    return _least("one link", rates, rates.pair)


def hypercube(rates: Rates) -> Limit | None:
    """hypercube, an all_gather of pairwise steps: (n-1)/(n-g) B between nodes, N (n-1)/(g-1)
    inside; one node: what two GPUs have between them."""
    if rates.nodes == 1:
        return _between_two(rates)
    return _least("min((n-1)/(n-g) B, N (n-1)/(g-1))", rates, *_hypercube_parts(rates))


def hypercube_steps(rates: Rates) -> Limit | None:
    """hypercube as nccl-tests runs it, one step after the other: the times of the steps add up."""
    if rates.nodes == 1:
        return _between_two(rates)
    parts = [part for part in _hypercube_parts(rates) if part is not None]
    together = 1 / sum(1 / part for part in parts)
    return _limit(together, "1 / ((n-g)/(n-1) / B + (g-1)/(n-1) / N)", rates)


def _hypercube_parts(rates: Rates) -> tuple[float, float | None]:
    """What the steps between nodes would give by themselves, and those inside; None = N is not
    known, or one GPU per node."""
    n, g = rates.ranks, rates.gpus_per_node
    inside = None if rates.pair is None or g == 1 else rates.pair * (n - 1) / (g - 1)
    return (n - 1) / (n - g) * rates.share, inside


def gather(rates: Rates, *, through_peers: bool = True) -> Limit | None:
    """gather and scatter: (n-1)/(n-g) of the node's network with PXN (`through_peers`), of the root
    GPU's share without; at most N with PXN."""
    n, g = rates.ranks, rates.gpus_per_node
    if rates.nodes == 1:
        return ring(rates)
    if not through_peers:
        return _least("(n-1)/(n-g) B", rates, (n - 1) / (n - g) * rates.share)
    across = (n - 1) / (n - g) * rates.w
    if rates.only_link_gb_s is not None:
        return _least("min((n-1)/(n-g) W, P)", rates, across, rates.only_link_gb_s)
    return _least("min((n-1)/(n-g) W, N)", rates, across, rates.to_peers())


def wire_per_node(collective_busbw_gb_s: float, rates: Rates, *, by_tree: bool) -> float:
    """Bytes/s (GB/s) that a node's NICs carried each way under an all_reduce of that busbw: ring:
    busbw; tree: busbw x load x n / (2(n-1))."""
    if not by_tree:
        return collective_busbw_gb_s
    return collective_busbw_gb_s * tree_load(rates.nodes) * rates.ranks / (2 * (rates.ranks - 1))
