"""What is built on the nodes: where nccl-tests comes from, how it is built, which nodes can share a
build."""
