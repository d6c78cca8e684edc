"""What an agent node is given, and what is recorded of it: context, prompt, phases, budgets, what it streams."""

from __future__ import annotations

from pathlib import Path

from sapwood.core.artifacts import (
    Log,
    MessageStreamArtifact,
    PromptContribution,
    RenderedPrompt,
    Report,
    ValidationError,
)
from sapwood.core.prompt import Contribution, PromptContext, ProviderRunOptions, render_provider_text
from sapwood.core.provider import ProviderResult
from sapwood.core.record import Record
from sapwood.core.workflow import Backoff, ContextOptions, Edge
from sapwood.errors import InvalidArtifact, ProviderFailed
from sapwood.runtime.contextview import load_context
from sapwood.runtime.session import Store
from tests.runtime.world import Provider, agent, all_of, chain, echo, run_to_end, workflow


def test_the_recorded_prompt_is_the_text_that_was_sent(tmp_path: Path, store: Store) -> None:
    provider = Provider(echo)
    run, _ = run_to_end(store, tmp_path, chain("a", "b"), provider)
    user = [one.text for one in all_of(store, run, RenderedPrompt) if one.part == "user"]
    assert user == [render_provider_text(prompt, options.context) for prompt, options in provider.seen]
    entries = [one.text for one in all_of(store, run, PromptContribution) if one.slot == "context"]
    assert tuple(entries) == provider.seen[1][1].context


def test_the_system_part_is_the_authors_and_the_sentence_on_envelopes(tmp_path: Path, store: Store) -> None:
    provider = Provider(echo)
    flow = workflow(agent("a"), agent("b", system="tpl.agent.b.author"), edges=[Edge(source="a", target="b")])
    run, _ = run_to_end(store, tmp_path, flow, provider)
    assert [options.system_prompt for _, options in provider.seen] == ["notice", "author\n\nnotice"]
    assert [one.text for one in all_of(store, run, RenderedPrompt) if one.part == "system"] == [
        "notice",
        "author\n\nnotice",
    ]


def test_contributors_add_to_every_prompt(tmp_path: Path, store: Store) -> None:
    class RepoMap:
        name = "repo_map"
        order = 10

        def contribute(self, context: PromptContext) -> str:
            return f"map for {context.node}"

    provider = Provider(lambda prompt, options: echo(prompt.partition("\n")[0], options))
    fixed = Contribution("fixed", "FIXED", 5)
    run_to_end(store, tmp_path, chain("a", "b"), provider, contributors=(RepoMap(), fixed))
    assert [prompt for prompt, _ in provider.seen] == ["a\n\nFIXED\n\nmap for a", "b\n\nFIXED\n\nmap for b"]


def test_large_reports_overflow_and_the_manifest_says_so(tmp_path: Path, store: Store) -> None:
    names = [f"n{number}" for number in range(6)]
    flow = workflow(
        *map(agent, names), agent("last"), edges=[Edge(source=name, target="last", priority=1) for name in names]
    )
    provider = Provider(lambda prompt, _: ProviderResult(report=prompt * 10_000))
    run, _ = run_to_end(store, tmp_path, flow, provider)
    manifest = next(one.context_manifest for one in all_of(store, run, Report) if one.node_key == "last")
    assert manifest["included_source_node_keys"] == names[:3]
    assert manifest["included_chars_total"] == 32_000
    assert manifest["budget_overflow"] is True
    assert len(manifest["dropped_artifact_ids"]) == 3
    assert len(provider.seen[-1][1].context) == 3


def test_a_policy_of_the_node_replaces_the_numbers_it_names(tmp_path: Path, store: Store) -> None:
    flow = workflow(
        agent("a"),
        agent("b", context=ContextOptions(policy={"max_chars_per_artifact": 10})),
        edges=[Edge(source="a", target="b")],
    )
    run, _ = run_to_end(store, tmp_path, flow, Provider(echo))
    manifest = all_of(store, run, Report)[1].context_manifest
    assert manifest["included_chars_total"] == 10


def test_a_failed_attempt_keeps_its_manifest_in_its_log_and_a_retry_may_see_it(tmp_path: Path, store: Store) -> None:
    failures = iter([True, False])

    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        if prompt == "b" and next(failures):
            raise ProviderFailed("scripted", "OVERLOADED")
        return echo(prompt, options)

    retried = agent("b", attempts=2, backoff=Backoff(first_s=0.01), context=ContextOptions(retry=True))
    provider = Provider(answer)
    flow = workflow(agent("a"), retried, edges=[Edge(source="a", target="b")])
    run, status = run_to_end(store, tmp_path, flow, provider)
    assert status == "completed"
    (log,) = all_of(store, run, Log)
    assert log.context_manifest["included_source_node_keys"] == ["a"]
    again = provider.seen[-1][1].context
    assert any("retry_context_v1" in entry and "OVERLOADED" in entry for entry in again)
    with store.artifacts.read() as reader:
        assert load_context(reader, log.key.root, "b").attempt == 2


def test_an_error_that_is_no_ours_fails_the_attempt_and_not_the_engine(tmp_path: Path, store: Store) -> None:
    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        raise ZeroDivisionError("by a third party")

    run, status = run_to_end(store, tmp_path, chain("a"), Provider(answer))
    assert status == "failed"
    assert all_of(store, run, Log)[0].text == "ZeroDivisionError: by a third party"


def test_a_prompt_that_cannot_be_made_leaves_a_validation_error(tmp_path: Path, store: Store) -> None:
    class Silent:
        name = ""
        order = 0

        def contribute(self, context: PromptContext) -> str:
            return "nobody's"

    run, status = run_to_end(store, tmp_path, chain("a"), Provider(echo), contributors=[Silent()])
    assert status == "failed"
    (refused,) = all_of(store, run, ValidationError)
    assert (refused.code, refused.where) == (InvalidArtifact.__name__, "tpl.agent.a")


def test_listeners_see_all_that_is_recorded_while_it_happens(tmp_path: Path, store: Store) -> None:
    heard: list[Record] = []
    leave = store.subscribe(heard.extend)
    run, _ = run_to_end(store, tmp_path, chain("a"), Provider(echo))
    leave()
    with store.artifacts.read() as reader:
        stored = {record.key for record in reader.load(all_of(store, run, Report)[0].key.root)}
    assert {record.key for record in heard if record.kind != "PromptTemplate"} == stored


def test_what_a_provider_streams_is_recorded_before_it_goes_on(tmp_path: Path, store: Store) -> None:
    seen: list[int] = []
    heard: list[Record] = []
    store.subscribe(heard.extend)

    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        seen.append(sum(record.kind == MessageStreamArtifact.__name__ for record in heard))
        return echo(prompt, options)

    run_to_end(store, tmp_path, chain("a"), Provider(answer))
    assert seen == [1]
