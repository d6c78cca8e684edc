"""Versions: one for each (id, hash), for threads, processes and later starts; the acceptance scenarios about them."""

from __future__ import annotations

import logging
import multiprocessing
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sapwood
from sapwood.core.template import TemplateVersion
from sapwood.ports import ArtifactStore
from sapwood.storage.memory import MemoryStore
from sapwood.storage.sqlite import SqliteStore
from sapwood.templates import registry as registry_module
from sapwood.templates.limits import MIB, RenderLimits
from sapwood.templates.registry import StaticText, TemplateRegistry
from sapwood.templates.rendering import Rendering
from tests.conftest import Dose
from tests.templates.mutate import mutated
from tests.templates.test_child import BUSY

NOW = 1_900_000_000_000


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ArtifactStore]:
    store: ArtifactStore = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    yield store
    store.close()


@pytest.fixture
def registry(store: ArtifactStore) -> TemplateRegistry:
    return TemplateRegistry(store, clock=lambda: NOW)


@pytest.mark.artifacts_templates
def test_us2_4_a_version_that_exists_is_deduplicated(store: ArtifactStore, registry: TemplateRegistry) -> None:
    first = registry.register("tpl.a.b", "Hello {{ x }}", ["x"])
    assert registry.register("tpl.a.b", "Hello {{ x }}", ["x"]) == first
    later = TemplateRegistry(store, clock=lambda: NOW + 10_000)
    assert later.register("tpl.a.b", "Hello {{ x }}", ["x"]) == first
    assert list(store.list_versions()) == [first]


@pytest.mark.artifacts_templates
def test_us2_5_a_changed_text_is_a_new_version_of_the_same_family(
    store: ArtifactStore, registry: TemplateRegistry
) -> None:
    first = registry.register("tpl.a.b", "one")
    second = registry.register("tpl.a.b", "two")
    assert first.content_hash != second.content_hash
    assert first.content_hash == sapwood.hash_text("one")
    assert first.key != second.key
    assert {version.text for version in store.list_versions("tpl.a.b")} == {"one", "two"}


@pytest.mark.artifacts_templates
def test_us2_6_the_key_carries_the_time_of_the_last_update(registry: TemplateRegistry) -> None:
    version = registry.register("tpl.a.b", "one", last_updated_ms=1_700_000_000_123)
    assert version.key.time_ms == version.last_updated_ms == 1_700_000_000_123
    assert registry.register("tpl.a.b", "two").key.time_ms == NOW
    assert registry.register("tpl.a.b", "three", last_updated_ms=NOW + 5).key.time_ms == NOW
    assert registry.register("tpl.a.b", "four", last_updated_ms=-5).key.time_ms == 0


@pytest.mark.artifacts_templates
def test_us2_3_a_prefix_lists_its_whole_family(store: ArtifactStore, registry: TemplateRegistry) -> None:
    for name in ("tpl.agent.discovery", "tpl.agent.discovery.prompt", "tpl.agent.disc.x", "tpl.tool.x"):
        registry.register(name, name)
    family = [version.template_id.text for version in store.list_versions("tpl.agent.discovery")]
    assert family == ["tpl.agent.discovery", "tpl.agent.discovery.prompt"]
    assert store.list_versions("tpl.agent.discovery.") == store.list_versions("tpl.agent.discovery")
    assert len(store.list_versions("tpl.agent")) == 3
    assert [version.template_id.text for version in store.list_versions("tpl.agent.disc")] == ["tpl.agent.disc.x"]


@pytest.mark.artifacts_templates
def test_sc_006_same_text_same_version_changed_text_new_version(
    store: ArtifactStore, registry: TemplateRegistry
) -> None:
    for _ in range(3):
        for number in range(20):
            registry.register("tpl.a.b", f"text {number}")
    versions = store.list_versions("tpl.a.b")
    assert len(versions) == len({version.content_hash for version in versions}) == 20


@pytest.mark.artifacts_templates
def test_sc_008_one_key_for_each_id_and_hash_and_going_back_finds_the_old_one(
    store: ArtifactStore, registry: TemplateRegistry
) -> None:
    old = registry.register("tpl.a.b", "old")
    new = registry.register("tpl.a.b", "new")
    assert registry.register("tpl.a.b", "old").key == old.key != new.key
    assert registry.render("tpl.a.b", {}).version == old
    other_family = registry.register("tpl.a.c", "old")
    assert other_family.content_hash == old.content_hash
    assert other_family.key != old.key


def test_unresolved_placeholders_fail_the_registration(store: ArtifactStore, registry: TemplateRegistry) -> None:
    with pytest.raises(sapwood.UndeclaredVariable, match="unresolved placeholder name"):
        registry.register("tpl.a.b", "Hi\n{{ name }}")
    assert store.list_versions() == []
    assert registry.register("tpl.a.b", "{# variables: name #}Hi\n{{ name }}").variables == ("name",)


@pytest.mark.parametrize("text", ["a\r\n", "{{ [1]|random }}", "{% if", "x" * 300_000, "\ud800", "{% include 'x' %}"])
def test_what_cannot_be_rendered_is_not_registered(store: ArtifactStore, registry: TemplateRegistry, text: str) -> None:
    with pytest.raises(sapwood.TemplateError):
        registry.register("tpl.a.b", text)
    assert store.list_versions() == []


def test_a_wrong_id_is_refused(registry: TemplateRegistry) -> None:
    with pytest.raises(sapwood.InvalidTemplateId):
        registry.register("agent.x", "text")


def test_a_render_carries_all_that_is_recorded(registry: TemplateRegistry) -> None:
    version = registry.register("tpl.a.b", "{{ b }}{{ a }}", ["a", "b"])
    rendered = registry.render("tpl.a.b", {"b": 1.0, "a": "x"})
    assert rendered == (version, b'{"a":"x","b":1}', "1x", *registry.renderer)
    assert registry.rerender(version.text, rendered.args_json, ("a", "b"), "tpl.a.b") == rendered.text
    assert rendered.renderer == "sapwood-jinja"
    assert "jinja-3" in rendered.renderer_version


def test_what_was_rendered_without_limits_is_rendered_again_with_more_of_them(store: ArtifactStore) -> None:
    rendering = Rendering(RenderLimits(cpu_s=0.1, memory_bytes=150 * MIB))
    registry = TemplateRegistry(store, rendering=rendering)
    slow = "{% for i in range(300) %}{% for j in range(30000) %}{% endfor %}{% endfor %}{{ a }}"
    large = "{{ ('a' * 2 * 10 ** 8)|length }}"
    for text in (slow, large):
        registry.register("tpl.a.b", text, ["a"])
        rendered = registry.render("tpl.a.b", {"a": 1})
        with pytest.raises(sapwood.TemplateLimit):
            rendering.render(text, rendered.args_json, ("a",))
        assert registry.rerender(text, rendered.args_json, ("a",), None) == rendered.text
    rendering.close()


def test_a_repetition_that_takes_too_much_is_a_limit(store: ArtifactStore) -> None:
    rendering = Rendering(RenderLimits(cpu_s=0.03))
    registry = TemplateRegistry(store, rendering=rendering)
    version = registry.register("tpl.a.b", BUSY)
    with pytest.raises(sapwood.TemplateLimit, match=r"0\.3 s of processor time"):
        registry.rerender(BUSY, b"{}", (), version.template_id.text)
    rendering.close()


def test_a_bare_id_means_the_packaged_text_unless_the_store_has_a_newer_one(
    store: ArtifactStore, registry: TemplateRegistry
) -> None:
    def packaged_here() -> TemplateRegistry:
        return TemplateRegistry(store, clock=lambda: NOW, packaged=lambda _: ("packaged", 5))

    assert packaged_here().render("tpl.a.b", {}).text == "packaged"
    registry.register("tpl.a.b", "newer")
    assert packaged_here().render("tpl.a.b", {}).text == "newer"


def test_what_was_meant_last_is_current_be_it_from_a_file_or_from_code(
    store: ArtifactStore, registry: TemplateRegistry
) -> None:
    registry.register("tpl.a.b", "of the file")
    later = TemplateRegistry(store, clock=lambda: NOW)
    file = later.static_text("tpl.a.b", "of the file")
    for text in ("of code", "of the file", "of code"):
        if text == "of code":
            later.register("tpl.a.b", text)
        else:
            later.adopt(file)
        assert later.render("tpl.a.b", {}).text == text
    later.adopt(file)
    later.register("tpl.a.b", "of code")
    current = later.current("tpl.a.b")
    assert current is not None
    assert (current.text, later.render("tpl.a.b", {}).text) == ("of code", "of code")


def test_a_family_that_nobody_has_is_not_found(registry: TemplateRegistry) -> None:
    with pytest.raises(sapwood.NotFound, match=r"tpl\.a\.b"):
        registry.render("tpl.a.b", {})


def test_a_version_that_only_the_store_has_renders_in_the_child(
    store: ArtifactStore, registry: TemplateRegistry
) -> None:
    version = registry.register(
        "tpl.a.b", "{% for i in range(9999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    )
    rendering = Rendering(RenderLimits(cpu_s=0.1))  # the wall clock of a busy machine must not come first
    with pytest.raises(sapwood.TemplateLimit, match="processor time"):
        TemplateRegistry(store, rendering=rendering).render(version.template_id.text, {})
    rendering.close()


def test_a_template_in_code_registers_with_its_first_use(store: ArtifactStore, registry: TemplateRegistry) -> None:
    template = sapwood.Template("tpl.code.greeting", "Hello {{ name }}", ["name"])
    assert store.list_versions() == []
    rendered = registry.render(template, {"name": "x"})
    assert (rendered.text, rendered.version.content_hash) == (template.render({"name": "x"}), template.content_hash)
    assert list(store.list_versions()) == [rendered.version]
    templated: sapwood.Templated = template
    assert templated.template_id.text == "tpl.code.greeting"


def test_what_is_no_time_and_no_id_is_a_typed_error(registry: TemplateRegistry) -> None:
    wrong: Any = "a"
    with pytest.raises(sapwood.WrongArgument, match="argument last_updated_ms is 'a'"):
        registry.register("tpl.a.b", "x", last_updated_ms=wrong)
    template: Any = SimpleNamespace(template_id="tpl.a.b", text="x", variables=())
    with pytest.raises(sapwood.WrongArgument, match="argument template_id is"):
        registry.render(template, {})


def test_a_render_in_code_gives_its_own_text_whatever_another_thread_registers(
    registry: TemplateRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = registry.keep

    def slow_keep(static: StaticText) -> TemplateVersion:
        version = keep(static)
        monkeypatch.setattr(registry, "keep", keep)
        registry.register("tpl.a.b", "of another thread")
        return version

    monkeypatch.setattr(registry, "keep", slow_keep)
    assert registry.render(sapwood.Template("tpl.a.b", "mine"), {}).text == "mine"


def test_another_declaration_of_a_stored_text_is_checked_and_keeps_its_version(registry: TemplateRegistry) -> None:
    first = registry.register("tpl.a.b", "{{ a }}", ["a"])
    second = registry.register("tpl.a.b", "{{ a }}", ["a", "b"])
    assert (second.key, second.variables) == (first.key, ("a", "b"))
    with pytest.raises(sapwood.UndeclaredVariable):
        registry.register("tpl.a.b", "{{ a }}", ["b"])


def test_a_hash_collision_is_logged_as_critical_and_refused(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    registry = TemplateRegistry(store, content_hash=lambda text: "0" * 64)
    first = registry.register("tpl.a.b", "one")
    with caplog.at_level(logging.CRITICAL), pytest.raises(sapwood.TemplateCollision):
        registry.register("tpl.a.b", "two")
    with caplog.at_level(logging.CRITICAL), pytest.raises(sapwood.TemplateCollision):
        TemplateRegistry(store, content_hash=lambda text: "0" * 64).register("tpl.a.b", "two")
    assert [record.levelname for record in caplog.records] == ["CRITICAL", "CRITICAL"]
    assert list(store.list_versions()) == [first]


def test_threads_that_register_the_same_text_get_one_version(store: ArtifactStore) -> None:
    registry = TemplateRegistry(store)
    found: list[str] = []

    def work() -> None:
        found.extend(registry.register("tpl.a.b", f"text {number}").key.text for number in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 160
    assert len(set(found)) == len(store.list_versions()) == 20


def register_all(path: str, count: int) -> list[str]:
    with sapwood.open(path) as store:
        return [
            store.templates.register(f"tpl.family{number % 7}.t{number}", f"text {number}").key.text
            for number in range(count)
        ]


@pytest.mark.artifacts_templates
@pytest.mark.torture(short=60, full=1000)
def test_eight_processes_registering_the_same_templates_make_each_version_once(tmp_path: Path, dose: Dose) -> None:
    path = str(tmp_path / "s.db")  # which the eight also make, at once
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        answers = pool.starmap(register_all, [(path, dose.count)] * 8)
    if any(answer != answers[0] for answer in answers):
        dose.failures.append("two processes got different keys for one version")
    with sapwood.open(path) as store:
        if (versions := len(store.artifacts.list_versions())) != dose.count:
            dose.failures.append(f"{versions} versions of {dose.count} texts")


@pytest.mark.mutant
def test_without_the_comparison_a_collision_gives_the_wrong_text(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = mutated(monkeypatch, registry_module, "if found.text != static.text:", "if False:")
    registry = mutant.TemplateRegistry(MemoryStore(), content_hash=lambda text: "0" * 64)
    registry.register("tpl.a.b", "one")
    assert registry.register("tpl.a.b", "two").text == "one"


@pytest.mark.mutant
def test_without_the_check_a_placeholder_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = mutated(monkeypatch, registry_module, "            self.check(static)\n", "            pass\n")
    assert mutant.TemplateRegistry(MemoryStore()).register("tpl.a.b", "{{ name }}").text == "{{ name }}"


@pytest.mark.mutant
def test_without_the_clamp_a_version_comes_from_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = mutated(monkeypatch, registry_module, "max(0, min(last_updated_ms, now))", "last_updated_ms")
    registry = mutant.TemplateRegistry(MemoryStore(), clock=lambda: NOW)
    assert registry.register("tpl.a.b", "three", last_updated_ms=NOW + 5).key.time_ms == NOW + 5


@pytest.mark.mutant
def test_without_the_lookup_every_start_would_make_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "find_version", lambda *_: None)
    monkeypatch.setattr(store, "add_version", lambda version: version)
    keys = {TemplateRegistry(store).register("tpl.a.b", "one").key for _ in range(2)}
    assert len(keys) == 2
