"""What texts for all GPUs have in common."""

from __future__ import annotations

from collections.abc import Mapping


def grouped(declarations: Mapping[str, str]) -> list[str]:
    """Types first, then macros and functions, each group in the order of need."""
    texts = list(declarations.values())
    types = [text for text in texts if text.startswith("typedef")]
    macros = [text for text in texts if text.startswith("#define")]
    others = [text for text in texts if text not in types and text not in macros]
    return [group for group in ("\n".join(types), "\n".join(macros), *others) if group]
