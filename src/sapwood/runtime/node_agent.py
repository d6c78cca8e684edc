"""An agent node: context, prompt, one call of a provider in a fresh session, and everything it streams recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from sapwood.core.artifacts import ValidationError
from sapwood.core.codec import to_record
from sapwood.core.events import GraphEvent
from sapwood.core.instants import instant_of_ms
from sapwood.core.prompt import Contribution, Contributor, ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.substitution import substitute
from sapwood.core.workflow import AgentNode
from sapwood.errors import ProviderBrokeProtocol, SapwoodError, StoreError
from sapwood.runtime.budgetlog import append_budget_line
from sapwood.runtime.context import (
    AssembledContext,
    ContextRequest,
    assemble_context,
    budget_artifacts,
    contributions_of,
)
from sapwood.runtime.discoveries import discovery_contributions
from sapwood.runtime.journal import Journal
from sapwood.runtime.prompts import Composed, compose
from sapwood.runtime.tokenizer import load_counter
from sapwood.runtime.visits import visits_of
from sapwood.runtime.world import Done, Work

NOTICE: Final = "tpl.system.context.notice"


async def run_agent(node: AgentNode, work: Work, journal: Journal) -> Done:
    """Assemble the context, render, call the provider in a fresh session, and record what it streams as it comes.

    Whatever it comes to, the manifest of the context goes with it.
    """
    context = await asyncio.to_thread(assemble, node, work, journal)
    try:
        options, prompt = await asyncio.to_thread(record_prompt, node, work, journal, context)
        result = await call_provider(node, work, journal, prompt, options)
    except StoreError:
        raise
    except Exception as error:
        return Done.failed(error, context.manifest)
    return Done(result, manifest=context.manifest)


def assemble(node: AgentNode, work: Work, journal: Journal) -> AssembledContext:
    """Return what the node is to see, from what is stored now; the attempt is claimed, its predecessors are settled."""
    plan = work.plan
    return assemble_context(
        journal.world.store.artifacts,
        ContextRequest(
            workflow_run_id=plan.workflow_run_id,
            node_key=node.key,
            attempt=work.attempt.number,
            visits=visits_of(work),
            assembled_at=instant_of_ms(journal.world.store.clock()),
            run=plan.run,
            policy=plan.policies.handoff_policy(node),
            options=node.context,
            manifest=None if node.phase is None else plan.policies.manifest(node.phase, work.level.workflow),
            counter=load_counter(plan.policies.tokenizer),
        ),
    )


def record_prompt(
    node: AgentNode, work: Work, journal: Journal, context: AssembledContext
) -> tuple[ProviderRunOptions, str]:
    """Record the texts the provider will get, with all that rebuilds them; return them as it will get them."""
    contributions: list[Contribution | Contributor] = [
        *contributions_of(context),
        *discovery_contributions(node, work, journal),
        *journal.world.contributors,
    ]
    try:
        templates = journal.world.store.templates
        system = _system(node, journal)
        user = compose(templates, node.template, substitute(node.args, work.scope), contributions, node.key)
    except SapwoodError as error:
        key = journal.keys.child(work.delivery)
        journal.record(ValidationError(key, code=type(error).__name__, message=str(error), where=node.template))
        raise
    child = journal.keys.child
    records = system.records(child(work.delivery), child, "system") + user.records(child(work.delivery), child, "user")
    records += [to_record(one) for one in budget_artifacts(context, node.key, child(work.delivery))]
    journal.record_all(records)
    if context.budget is not None and context.phase is not None and journal.world.project is not None:
        now = instant_of_ms(journal.world.store.clock())
        append_budget_line(journal.world.project, work.plan.run, context.phase, context.budget, now)
    options = ProviderRunOptions(
        context=context.entries,
        system_prompt=system.prompt,
        settings=substitute(node.options, work.scope),
        node=node.key,
        attempt=work.attempt.number,
        folder=str(work.folder or "."),
    )
    return options, user.prompt


def _system(node: AgentNode, journal: Journal) -> Composed:
    """Return the workflow author's system prompt, and after it the one sentence on envelopes that is always there."""
    templates = journal.world.store.templates
    if node.system is None:
        return compose(templates, NOTICE, {}, (), node.key)
    notice = templates.render(NOTICE, {}).text
    return compose(templates, node.system, {}, [Contribution(NOTICE, notice)], node.key)


async def call_provider(
    node: AgentNode, work: Work, journal: Journal, prompt: str, options: ProviderRunOptions
) -> ProviderResult:
    """Return the one result of the provider; record everything else it yields as it comes."""
    result: ProviderResult | None = None
    stream = journal.world.providers[node.provider].run(prompt, options)
    try:
        async for item in stream:
            if result is not None:
                raise ProviderBrokeProtocol(node.provider, "it went on after its result")
            if isinstance(item, GraphEvent):
                journal.stream(work.delivery, item)
                work.meter.see(item)
            else:
                result = item
    finally:
        if isinstance(stream, AsyncGenerator):  # a limit stops it in the middle: its program ends before the attempt
            await stream.aclose()
    if result is None:
        raise ProviderBrokeProtocol(node.provider, "it ended without a result")
    work.meter.end(result)
    return result
