"""What given hardware should reach: limits, NCCL's model, published figures."""
