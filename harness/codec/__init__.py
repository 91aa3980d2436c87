"""Record ⇄ JSON and YAML: strict, every problem at once, each as `file:line:column: what; did you
mean 'x'?`.

The one place that uses PyYAML and pydantic; both are imported on first use, and so are the modules
of this package. Bytes are base64 in JSON; numbers that are not finite are refused both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from busbw import late_import

if TYPE_CHECKING:
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
    from busbw.codec.yaml_tree import (
        Opaque,
        Path,
        Problem,
        Tree,
        nearest,
        read_tree,
        refuse,
        unknown,
    )

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
    "nearest",
    "parse_json",
    "read_tree",
    "read_yaml",
    "refuse",
    "unknown",
]

_NAMES = {
    "dump": ("dump_json",),
    "typed": (
        "Document",
        "Written",
        "from_tree",
        "json_schema",
        "load_yaml",
        "parse_json",
        "read_yaml",
    ),
    "yaml_tree": ("Opaque", "Path", "Problem", "Tree", "nearest", "read_tree", "refuse", "unknown"),
}
"""Module → what other packages know it by."""
if not TYPE_CHECKING:
    __getattr__ = late_import.by_module(__name__, _NAMES)
