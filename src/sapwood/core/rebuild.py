"""A prompt rebuilt from its parts alone: template version, arguments and contributions, by the prompt rule.

Compared byte for byte with what is stored. Whatever is in the way is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

from msgspec import UNSET

from sapwood.core.artifacts import PromptArgs, PromptContribution, PromptTemplate, RefArtifact, RenderedPrompt
from sapwood.core.codec import from_record, to_record
from sapwood.core.findings import Finding
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.prompt import Contribution, assemble_prompt, order_context, render_provider_text
from sapwood.core.record import Record
from sapwood.errors import InvalidArtifact, SapwoodError, TemplateLimit, TemplateNotRun

Find = Callable[[ArtifactKey], Record | None]


class Render(Protocol):
    """Renders a template text with arguments given as canonical JSON."""

    def __call__(self, text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None, /) -> str: ...


class Rebuilt(NamedTuple):
    """What the parts give: the text, where they give one, and the template version they name."""

    text: str | None
    template: PromptTemplate | None
    findings: Sequence[Finding]


def rebuild_prompt(
    prompt: RenderedPrompt,
    parts: Iterable[Artifact | UnknownArtifact],
    find: Find,
    render: Render,
    renderer: tuple[str, str],
) -> Rebuilt:
    """Rebuild `prompt` from what stands directly below it; `renderer` is the name and version of `render`."""
    below = list(parts)
    templates = [
        part
        for part in below
        if isinstance(part, PromptTemplate) or (isinstance(part, RefArtifact) and part.role == "template")
    ]
    args = [part for part in below if isinstance(part, PromptArgs)]
    findings: list[Finding] = []
    if len(templates) > 1:
        findings.append(Finding("two_templates", prompt.key, f"{len(templates)} templates below it; expected one"))
    template = _template_of(prompt, templates, find, findings)
    if len(args) != 1:
        findings.append(Finding("missing_args", prompt.key, f"{len(args)} PromptArgs below it; expected one"))
    if template is None or len(args) != 1:
        return Rebuilt(None, template, findings)
    is_same_renderer = (prompt.renderer, prompt.renderer_version) == renderer
    try:
        output = render(template.text, to_record(args[0]).content, template.variables, template.template_id)
        contributions = [
            Contribution(part.contributor, part.text, part.order, part.slot)
            for part in below
            if isinstance(part, PromptContribution)
        ]
    except (TemplateLimit, TemplateNotRun) as error:  # it rendered once, without limits or on another machine
        findings.append(Finding("not_rebuilt", prompt.key, f"not compared: {error}", is_failure=False))
        return Rebuilt(None, template, findings)
    except SapwoodError as error:
        code = "render_failed" if is_same_renderer else "renderer_changed"
        findings.append(Finding(code, prompt.key, str(error), is_same_renderer))
        return Rebuilt(None, template, findings)
    rebuilt = render_provider_text(assemble_prompt(output, contributions), order_context(contributions))
    if rebuilt != prompt.text:
        findings.append(_difference(prompt, rebuilt, None if is_same_renderer else renderer))
    return Rebuilt(rebuilt, template, findings)


def check_hashes(records: Iterable[Record]) -> Iterator[Finding]:
    """Yield a finding for every record whose content does not have its hash."""
    for record in records:
        if sha256(record.content).hexdigest() != record.content_hash:
            yield Finding("hash_mismatch", record.key, f"the content of this {record.kind} is not what was hashed")


def _template_of(
    prompt: RenderedPrompt, templates: Iterable[PromptTemplate | RefArtifact], find: Find, findings: list[Finding]
) -> PromptTemplate | None:
    """Return the first template that stands below the prompt, or that a reference names and that is stored."""
    for reference in templates:
        if isinstance(reference, PromptTemplate):
            return reference
        record = find(reference.target)
        if record is None or record.kind != PromptTemplate.__name__:
            continue
        findings.extend(check_hashes([record]))
        if reference.target_hash not in (UNSET, None, record.content_hash):
            findings.append(
                Finding("template_changed", prompt.key, f"template {record.key} is not the text that was rendered")
            )
        try:
            template = from_record(record)
        except InvalidArtifact as error:
            findings.append(Finding("unreadable", record.key, str(error)))
            continue
        assert isinstance(template, PromptTemplate)  # its kind says so
        return template
    findings.append(Finding("missing_template", prompt.key, "its template version is not stored"))
    return None


def _difference(prompt: RenderedPrompt, rebuilt: str, other_renderer: tuple[str, str] | None) -> Finding:
    at = next((i for i, (a, b) in enumerate(zip(prompt.text, rebuilt, strict=False)) if a != b), -1)
    place = f"character {at}" if at >= 0 else f"length ({len(prompt.text)} stored, {len(rebuilt)} rebuilt)"
    if other_renderer is None:
        return Finding("prompt_mismatch", prompt.key, f"its parts give another text; they differ at {place}")
    was, now = f"{prompt.renderer} {prompt.renderer_version}", " ".join(other_renderer)
    words = f"rendered by {was}, rebuilt by {now}; differ at {place}"
    return Finding("renderer_changed", prompt.key, words, is_failure=False)
