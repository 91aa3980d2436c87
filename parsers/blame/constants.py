"""Every number of the blame model, each with its reason and its source.

Sources: *goal* = what a survey is to reach; *arithmetic* = follows from another number; *tables* = a
textbook of statistics; *ablation* = without it, recorded surveys of simulated fleets end worse
(`tests/bench/blame_ablation.py`; the figures are in docs/measured.md); *test* = tests/unit has the
case that it was made for; *lab* = seen on emulated nodes under load; *assumption* = chosen, nothing
published decides it.
"""

from __future__ import annotations

from busbw.model import ComponentKind

# Noise: what a good group scatters by.

FEWEST_GROUPS = 3
"""Different groups of a class from which on they can be compared: of two, either may be the slow
one. Source: arithmetic."""
FEWEST_PEERS = 4
"""Groups of one launch from which on the launch has a level of its own. Source: assumption."""
FEWEST_RAILS = 4
"""Of a pair, from which on most of them are good ones. Source: assumption."""
DISTANCE = 0.15
"""Loss of groups between two leaves, against those inside, that is put down to the way being longer,
where no design is stated. Source: assumption."""
DRIFT = 0.1
"""Loss of all groups of a launch, against those of other launches, that is put down to the launch.
Source: assumption."""
LEAST_NOISE = 0.01
"""Nothing is measured more finely than this. Source: assumption."""
ROUGH_MEAN = LEAST_NOISE / 4
"""Nor is the mean of a launch's groups on one rail. Source: arithmetic, of 16 groups."""
EFFICIENCY = 0.4
"""A deviation by the median distance is known as well as one by so many times the values. Source:
tables, 37 % for a normal distribution."""
PRIOR = 3
"""Usual groups that are added to what is measured: the scatter of few is easily too small. Source:
assumption."""
USUAL_NOISE = 0.02
"""Of such a group from launch to launch. Source: assumption, a calm fabric."""
FEWEST_ABOVE = 5
"""Groups above the good level from which on their distances tell the noise. Source: assumption."""
FEWEST_AT_LEVEL = 2
"""Groups at each of two levels, where so few lie above that they are told apart by the gap between.
Source: arithmetic, one alone is no level."""
CLEAN_GAP = 2.0
"""Times the range of the values at either of two levels, that the gap between them exceeds. Source:
test, one slow node of four is in half of all pairs."""
FEWEST_GOOD = 0.1
"""Share of the groups of a class that are good, at least: with five bad nodes of eight it is a ninth.
Source: arithmetic."""
STEPS = 12
"""Steps to a good level, at most. Source: assumption; it mostly stays after four."""
DIP = 0.7
"""An iteration below this share of its group's level is a dip. Source: assumption."""
LEAST_LOSS = 0.05
"""Smallest loss that is called slow: good nodes differ by about as much. Source: assumption."""
DEVIATIONS = 4.0
"""Standard deviations of what good parts differ by, that a loss must exceed. Source: assumption."""
FEWEST_TO_DIFFER = 6
"""Rails from which on they tell what good ones differ by. Source: assumption."""

# Chance: groups that are slow for no reason that a part has.

MOST = 25.0
"""What one group, or one launch, can say at most: five standard deviations, so that no single launch
flags a part. Source: arithmetic, below each of COST."""
SUSPICIOUS = 2.5
"""Standard deviations below what is predicted from which on a group is slow. Source: assumption."""
ALWAYS = 0.75
"""Share of its launches in which a part must be slow to be taken for always slow. Source: goal, parts
that are bad in half of their launches are found apart from it."""
DECADE = 0.2
"""Loss by which groups that are slow by chance, though none was seen, become ten times rarer: one in
three at 10 %, three in a thousand at 50 %. Among few groups a small loss must be seen often to be
flagged; among thousands, where chance would have shown, twice is enough. Source: ablation."""
CLOSE = 1 / 3
"""A group counts as slow as the part in question if it lost all but this share as much. Source:
assumption; the ablation changed no end."""
FEWEST_CLUMPS = 3
"""Pairs with a slow rail from which on they tell whether its other rails are slow with it. Source:
ablation, a good node is named without such pairs."""
HEALTHY_ACCUSED = 1 / 300
"""Surveys of healthy clusters that may flag a part, over all parts and launches together. Source:
goal."""

# Candidates: what a part leaves of its groups.

ROUGH = 0.06
"""Noise, at least, of what a group that is slow anyway achieves. Source: assumption."""
EVEN = 0.02
"""Noise, at least, by which a group of a slow part may be faster than others of it. Source:
ablation."""
WASTE = 0.1
"""Share of a shared part's capacity that more groups at once may waste, in queues that overflow, of
what fewer of them get out of it. Source: lab."""

# Choice: what must speak for a part, in squared standard deviations.

COST = {
    ComponentKind.INTRA_NODE: 30.0,
    ComponentKind.NODE: 30.0,
    ComponentKind.RAIL: 32.0,
    ComponentKind.UPLINK: 33.0,
    ComponentKind.RAIL_PLANE: 33.0,
    ComponentKind.LEAF: 34.0,
    ComponentKind.LEAF_PAIR: 34.0,
    ComponentKind.PAIR: 36.0,
}
"""Misfit that a suspect must take away: more than one launch can give, and rarer faults need a little
more. Source: ablation, with 33 for all of them four insides of nodes stay suspected."""
ONE_RAIL = 1.0
"""More: where one rail is all that was measured, both explain as much, and the whole part is named.
Source: assumption; without it 4 of 1,116 recorded answers differ, no end, and a path of one rail is
named as that rail (`test_confirm.py`)."""
FLICKER = 12.0
"""More, for a part that is bad in some launches only. Source: ablation, a good node is named
without."""
PATTERN = 3.0
"""And again for each launch in which it was good: that it was bad just where another part explains it
as well is a coincidence. Source: test."""
COINCIDENCE = 0.02
"""Parts that would be bad as often, if slow groups fell anywhere, from which on one that is bad in half
of its launches or fewer is not named. Source: test; without it, two stalls that one node of eight has
in common name it."""
OPEN = 8.0
"""Misfit, at least, from which on a part is worth another launch: about the most that chance makes
among so many groups, 2 ln n. Source: arithmetic, of 55 groups."""
ALIKE = 10.0
"""Two explanations whose misfits differ by less cannot be separated: three standard deviations.
Source: assumption."""
FEWEST_LAUNCHES = 2
"""That must speak against a part. Source: goal, no single launch names anybody."""
PROVED_BY = 3
"""Launches in which a flagged part was slow, from which on the suspect is likely rather than possible.
Source: assumption."""
PASSED = 2
"""Launches in which a part must be good again, after one in which it was bad, for that to be called a
passing disturbance. Source: ablation, of 1,116 answers: without it 113 leave more open and one node
is not named, with 1 four rails that are bad in half of their launches are not suspected."""
SMALL_LEAF = 2
"""Nodes of a leaf up to which all of them being bad is as likely as the leaf being bad. Source:
ablation, of 40 surveys of four leaves of two with both nodes of one bad: without it the leaf alone is
named in all, with it in none."""

# What many groups share: a leaf, its uplinks, a way between leaves, a rail of all nodes.

AS_SLOW = 0.05
"""By which the ratios of pairs that share a cable differ at most. Source: assumption, what is left
of a cable is left to each."""
FEWEST_AS_SLOW = 2
"""Other pairs of a leaf that are as slow, for the cable to be likelier than the pair. Source:
assumption, one may be a chance."""
LAUNCHES_OF_HASHED_PATH = 5
"""Hashed flows collide at random in each launch: fewer launches do not flag a path that leaves its
leaf. Source: goal."""
STANDS_OUT = 3.0
"""Standard deviations by which it must lie below its like, as both repeat from launch to launch;
more where few repeats tell the deviation. Source: test, of rails that wander."""
LEAST_SHARE = 0.025
"""Smallest loss of one rail of uplinks that is called slow: one of 32 cables is 3 %. Source:
assumption; nobody publishes by how much the rails of good uplinks differ."""
FEWEST_PARTS = 4
"""Rails of uplinks that tell what good ones differ by. Source: assumption."""
AGREES = 0.25
"""Share of the mean loss that most launches must show. Source: test."""
NEARLY = 0.75
"""Of what the best rail of uplinks explains: what explains as much cannot be told from it. Source:
assumption."""
LIKE_SETS = 8
"""Sets of like groups that tell what luck gives in their best iterations, at most: more take time.
Source: assumption."""
DEEP = 0.3
"""Share that a group lost, from which on no thin loss can be told in it. Source: arithmetic, a second
flow on its cable takes half."""
MOST_THIN = 4
"""Losses of uplinks' rails that are named in one run. Source: assumption, more have a cause in
common."""
MOST_FLOWS = 4
"""On one cable, that are told by their number. Source: assumption."""
NEAR = 0.15
"""Share of 1/k by which what one of k flows gets may differ from it. Source: arithmetic, 1/3 and 1/4
still differ by more."""

# Steadiness: the share of iterations that kept their speed.

CLEAN_ITERATIONS = 5
"""Iterations under load, in groups that were not slow, from which on a node is cleared. Source:
goal."""
LEAST_UNSTEADY = 0.04
"""Standard deviation, at least, of a group's share of steady iterations: one hiccup flags nobody.
Source: arithmetic, one of 25."""
FEWEST_UNSTEADY = 3
"""Unsteady groups, of two launches at least, that an unsteady suspect must explain: on a loaded
machine one or two always are. Source: lab."""
OFTEN = 0.2
"""Share of its groups, at least, that must be unsteady: of dozens that load one node a few always are,
and three of them lie together by chance. Source: lab."""
