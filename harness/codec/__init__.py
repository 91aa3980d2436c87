"""Record ⇄ JSON and YAML: strict, every problem at once, each as `file:line:column: what; did you
mean 'x'?`.

The one place that uses PyYAML and pydantic; both are imported on first use. Bytes are base64 in
JSON; numbers that are not finite are refused both ways.
"""

from busbw.codec.dump import dump_json
from busbw.codec.typed import (
    Document,
    Written,
    from_tree,
    json_schema,
    load_yaml,
    parse_json,
    read_yaml,
)
from busbw.codec.yaml_tree import Opaque, Path, Problem, Tree, read_tree, refuse, unknown

__all__ = [
    "Document",
    "Opaque",
    "Path",
    "Problem",
    "Tree",
    "Written",
    "dump_json",
    "from_tree",
    "json_schema",
    "load_yaml",
    "parse_json",
    "read_tree",
    "read_yaml",
    "refuse",
    "unknown",
]
