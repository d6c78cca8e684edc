"""What a node would get, for a terminal."""

from __future__ import annotations

from sapwood.cli.bars import bar
from sapwood.cli.console import plain_console
from sapwood.cli.rows import counted, print_rows
from sapwood.core.context_preview import ContextPreview
from sapwood.core.phases import DEFAULT_NARRATIVE_CAP, HANDOFF_FIELDS, PhaseManifest


def show_preview(preview: ContextPreview) -> None:
    """Print the possible sources in their order, the extensions, and the phase's share."""
    from rich.text import Text

    console = plain_console()
    if not preview.gets_context:
        console.print(Text(f"{preview.node} is a {preview.kind} node: no context is made for it"), soft_wrap=True)
        return
    many = len(preview.sources)
    words = counted(many, "node") if many else "no node"
    console.print(Text(f"{preview.node} would get reports of {words}"), soft_wrap=True)
    if preview.sources or preview.extensions:
        rows = [
            (str(place), one.node, one.when, f"{one.most_chars:,}" if one.most_chars else "dropped", one.rule)
            for place, one in enumerate(preview.sources, 1)
        ]
        rows += [("+", one.name, one.when, f"{one.most_chars:,}", one.rule) for one in preview.extensions]
        print_rows(console, ("#", "source", "when", "at most", "rule"), rows)
    console.print(Text(f"chars   {bar(preview.most_chars, preview.policy.max_context_chars_total)}"), soft_wrap=True)
    if preview.manifest is not None:
        for line in _phase_lines(preview.manifest, preview.earlier_phases):
            console.print(Text(line), soft_wrap=True)


def _phase_lines(manifest: PhaseManifest, earlier: tuple[tuple[int, str], ...]) -> list[str]:
    nodes = ", ".join(f"{node} ({phase})" for phase, node in earlier) or "nobody"
    fields = manifest.handoff_fields or tuple(name for name in HANDOFF_FIELDS if name != "narrative")
    limit = manifest.narrative_limit()
    narrative = f"the first {limit:,} characters" if limit else "left out"
    is_default = limit == DEFAULT_NARRATIVE_CAP and manifest.narrative_cap == 0
    tokens = f"at most {manifest.max_tokens:,} tokens" if manifest.max_tokens > 0 else "no limit in tokens"
    return [
        f"phase {manifest.phase}, {tokens}; earlier phases: {nodes}",
        f"  fields    {', '.join(name for name in fields if name != 'narrative')}",
        f"  narrative {narrative}{' (the default)' if is_default else ''}",
    ]
