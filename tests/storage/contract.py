"""What every store promises, as tests. A new store adds one subclass whose fixture opens it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sapwood import ArtifactKey, KeyFactory, TemplateId, hash_bytes, hash_text
from sapwood.core.record import Record
from sapwood.core.template import TemplateVersion
from sapwood.errors import DuplicateClaim, DuplicateKey, RunChanged, RunSealed, StoreClosed
from sapwood.ports import GLANCE_BYTES, ArtifactStore, Claim, RunEnd, RunStart

KEYS = KeyFactory()


def record(key: ArtifactKey, content: bytes = b"{}", kind: str = "Input", metadata: bytes = b"{}") -> Record:
    return Record(key, kind, content, hash_bytes(content), metadata)


def start_run(store: ArtifactStore, *children: Record, root: ArtifactKey | None = None) -> ArtifactKey:
    root = root or KEYS.root()
    start = RunStart(root, store.next_workflow_run_id(), root.time_ms, "somebody")
    store.append([record(root, kind="Execution"), *children], starts=[start])
    return root


def version(template_id: str, text: str) -> TemplateVersion:
    return TemplateVersion(KEYS.root_at(5), TemplateId(template_id), text, hash_text(text), ("a", "b"), 5)


class StoreContract:
    @pytest.fixture
    def open_store(self) -> Callable[[], ArtifactStore]:
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: Callable[[], ArtifactStore]) -> ArtifactStore:
        return open_store()

    def test_what_is_appended_is_read_back_exactly(self, store: ArtifactStore) -> None:
        root = KEYS.root()
        records = [record(root, kind="Execution"), record(KEYS.child(root), b'{"a":1}', metadata=b'{"m":"\xc3\xa9"}')]
        store.append(records)
        with store.read() as reader:
            assert list(reader.load(root)) == records
            assert [reader.find(each.key) for each in records] == records
            assert reader.find(KEYS.root()) is None

    @pytest.mark.parametrize("size", [0, 1, 32 * 1024 - 1, 32 * 1024, 1_000_000])
    def test_contents_of_every_size_come_back_with_their_exact_bytes(self, store: ArtifactStore, size: int) -> None:
        content = bytes(range(256)) * (size // 256 + 1)
        records = [record(KEYS.root(), content[:size], kind=kind) for kind in ("IngestedFile", "Report")]
        store.append(records)
        with store.read() as reader:
            assert [reader.find(each.key) for each in records] == records

    def test_artifacts_come_in_key_order_whatever_the_order_of_arrival(self, store: ArtifactStore) -> None:
        root = KEYS.root()
        children = [KEYS.child(root) for _ in range(5)]
        keys = [root, *children, *[KEYS.child(child) for child in children]]
        for key in reversed(keys):
            store.append([record(key)])
        with store.read() as reader:
            assert [found.key for found in reader.load(root)] == sorted(keys)
            assert [found.key for found in reader.outline(root)] == sorted(keys)

    def test_a_subtree_is_the_key_and_all_below_it(self, store: ArtifactStore) -> None:
        root = KEYS.root()
        first, second = KEYS.child(root), KEYS.child(root)
        below = KEYS.child(first)
        store.append([record(key) for key in (root, first, second, below, KEYS.root())])
        with store.read() as reader:
            assert [found.key for found in reader.load(first)] == [first, below]
            assert reader.count(first) == 2
            assert reader.count(root) == 4
            assert reader.count() == 5

    def test_the_last_possible_key_has_a_subtree_too(self, store: ArtifactStore) -> None:
        last = ArtifactKey("ak:" + "7" + "Z" * 25)
        store.append([record(last), record(KEYS.child(last)), record(KEYS.root())])
        with store.read() as reader:
            assert reader.count(last) == 2

    def test_pages_follow_each_other_without_gap_or_repetition(self, store: ArtifactStore) -> None:
        root = KEYS.root()
        records = [record(root), *[record(KEYS.child(root)) for _ in range(9)]]
        store.append(records)
        pages, after = [], None
        with store.read() as reader:
            while page := list(reader.load(root, after=after, limit=4)):
                pages.append(page)
                after = page[-1].key
        assert [len(page) for page in pages] == [4, 4, 2]
        assert [found for page in pages for found in page] == records

    def test_child_keys_are_direct_children_even_where_only_a_descendant_is_stored(self, store: ArtifactStore) -> None:
        root = KEYS.root()
        children = [KEYS.child(root) for _ in range(4)]
        orphan = KEYS.child(KEYS.child(children[2]))
        store.append([record(root), *[record(key) for key in children if key != children[2]], record(orphan)])
        with store.read() as reader:
            assert list(reader.child_keys(root)) == children
            assert list(reader.child_keys(root, after=children[0], limit=2)) == children[1:3]
            assert list(reader.child_keys(children[0])) == []

    def test_kinds_can_be_picked_from_a_subtree(self, store: ArtifactStore) -> None:
        root = KEYS.root()
        records = [record(KEYS.child(root), kind=kind) for kind in ("Report", "Note", "Report", "Log")]
        store.append([record(root), *records])
        with store.read() as reader:
            assert list(reader.load_kinds(root, ["Report", "Log"])) == [records[0], records[2], records[3]]
            assert list(reader.load_kinds(None, ["Note"])) == [records[1]]
            assert [found.key for found in reader.outline(root, ["Note", "Log"])] == [records[1].key, records[3].key]

    def test_the_first_artifact_of_a_key_stays(self, store: ArtifactStore) -> None:
        key, other = KEYS.root(), KEYS.root()
        store.append([record(key, b"1")])
        with pytest.raises(DuplicateKey) as caught:
            store.append([record(other, b"3"), record(key, b"2")])
        assert caught.value.keys == (key.text,)
        with store.read() as reader:
            assert [found.content for found in reader.load()] == [b"1"]  # and nothing else of the refused batch

    def test_a_batch_that_repeats_a_key_is_refused_whole(self, store: ArtifactStore) -> None:
        key = KEYS.root()
        with pytest.raises(DuplicateKey):
            store.append([record(key, b"1"), record(key, b"2")])
        assert store.stored([key]) == set()

    def test_of_many_threads_with_one_key_exactly_one_wins(self, store: ArtifactStore) -> None:
        keys = [KEYS.root() for _ in range(20)]
        wins: list[tuple[ArtifactKey, bytes]] = []

        def contend(name: bytes) -> None:
            for key in keys:
                try:
                    store.append([record(key, name)])
                    wins.append((key, name))
                except DuplicateKey:
                    pass

        threads = [threading.Thread(target=contend, args=(b"%d" % number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.read() as reader:
            assert sorted((found.key, found.content) for found in reader.load()) == sorted(wins)
        assert len(wins) == len(keys)

    def test_stored_tells_which_keys_are_there(self, store: ArtifactStore) -> None:
        keys = [KEYS.root() for _ in range(4)]
        store.append([record(key) for key in keys[:2]])
        assert store.stored(keys) == set(keys[:2])

    def test_a_reader_sees_one_moment(self, store: ArtifactStore) -> None:
        root = start_run(store)
        with store.read() as reader:
            assert reader.count(root) == 1
            store.append([record(KEYS.child(root))])
            assert reader.count(root) == 1
            assert len(list(reader.load(root))) == 1
        with store.read() as reader:
            assert reader.count(root) == 2

    def test_runs_are_listed_newest_first_in_pages_and_by_status(self, store: ArtifactStore) -> None:
        roots = [start_run(store) for _ in range(5)]
        store.append([], end=RunEnd(roots[1], "failed", 9, "ab" * 32, 1))
        with store.read() as reader:
            assert [run.key for run in reader.list_runs()] == roots[::-1]
            assert [run.key for run in reader.list_runs(before=roots[3], limit=2)] == [roots[2], roots[1]]
            assert [run.key for run in reader.list_runs(status="failed")] == [roots[1]]
            assert [run.workflow_run_id for run in reader.list_runs()] == [5, 4, 3, 2, 1]
            run = reader.find_run(roots[1])
            assert run is not None
            assert (run.status, run.ended_ms, run.head, run.owner) == ("failed", 9, "ab" * 32, "somebody")
            assert reader.find_run(KEYS.root()) is None

    def test_an_open_run_is_taken_over_by_one_only(self, store: ArtifactStore) -> None:
        root = start_run(store)
        assert store.change_owner(root, "somebody", "me")
        assert not store.change_owner(root, "somebody", "another")
        with store.read() as reader:
            row = reader.find_run(root)
            assert list(reader.damaged()) == []
        assert row is not None
        assert row.owner == "me"
        store.append([], end=RunEnd(root, "completed", 7, "00" * 32, 1))
        assert not store.change_owner(root, "me", "another")
        assert not store.change_owner(KEYS.root(), "somebody", "me")

    def test_nothing_is_added_to_a_sealed_run(self, store: ArtifactStore) -> None:
        root, other = start_run(store), start_run(store)
        store.append([record(KEYS.child(root), kind="Seal")], end=RunEnd(root, "completed", 9, "00" * 32, 1))
        with pytest.raises(RunSealed):
            store.append([record(KEYS.child(other)), record(KEYS.child(root))])
        with pytest.raises(RunSealed):
            store.append([], claims=[Claim(root, "n", 1, 1, "result", root)])
        with pytest.raises(RunSealed):
            store.reserve_ids(root, 1, 1)
        with store.read() as reader:
            assert reader.count(root) == 2
            assert reader.count(other) == 1

    def test_a_run_that_grew_while_it_was_judged_is_not_sealed(self, store: ArtifactStore) -> None:
        root = start_run(store, record(KEYS.root()))
        store.append([record(KEYS.child(root))])
        with pytest.raises(RunChanged):
            store.append([record(KEYS.child(root), kind="Seal")], end=RunEnd(root, "completed", 9, "00" * 32, 1))
        with store.read() as reader:
            assert reader.count(root) == 2
            run = reader.find_run(root)
            assert run is not None
            assert run.status == "running"

    def test_a_claim_is_made_once_and_with_its_artifact(self, store: ArtifactStore) -> None:
        root = start_run(store)
        first, second = KEYS.child(root), KEYS.child(root)
        store.append([record(first)], claims=[Claim(root, "pick", 1, 1, "result", first)])
        with pytest.raises(DuplicateClaim):
            store.append([record(second)], claims=[Claim(root, "pick", 1, 1, "result", second)])
        store.append([record(second)], claims=[Claim(root, "pick", 1, 2, "result", second)])
        with store.read() as reader:
            assert reader.find_claim(root, "pick", 1, 1, "result") == first
            assert reader.find_claim(root, "pick", 2, 1, "result") is None
            assert [claim.key for claim in reader.list_claims(root)] == [first, second]

    def test_numbers_count_from_one_and_are_never_given_twice(self, store: ArtifactStore) -> None:
        assert [store.next_workflow_run_id() for _ in range(3)] == [1, 2, 3]
        root = KEYS.root()
        store.append([record(root)], starts=[RunStart(root, 4, 0, "", 10, 20)])
        assert store.reserve_ids(root, 5, 6) == (11, 21)
        assert store.reserve_ids(root, 1, 1) == (16, 27)

    def test_a_template_version_is_stored_once_per_id_and_hash(self, store: ArtifactStore) -> None:
        first = version("tpl.agent.pick.prompt", "one")
        assert store.add_version(first) == first
        assert store.add_version(version("tpl.agent.pick.prompt", "one")) == first
        second = store.add_version(version("tpl.agent.pick.prompt", "two"))
        other = store.add_version(version("tpl.agent.pickle.prompt", "one"))
        assert store.find_version(first.template_id, first.content_hash) == first
        assert store.find_version(first.template_id, hash_text("three")) is None
        family = sorted([first, second], key=lambda found: found.key)
        assert list(store.list_versions("tpl.agent.pick")) == family
        assert list(store.list_versions()) == [*family, other]
        ids = [first.template_id, TemplateId("tpl.x.y")]
        assert store.known_hashes(ids) == {(found.template_id.text, found.content_hash) for found in (first, second)}
        with store.read() as reader:
            found = reader.find(first.key)
            assert found is not None
            assert (found.kind, found.content) == ("PromptTemplate", b"one")

    def test_a_closed_store_says_so(self, store: ArtifactStore) -> None:
        store.close()
        store.close()
        with pytest.raises(StoreClosed):
            store.append([])
        with pytest.raises(StoreClosed), store.read():
            pass

    def test_a_glance_shows_sizes_and_beginnings_as_deep_as_asked(self, store: ArtifactStore) -> None:
        root = KEYS.root()
        children = [KEYS.child(root) for _ in range(3)]
        below = [KEYS.child(child) for child in children for _ in range(2)]
        lost = KEYS.child(KEYS.child(children[1]))  # its parent is not stored
        contents = {root: b"{}", **{key: bytes(range(256)) * 200 for key in children}, **dict.fromkeys(below, b"xy")}
        contents[lost] = b""
        inline = children[2]  # a long text that is never stored in chunks
        kinds = dict.fromkeys(contents, "ToolOutput") | {inline: "Report"}
        store.append([record(key, content, kind=kinds[key]) for key, content in contents.items()])
        with store.read() as reader:
            for depth in (None, 0, 1, 2, 3):
                wanted = [key for key in sorted(contents) if depth is None or key.depth <= 1 + depth]
                found = list(reader.glance(root, depth=depth))
                assert [each.key for each in found] == wanted
                assert [each.size_bytes for each in found] == [len(contents[key]) for key in wanted]
                assert [each.start for each in found] == [contents[key][:GLANCE_BYTES] for key in wanted]
                for place, after in enumerate(wanted):
                    page = list(reader.glance(root, depth=depth, after=after, limit=2))
                    assert [each.key for each in page] == wanted[place + 1 : place + 3]
            assert [each.key for each in reader.glance(children[1], depth=0)] == [children[1]]
            in_time = sorted(contents, key=lambda key: (key.last_segment, key))
            assert list(reader.timeline_keys(root)) == in_time
            assert list(reader.timeline_keys(root, after=in_time[3], limit=2)) == in_time[4:6]
            assert reader.last_key(root) == max(contents)
            assert reader.last_key(children[0]) == below[1]
            assert reader.last_key(KEYS.child(root)) is None
