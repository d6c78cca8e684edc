"""What a node leaves besides its report: its document, the files in it, its phase's handoff, checked reports.

All of it is recorded with the attempt's result, in one transaction: there is exactly one of each, whatever crashes.
Only the project's files can be written twice: a call that is made again writes what it is answered then.
"""

from __future__ import annotations

from dataclasses import replace

from sapwood.core import artifacts
from sapwood.core.inputs import goal_of
from sapwood.core.kind import Artifact
from sapwood.core.outputs import output_path
from sapwood.core.phase_result import phase_handoff
from sapwood.core.phases import PhaseHandoff
from sapwood.core.produced import read_discovery_report, read_planning_tickets, with_part
from sapwood.core.workflow import AgentNode
from sapwood.errors import IngestFailed, SapwoodError, StoreError
from sapwood.ports import Document
from sapwood.runtime.context import load_phase_handoffs, to_phase_handoff
from sapwood.runtime.discoveries import load_discoveries
from sapwood.runtime.evidence import provider_evidence
from sapwood.runtime.journal import Journal
from sapwood.runtime.verdicts import known_verdicts
from sapwood.runtime.visits import visits_of
from sapwood.runtime.world import Done, Work


def add_products(work: Work, done: Done, journal: Journal) -> Done:
    """Return `done` with all that its node is to leave; when that cannot be made, with the error that says why."""
    if done.error is not None:
        return done
    made: list[Artifact] = []
    try:
        written = _write_document(work, done, journal, made)
        if isinstance(work.node, AgentNode):
            made += _checked_reports(work.node, work, done, journal)
            made += _handoff(work.node, work, done, journal, written)
            made += provider_evidence(done.result.data, work, journal)
    except StoreError:
        raise
    except SapwoodError as error:
        return replace(done, error=str(error), products=(*done.products, *_ingested(made)))
    return replace(done, products=(*done.products, *made))


def _ingested(made: list[Artifact]) -> list[Artifact]:
    """Return what has happened already: files that were written stay on record, whatever failed after them."""
    return [one for one in made if isinstance(one, artifacts.IngestManifest | artifacts.IngestedFile)]


def _write_document(work: Work, done: Done, journal: Journal, made: list[Artifact]) -> list[str]:
    """Write the node's document, and the files in it if it is to be ingested; return the paths of all of them."""
    node, documents = work.node, journal.world.documents
    if node.output is None or documents is None:
        return []
    visit, name = work.history.visits(node.key) + 1, work.level.frame.name_of(node.key)
    path = output_path(node.output, run=work.plan.run, visit=visit, name=name)
    document = Document(path, done.result.report, work.plan.run, node.key, work.attempt.number, work.plan.workflow.name)
    documents.write(document)
    if not node.ingest:
        return [path]
    ingested = documents.ingest(document, work.delivery, journal.keys.child)
    made += ingested.artifacts
    if not ingested.is_whole and node.ingest_errors == "fail":
        raise IngestFailed(ingested.manifest, ingested.problems)
    return [path, *ingested.written]


def _checked_reports(node: AgentNode, work: Work, done: Done, journal: Journal) -> list[Artifact]:
    if node.produces is None:
        return []
    data = with_part(done.result.data, done.result.report, node.produces)
    if node.produces == "discovery_report":
        return [read_discovery_report(data, journal.keys.child(work.delivery))]
    return [*read_planning_tickets(data, lambda: journal.keys.child(work.delivery), load_discoveries(work, journal))]


def _handoff(node: AgentNode, work: Work, done: Done, journal: Journal, written: list[str]) -> list[Artifact]:
    if node.phase is None:
        return []
    with journal.world.store.artifacts.read() as reader:
        stored = load_phase_handoffs(reader, visits_of(work), work.plan.run)
    earlier = [to_phase_handoff(handoff) for handoff in stored]
    verdicts = known_verdicts(work, stored)
    if done.result.decision is not None:
        verdicts[node.key] = done.result.decision
    pure = phase_handoff(
        work.plan.run,
        node.phase,
        done.result.data,
        done.result.report,
        goal=next((one.goal for one in reversed(earlier) if one.goal), goal_of(work.level.frame.inputs)),
        verdicts=verdicts,
        written=written,
    )
    fields = {name: getattr(pure, name) for name in PhaseHandoff.__slots__}
    names = {name: tuple(fields[name]) for name in ("artifacts_produced", "decisions_made", "open_risks")}
    key = journal.keys.child(work.delivery)
    return [artifacts.PhaseHandoff(key, **{**fields, **names, "verdicts": dict(pure.verdicts)})]
