"""Which node, rail, route or uplink makes groups slow.

`blame.solve` runs through all of it, top down. In the order in which to read:

noise       the level of good groups, and by how much they scatter
levels      what each group achieved as a share of its peers, and the noise of that
parts       which parts of the cluster a group loads
columns     both as arrays; views: rails against their pair, and steadiness
chance      how often a group is slow for no reason that a part has
accounts    what speaks for and against each part; proof: whether that suffices to name it
explain     which few parts explain all slow groups, and what else would
uplinks     what uplinks do to many groups at once and no single part shows
suspects    a suspect with the groups that speak against it; visible: which loss would have shown
priors      what else speaks for a suspect: checks, counters, log lines
confirm     what the launches made to confirm a suspect say of it
findings    a suspect as a finding, with its evidence; narrow: the narrowest part that can be meant
courses     each group against its peers, and what is reported of slow ones without a suspect

Every number of the model is in constants. Three other subjects stand beside it: lost packets (loss),
nodes whose own ports hold them back (held_back), and the layers of a stack (layer_breakdown).
"""
