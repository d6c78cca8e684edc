"""Template files at start: ids from paths, what replaces what, what is refused, and that unchanged files cost little."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import sapwood
from sapwood.core.template import RESERVED_PREFIXES
from sapwood.storage.memory import MemoryStore
from sapwood.templates.files import BUILTIN, Loaded, Origin, Root, load_files, packaged_text, standard_roots
from sapwood.templates.refusals import list_refusals, record_refusals
from sapwood.templates.registry import TemplateRegistry
from sapwood.templates.render import Renderer

NOW = 1_900_000_000_000


def write(root: Path, name: str, text: str | bytes, mtime_s: float | None = None) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if mtime_s is not None:
        os.utime(path, (mtime_s, mtime_s))
    return path


def start(store: MemoryStore, project: Path, *configured: str) -> tuple[TemplateRegistry, Loaded]:
    registry = TemplateRegistry(store, clock=lambda: NOW)
    return registry, load_files(registry, store, standard_roots(project, configured))


@pytest.mark.artifacts_templates
def test_fr_025_a_start_registers_every_builtin_and_a_second_start_none(tmp_path: Path) -> None:
    store = MemoryStore()
    _, first = start(store, tmp_path)
    assert first.created == len(first.files) == len(list(BUILTIN.rglob("*.jinja"))) >= 10
    assert first.refused == []
    registry, second = start(store, tmp_path)
    assert (second.created, len(second.files)) == (0, first.created)
    assert len(store.list_versions()) == first.created
    write(tmp_path, "templates/agent/single/prompt.jinja", "changed")
    registry, third = start(store, tmp_path)
    assert third.created == 1
    assert registry.render("tpl.agent.single.prompt", {}).text == "changed"


def test_builtins_stand_in_the_reserved_prefixes_and_render_with_their_required_arguments(tmp_path: Path) -> None:
    registry, loaded = start(MemoryStore(), tmp_path)
    seen = set()
    for file in loaded.files:
        family = file.static.template_id
        seen |= {prefix for prefix in RESERVED_PREFIXES if family.is_in_family(prefix)}
        assert any(family.is_in_family(prefix) for prefix in RESERVED_PREFIXES)
        args = {name: ["one", "two"] if name in LISTS else "value" for name in file.static.variables}
        text = registry.render(family.text, args).text
        assert "value" in text or not args
        assert text.endswith("\n")
        assert not text.startswith("\n")
    assert seen == set(RESERVED_PREFIXES)
    assert registry.render("tpl.agent.discovery.prompt", {"task": "T"}).text.count("T") >= 1


LISTS = {"constraints", "criteria", "scope", "questions", "limits", "checks", "members"}


def test_a_path_is_an_id_and_the_mtime_is_the_time_of_its_version(tmp_path: Path) -> None:
    store = MemoryStore()
    path = write(tmp_path, "templates/agent/discovery/system.jinja", "one", mtime_s=1_600_000_000)
    registry, _ = start(store, tmp_path)
    version = registry.current("tpl.agent.discovery.system")
    assert version is not None
    assert version.key.time_ms == version.last_updated_ms == 1_600_000_000_000
    os.utime(path, (1_700_000_000, 1_700_000_000))
    registry, _ = start(store, tmp_path)
    assert registry.current("tpl.agent.discovery.system") == version
    write(tmp_path, "templates/agent/discovery/system.jinja", "two", mtime_s=4_000_000_000)
    registry, _ = start(store, tmp_path)
    changed = registry.current("tpl.agent.discovery.system")
    assert changed is not None
    assert changed.last_updated_ms == NOW


def test_files_are_loaded_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in "hcaebgfd":
        for file in "zyx":
            write(tmp_path, f"templates/{name}/{file}.jinja", name)
    _, loaded = start(MemoryStore(), tmp_path)
    own = [file.path for file in loaded.files if file.origin is Origin.PROJECT]
    assert own == sorted(own)


def test_a_project_replaces_a_packaged_template(tmp_path: Path) -> None:
    write(tmp_path, "templates/agent/single/prompt.jinja", "mine")
    registry, loaded = start(MemoryStore(), tmp_path)
    assert registry.render("tpl.agent.single.prompt", {}).text == "mine"
    assert [file.path for file in loaded.replaced] == [BUILTIN / "agent/single/prompt.jinja"]
    used = [file for file in loaded.files if file.static.template_id.text == "tpl.agent.single.prompt"]
    assert [file.origin for file in used] == [Origin.PROJECT]


@pytest.mark.parametrize(
    ("one", "other"),
    [("templates/a/b.jinja", "extra/a/b.jinja"), ("extra/a/b.jinja", "more/a/b.jinja")],
)
def test_any_other_pair_that_differs_is_an_error_naming_both(tmp_path: Path, one: str, other: str) -> None:
    paths = [write(tmp_path, one, "one"), write(tmp_path, other, "other")]
    for folder in ("extra", "more"):
        write(tmp_path, f"{folder}/good/{folder}.jinja", "good")
    registry, loaded = start(MemoryStore(), tmp_path, "extra", "more")
    assert sorted(refused.path for refused in loaded.refused) == sorted(paths)
    for refused in loaded.refused:
        assert isinstance(refused.error, sapwood.TemplateConflict)
        assert all(str(path) in str(refused.error) for path in paths)
    with pytest.raises(sapwood.TemplateConflict, match="keep one") as caught:
        registry.render("tpl.a.b", {})
    assert all(str(path) in str(caught.value) for path in paths)
    assert registry.render("tpl.good.extra", {}).text == "good"


def test_a_configured_root_may_not_replace_a_packaged_template_but_may_repeat_it(tmp_path: Path) -> None:
    write(tmp_path, "extra/agent/single/prompt.jinja", "mine")
    packaged = BUILTIN / "agent/review/prompt.jinja"
    write(tmp_path, "extra/agent/review/prompt.jinja", packaged.read_bytes())
    _, loaded = start(MemoryStore(), tmp_path, "extra")
    assert {refused.path.name for refused in loaded.refused} == {"prompt.jinja"}
    assert len(loaded.refused) == 2
    assert all("single" in str(refused.path) for refused in loaded.refused)


SINGLE = "agent/single/prompt.jinja"


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("a\n{% if %}", sapwood.TemplateSyntax, 2),
        ("a\n{{ b }}", sapwood.UndeclaredVariable, 2),
        ("a\r\n", sapwood.TemplateNotStatic, 1),
        (b"\xe9", sapwood.TemplateNotStatic, 1),
    ],
)
def test_a_refused_override_is_not_answered_with_another_text(
    tmp_path: Path, text: str | bytes, kind: type[sapwood.TemplateError], line: int
) -> None:
    store = MemoryStore()
    write(tmp_path, f"templates/{SINGLE}", "mine")
    start(store, tmp_path)
    path = write(tmp_path, f"templates/{SINGLE}", text)
    registry = TemplateRegistry(store, packaged=packaged_text)
    loaded = load_files(registry, store, standard_roots(tmp_path))
    assert loaded.replaced == []
    assert [file.template_id for file in loaded.refused] == ["tpl.agent.single.prompt"]
    assert all(file.static.template_id.text != "tpl.agent.single.prompt" for file in loaded.files)
    for _ in range(2):
        with pytest.raises(kind) as caught:
            registry.render("tpl.agent.single.prompt", {"task": "T"})
        assert f"its file {path} is refused" in str(caught.value)
        assert caught.value.line == line
    assert registry.current("tpl.agent.single.prompt") is None
    registry.register("tpl.agent.single.prompt", "in code")
    assert registry.render("tpl.agent.single.prompt", {}).text == "in code"


def test_an_override_in_conflict_with_a_configured_root_is_not_answered_with_the_packaged_text(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"templates/{SINGLE}", "mine"), write(tmp_path, f"extra/{SINGLE}", "theirs")]
    store = MemoryStore()
    registry = TemplateRegistry(store, packaged=packaged_text)
    loaded = load_files(registry, store, standard_roots(tmp_path, ["extra"]))
    assert loaded.replaced == []
    with pytest.raises(sapwood.TemplateConflict) as caught:
        registry.render("tpl.agent.single.prompt", {"task": "T"})
    assert all(str(path) in str(caught.value) for path in paths)


@pytest.mark.mutant
def test_without_the_refusal_the_packaged_text_would_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, f"templates/{SINGLE}", "{% if %}")
    monkeypatch.setattr(TemplateRegistry, "refuse", lambda self, errors: None)
    registry = TemplateRegistry(MemoryStore(), packaged=packaged_text)
    load_files(registry, MemoryStore(), standard_roots(tmp_path))
    assert "fresh T" in registry.render("tpl.agent.single.prompt", {"task": "fresh T"}).text


BAD: list[tuple[str, str | bytes, type[Exception], int | None]] = [
    ("a/syntax.jinja", "x\n{% if %}", sapwood.TemplateSyntax, 2),
    ("a/placeholder.jinja", "x\n\n{{ y }}", sapwood.UndeclaredVariable, 3),
    ("a/cr.jinja", "x\ny\r\n", sapwood.TemplateNotStatic, 2),
    ("a/latin.jinja", b"x\n\xe9", sapwood.TemplateNotStatic, 2),
    ("a/long.jinja", "x" * 262_145, sapwood.TemplateLimit, None),
    ("a/random.jinja", "x\n{{ [1]|random }}", sapwood.TemplateSyntax, 2),
    ("Upper/x.jinja", "x", sapwood.InvalidTemplateId, None),
    ("flat.jinja", "x", sapwood.InvalidTemplateId, None),
    ("a/b.c.d.e.f.g.h.i.jinja", "x", sapwood.InvalidTemplateId, None),
]


@pytest.mark.parametrize(("name", "text", "kind", "line"), BAD, ids=[name for name, *_ in BAD])
def test_a_wrong_file_is_refused_by_name_and_line_and_the_others_load(
    tmp_path: Path, name: str, text: str | bytes, kind: type[Exception], line: int | None
) -> None:
    path = write(tmp_path, f"templates/{name}", text)
    write(tmp_path, "templates/a/good.jinja", "good")
    registry, loaded = start(MemoryStore(), tmp_path)
    assert [(refused.path, type(refused.error), refused.line) for refused in loaded.refused] == [(path, kind, line)]
    assert registry.render("tpl.a.good", {}).text == "good"


def test_links_and_other_strange_files_are_refused(tmp_path: Path) -> None:
    secret = write(tmp_path, "secret.txt", "secret")
    (tmp_path / "templates/a").mkdir(parents=True)
    (tmp_path / "templates/a/link.jinja").symlink_to(secret)
    (tmp_path / "templates/linked").symlink_to(tmp_path / "templates/a")
    os.mkfifo(tmp_path / "templates/a/pipe.jinja")
    _, loaded = start(MemoryStore(), tmp_path, "missing")
    assert sorted(refused.path.name for refused in loaded.refused) == ["link.jinja", "linked", "missing", "pipe.jinja"]
    assert any("template tpl.a.link: a link is not followed" in str(refused.error) for refused in loaded.refused)


def test_a_folder_that_cannot_be_read_is_refused_and_the_others_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "templates/a/good.jinja", "good")
    write(tmp_path, "templates/closed/x.jinja", "x")
    scandir = os.scandir

    def guarded(folder: str) -> object:
        if str(folder).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", guarded)  # the tests may run as root, for whom nothing is closed
    registry, loaded = start(MemoryStore(), tmp_path)
    (refused,) = loaded.refused
    assert refused.path == tmp_path / "templates/closed"
    assert "cannot be read: Permission denied" in str(refused.error)
    assert registry.render("tpl.a.good", {}).text == "good"


def test_a_file_in_the_place_of_the_templates_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "templates", "text")
    assert [refused.path.name for refused in start(MemoryStore(), tmp_path)[1].refused] == ["templates"]


def test_a_refused_file_leaves_one_standalone_validation_error(tmp_path: Path) -> None:
    store = MemoryStore()
    path = write(tmp_path, "templates/a/bad.jinja", "x\n{{ y }}")
    for _ in range(3):
        _, loaded = start(store, tmp_path)
        record_refusals(store, sapwood.KeyFactory(), loaded.refused, tmp_path)
    (error,) = list_refusals(store)
    assert error.key.depth == 1
    assert (error.code, error.where) == ("UndeclaredVariable", "templates/a/bad.jinja:2")
    assert "unresolved placeholder y" in error.message
    path.write_text("x\n{{ z }}")
    record_refusals(store, sapwood.KeyFactory(), start(store, tmp_path)[1].refused, tmp_path)
    assert len(list_refusals(store)) == 2


def test_a_file_whose_name_is_no_text_is_refused_and_recorded(tmp_path: Path) -> None:
    write(tmp_path, "templates/agent/\udcff.jinja", "x")
    store = MemoryStore()
    _, loaded = start(store, tmp_path)
    record_refusals(store, sapwood.KeyFactory(), loaded.refused, tmp_path)
    (error,) = list_refusals(store)
    assert (error.code, error.where) == ("InvalidTemplateId", "templates/agent/\\udcff.jinja")


def test_unchanged_files_are_neither_parsed_nor_read_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    for number in range(50):
        write(tmp_path, f"templates/many/t{number}.jinja", f"{{# variables: x #}}text {number} {{{{ x }}}}")
    start(store, tmp_path)
    monkeypatch.setattr(store, "find_version", None)
    monkeypatch.setattr(Renderer, "_compile", None)
    started = time.monotonic()
    _, loaded = start(store, tmp_path)
    assert time.monotonic() - started < 2
    assert loaded.created == 0


def test_a_text_found_by_its_hash_alone_is_compared_when_it_is_used(tmp_path: Path) -> None:
    store = MemoryStore()
    constant = TemplateRegistry(store, content_hash=lambda text: "0" * 64)
    constant.register("tpl.a.b", "stored")
    write(tmp_path, "root/a/b.jinja", "another")
    later = TemplateRegistry(store, content_hash=lambda text: "0" * 64)
    load_files(later, store, [Root(tmp_path / "root", Origin.PROJECT)])
    with pytest.raises(sapwood.TemplateCollision):
        later.render("tpl.a.b", {})


@pytest.mark.mutant
def test_without_the_known_hashes_every_text_would_be_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    start(store, tmp_path)
    monkeypatch.setattr(store, "known_hashes", lambda ids: set())
    monkeypatch.setattr(store, "find_version", lambda *_: None)
    calls: list[str] = []
    monkeypatch.setattr(TemplateRegistry, "check", lambda self, static: calls.append(static.text))
    start(store, tmp_path)
    assert len(calls) >= 10
