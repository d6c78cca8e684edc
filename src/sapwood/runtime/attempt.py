"""One try of one node, by its kind: what it is given, what it does, what it hands on."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from sapwood.core.artifacts import PromptArgs, PromptContribution, RefArtifact, RenderedPrompt, Report
from sapwood.core.codec import from_record
from sapwood.core.events import (
    ActionCompletedEvent,
    ActionStartedEvent,
    GraphEvent,
    InterruptStatusEvent,
    NodeReviewRequestedEvent,
    ResolveInterruptEvent,
)
from sapwood.core.handoff import Handoff, UpstreamArtifact, assemble_handoff
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import ProviderRunOptions, render_provider_text
from sapwood.core.provider import ProviderResult
from sapwood.core.schedule import selected_predecessors
from sapwood.core.workflow import AgentNode, CommandNode, GateNode, JoinNode
from sapwood.errors import ProviderBrokeProtocol, UnsupportedNode
from sapwood.runtime.executor import Done, Executor, Work
from sapwood.runtime.history import ANSWER

GATE_POLLING_S = 0.1


async def perform(work: Work, executor: Executor) -> Done:
    """Do the node's work."""
    match work.node:
        case AgentNode() as node:
            return await run_agent(node, work, executor)
        case CommandNode() as node:
            return await run_program(node, executor)
        case JoinNode():
            return gather(work, executor)
        case GateNode() as node:
            return await ask(node, work, executor)
        case node:
            raise UnsupportedNode(node.key, node.kind)


async def run_agent(node: AgentNode, work: Work, executor: Executor) -> Done:
    """Assemble the context, render, call the provider in a fresh session, and record what it streams as it comes."""
    handoff = assemble(work, executor)
    prompt = record_prompt(node, work, executor, handoff)
    options = ProviderRunOptions(
        context=handoff.entries, settings=node.options, node=node.key, attempt=work.attempt.number
    )
    executor.emit(work.delivery, executor.event(ActionStartedEvent, node.key, agent_name=node.provider))
    result: ProviderResult | None = None
    async for item in executor.world.providers[node.provider].run(prompt, options):
        if result is not None:
            raise ProviderBrokeProtocol(node.provider, "it went on after its result")
        if isinstance(item, GraphEvent):
            await asyncio.to_thread(executor.emit, work.delivery, item)
        else:
            result = item
    if result is None:
        raise ProviderBrokeProtocol(node.provider, "it ended without a result")
    executor.emit(work.delivery, executor.event(ActionCompletedEvent, node.key, agent_name=node.provider))
    return Done(result, manifest=handoff.manifest)


def assemble(work: Work, executor: Executor) -> Handoff:
    """Return the context from the reports of the selected predecessors, all read in one snapshot."""
    return assemble_handoff(
        upstream(work, executor),
        workflow_run_id=work.plan.workflow_run_id,
        target_node_key=work.node.key,
        assembled_at=instant_of_ms(executor.world.clock()),
    )


def upstream(work: Work, executor: Executor) -> list[UpstreamArtifact]:
    workflow, state = work.plan.workflow, work.history.progress.state
    found = []
    with executor.world.store.read() as reader:
        for source in selected_predecessors(workflow, state, work.node.key):
            latest = work.history.attempts[source][-1]
            record = None if latest.report_key is None else reader.find(latest.report_key)
            report = None if record is None else from_record(record)
            if isinstance(report, Report):
                found.append(_upstream(report, workflow.sequence_index(source)))
    return found


def _upstream(report: Report, sequence_index: int) -> UpstreamArtifact:
    recorded: Any = report  # the executor gives every one of these fields; UpstreamArtifact checks them again
    return UpstreamArtifact(
        run_node_id=recorded.run_node_id,
        node_key=recorded.node_key,
        sequence_index=sequence_index,
        attempt=recorded.attempt,
        artifact_id=recorded.artifact_id,
        artifact_type="report",
        content_type=report.content_type,
        created_at=recorded.created_at,
        content=report.text,
    )


def record_prompt(node: AgentNode, work: Work, executor: Executor, handoff: Handoff) -> str:
    """Record the text the provider will get, with all that rebuilds it; return the prompt without its context."""
    keys = executor.world.keys
    args = {name: _filled(value, work.plan.inputs) for name, value in node.args.items()}
    rendered = executor.world.templates.render(node.template, args)
    key = keys.child(work.delivery)
    prompt = RenderedPrompt(
        key,
        text=render_provider_text(rendered.text, handoff.entries),
        renderer=rendered.renderer,
        renderer_version=rendered.renderer_version,
        template_id=node.template,
        part="user",
    )
    entries = [
        PromptContribution(keys.child(key), text=entry, contributor="handoff", order=order, slot="context")
        for order, entry in enumerate(handoff.entries, 1)
    ]
    reference = RefArtifact(keys.child(key), target=rendered.version.key, role="template")
    executor.record(
        prompt, reference, PromptArgs(keys.child(key), args=msgspec.json.decode(rendered.args_json)), *entries
    )
    return rendered.text


def _filled(value: Any, inputs: dict[str, Any]) -> Any:
    """Put an input in the place of `${inputs.name}`."""
    if isinstance(value, str) and value.startswith("${inputs.") and value.endswith("}"):
        return inputs.get(value[len("${inputs.") : -1])
    return value


async def run_program(node: CommandNode, executor: Executor) -> Done:
    exit_code, output = await executor.world.run_command(node)
    result = ProviderResult(report=output, content_type="text", data={"exit_code": exit_code})
    is_fine = exit_code in node.success_codes
    return Done(result, error=None if is_fine else f"{node.run[0]} ended with exit code {exit_code}")


def gather(work: Work, executor: Executor) -> Done:
    """Join the reports of the selected predecessors into one, in the order of the file."""
    reports = upstream(work, executor)
    text = "\n\n".join(f"## {report.node_key}\n\n{report.content}" for report in reports)
    return Done(ProviderResult(report=text, data={"joined": [report.node_key for report in reports]}))


async def ask(node: GateNode, work: Work, executor: Executor) -> Done:
    """Ask, and wait until an answer is recorded, by whichever process."""
    executor.emit(
        work.delivery,
        executor.event(NodeReviewRequestedEvent, node.key, review_type="gate", content_to_review=node.ask),
        executor.event(InterruptStatusEvent, node.key, interrupt_type="gate", interrupt_status="waiting"),
    )
    while (answer := await asyncio.to_thread(_answer, work, executor)) is None:
        await asyncio.sleep(GATE_POLLING_S)
    executor.emit(work.delivery, executor.event(ResolveInterruptEvent, node.key, message=answer))
    return Done(ProviderResult(report=answer, content_type="text", decision=answer))  # type: ignore[arg-type]


def _answer(work: Work, executor: Executor) -> str | None:
    with executor.world.store.read() as reader:
        key: ArtifactKey | None = reader.find_claim(work.plan.run, work.node.key, work.attempt.number, 0, ANSWER)
        record = None if key is None else reader.find(key)
    answer = None if record is None else from_record(record)
    return None if answer is None else str(getattr(answer, "payload", {}).get("message"))
