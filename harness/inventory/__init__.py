"""Ways of naming a cluster: readers that turn a file, an option or an allocation into a `Cluster`."""
