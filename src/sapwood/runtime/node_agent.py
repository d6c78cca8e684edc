"""An agent node: context, prompt, one call of a provider in a fresh session, and everything it streams recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from sapwood.core.artifacts import PromptArgs, PromptContribution, RefArtifact, RenderedPrompt
from sapwood.core.events import ActionCompletedEvent, ActionStartedEvent, GraphEvent
from sapwood.core.handoff import Handoff, assemble_handoff
from sapwood.core.instants import instant_of_ms
from sapwood.core.prompt import ProviderRunOptions, render_provider_text
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import AgentNode
from sapwood.errors import ProviderBrokeProtocol
from sapwood.runtime.journal import Journal
from sapwood.runtime.upstream import upstream
from sapwood.runtime.world import Done, Work


async def run_agent(node: AgentNode, work: Work, journal: Journal) -> Done:
    """Assemble the context, render, call the provider in a fresh session, and record what it streams as it comes."""
    handoff = await asyncio.to_thread(assemble, work, journal)
    prompt = await asyncio.to_thread(record_prompt, node, work, journal, handoff)
    options = ProviderRunOptions(
        context=handoff.entries, settings=node.options, node=node.key, attempt=work.attempt.number
    )
    journal.emit(work.delivery, journal.event(ActionStartedEvent, node.key, agent_name=node.provider))
    result: ProviderResult | None = None
    async for item in journal.world.providers[node.provider].run(prompt, options):
        if result is not None:
            raise ProviderBrokeProtocol(node.provider, "it went on after its result")
        if isinstance(item, GraphEvent):
            journal.emit(work.delivery, item)
        else:
            result = item
    if result is None:
        raise ProviderBrokeProtocol(node.provider, "it ended without a result")
    journal.emit(work.delivery, journal.event(ActionCompletedEvent, node.key, agent_name=node.provider))
    return Done(result, manifest=handoff.manifest)


def assemble(work: Work, journal: Journal) -> Handoff:
    """Return the context from the reports of the selected predecessors, all read in one snapshot."""
    return assemble_handoff(
        upstream(work, journal),
        workflow_run_id=work.plan.workflow_run_id,
        target_node_key=work.node.key,
        assembled_at=instant_of_ms(journal.world.store.clock()),
    )


def record_prompt(node: AgentNode, work: Work, journal: Journal, handoff: Handoff) -> str:
    """Record the text the provider will get, with all that rebuilds it; return the prompt without its context."""
    child = journal.keys.child
    args = {name: _filled(value, work.plan.inputs) for name, value in node.args.items()}
    rendered = journal.world.store.templates.render(node.template, args)
    key = child(work.delivery)
    prompt = RenderedPrompt(
        key,
        text=render_provider_text(rendered.text, handoff.entries),
        renderer=rendered.renderer,
        renderer_version=rendered.renderer_version,
        template_id=node.template,
        part="user",
    )
    entries = [
        PromptContribution(child(key), text=entry, contributor="handoff", order=order, slot="context")
        for order, entry in enumerate(handoff.entries, 1)
    ]
    reference = RefArtifact(child(key), target=rendered.version.key, role="template")
    journal.record(prompt, reference, PromptArgs(child(key), args=msgspec.json.decode(rendered.args_json)), *entries)
    return rendered.text


def _filled(value: Any, inputs: dict[str, Any]) -> Any:
    """Put an input in the place of `${inputs.name}`."""
    if isinstance(value, str) and value.startswith("${inputs.") and value.endswith("}"):
        return inputs.get(value[len("${inputs.") : -1])
    return value
