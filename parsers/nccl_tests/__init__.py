"""nccl-tests and rccl-tests output: tables, JSON, and what makes a run complete and right."""
