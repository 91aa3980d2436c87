"""Which node, rail, route or uplink makes groups slow.

In the order in which to read: the noise (levels, chance), the candidates (parts, columns), the choice
among them (explain, with thin and sharing), the confirmation (confirm), the findings (blame,
findings, narrow). Every number of the model is in constants. Two other subjects stand beside it: lost
packets (loss) and the layers of a stack (layer_breakdown).
"""
