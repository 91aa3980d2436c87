# Who holds this node: the leases of all runs.

list_leases
:
