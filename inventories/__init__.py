"""Example inventories, one per way of naming a cluster in a file.

Three ways need no file: `-w 'gpu-[001-016]'`; a Slurm allocation (`salloc -N 4`, then `busbw run`),
whose nodes are used when nothing else is given; and `-i lab`, the embedded lab.
"""
