"""Which node, rail, route or uplink makes groups slow.

`blame.solve` runs through all of it, top down. In the order in which to read:

levels      what each group achieved as a share of its peers, and the noise of that
parts       which parts of the cluster a group loads
columns     both as arrays, and three ways to look at them: speed, rails against their pair, steadiness
chance      how often a group is slow for no reason that a part has
explain     which few parts explain all slow groups, and what else would
uplinks     what uplinks do to many groups at once and no single part shows
confirm     what the launches made to confirm a suspect say of it
findings    a suspect as a finding, with its evidence; narrow: the narrowest part that can be meant

Every number of the model is in constants. Two other subjects stand beside it: lost packets (loss)
and the layers of a stack (layer_breakdown).
"""
