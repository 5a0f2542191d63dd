#!/usr/bin/env python3
"""Prints a template of Longhaul whose workers have layers: scripts/layers.py TEMPLATE ARN…"""

import pathlib
import re
import sys

LAYERS_MAX = 5
LAYER = re.compile(r"arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:layer:[A-Za-z0-9_-]+:[0-9]+")
CODE_OF_WORKERS = re.compile(
    r"^(  (?:Worker|ClassWorker):\n(?:    .*\n)*?      CodeUri: .*\n)", re.MULTILINE
)


def with_layers(text, layers):
    """The template whose workers have these layers."""
    if not 0 < len(layers) <= LAYERS_MAX or not all(LAYER.fullmatch(layer) for layer in layers):
        sys.exit(f"layers: name ARNs of versions of layers, {LAYERS_MAX} at most")
    listed = "".join(f"        - {layer}\n" for layer in layers)
    text, functions = CODE_OF_WORKERS.subn(rf"\1      Layers:\n{listed}", text)
    if functions != 2:
        sys.exit(f"layers: {functions} functions of the template run tools, and there should be two")
    return text


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(with_layers(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2:]), end="")
