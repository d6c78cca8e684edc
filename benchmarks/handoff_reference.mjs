// Handoff policy v1 in JavaScript, written from the specification, as the measure for ours.
// Reads JSON from standard input: {artifacts, rounds}, and prints {place, whole, entries_sha256}, times in microseconds;
// or {cases}, a list of lists of artifacts, and prints [sha256 of the entries, manifest] for each.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const POLICY = { artifacts: 4, total: 32000, each: 12000, least: 1000 };
const DELIMITER_LINE = /(?:^|\n)(?:<<<BEGIN>>>|<<<END>>>)\r?(?:\n|$)/;
const INVISIBLE = /[\u200b-\u200f\u202a-\u202e\u2060-\u2069\u{e0000}-\u{e007f}]/u;
const NODE_KEY = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

function check(artifact) {
  for (const name of ["run_node_id", "attempt", "artifact_id"])
    if (!Number.isSafeInteger(artifact[name]) || artifact[name] < 1) throw new Error(name);
  if (!NODE_KEY.test(artifact.node_key)) throw new Error("node_key");
  if (!["text", "markdown", "json", "diff"].includes(artifact.content_type)) throw new Error("content_type");
  if (new Date(artifact.created_at).toISOString() !== artifact.created_at) throw new Error("created_at");
  if (!artifact.content.isWellFormed()) throw new Error("content");
}

function headTail(text, limit) {
  if (text.length <= limit) return text;
  const head = Math.floor(limit / 2);
  return text.slice(0, head).toWellFormed() + text.slice(text.length - (limit - head)).toWellFormed();
}

function latestReports(artifacts) {
  const latest = new Map();
  for (const one of artifacts) {
    if (one.artifact_type !== "report") continue;
    const best = latest.get(one.run_node_id);
    if (!best || one.created_at > best.created_at || (one.created_at === best.created_at && one.artifact_id > best.artifact_id))
      latest.set(one.run_node_id, one);
  }
  return [...latest.values()].sort(
    (a, b) =>
      a.sequence_index - b.sequence_index ||
      (a.node_key < b.node_key ? -1 : a.node_key > b.node_key ? 1 : 0) ||
      a.run_node_id - b.run_node_id,
  );
}

function envelope(one, text, sha256, run, target) {
  const dropped = one.content.length - text.length;
  return `ALPHRED_UPSTREAM_ARTIFACT v1
policy_version: 1
untrusted_data: true
workflow_run_id: ${run}
target_node_key: ${target}
source_node_key: ${one.node_key}
source_run_node_id: ${one.run_node_id}
source_attempt: ${one.attempt}
artifact_id: ${one.artifact_id}
artifact_type: report
content_type: ${one.content_type}
created_at: ${one.created_at}
sha256: ${sha256}
truncation:
  applied: ${dropped > 0}
  method: ${dropped > 0 ? "head_tail" : "none"}
  original_chars: ${one.content.length}
  included_chars: ${text.length}
  dropped_chars: ${dropped}
content:
<<<BEGIN>>>
${text}
<<<END>>>`;
}

function assemble(artifacts, run, target, assembledAt) {
  const candidates = latestReports(artifacts);
  const included = [];
  let remaining = POLICY.total;
  let overflow = false;
  for (const one of candidates) {
    if (included.length === POLICY.artifacts || remaining < POLICY.least) { overflow = true; break; }
    const limit = Math.min(POLICY.each, remaining);
    if (limit < Math.min(POLICY.each, one.content.length)) overflow = true;
    const text = headTail(one.content, limit);
    remaining -= text.length;
    const sha256 = createHash("sha256").update(one.content, "utf8").digest("hex");
    included.push({ one, text, sha256, entry: envelope(one, text, sha256, run, target) });
  }
  const ids = (test) => included.filter(test).map(({ one }) => one.artifact_id);
  const dropped = candidates.slice(included.length);
  const manifest = {
    context_policy_version: 1,
    included_artifact_ids: ids(() => true),
    included_source_node_keys: included.map(({ one }) => one.node_key),
    included_source_run_node_ids: included.map(({ one }) => one.run_node_id),
    included_sha256: included.map(({ sha256 }) => sha256),
    included_count: included.length,
    included_chars_total: included.reduce((sum, { text }) => sum + text.length, 0),
    entries: included.map(({ one, text }) => ({
      artifact_id: one.artifact_id, run_node_id: one.run_node_id, original_chars: one.content.length,
      included_chars: text.length, dropped_chars: one.content.length - text.length,
    })),
    truncated_artifact_ids: ids(({ one, text }) => text.length < one.content.length),
    dropped_artifact_ids: dropped.map((one) => one.artifact_id),
    dropped_chars_total: included.reduce((sum, { one, text }) => sum + one.content.length - text.length, 0)
      + dropped.reduce((sum, one) => sum + one.content.length, 0),
    budget_overflow: overflow,
    missing_upstream_artifacts: included.length === 0,
    no_eligible_artifact_types: artifacts.length > 0 && candidates.length === 0,
    delimiter_in_content: ids(({ text }) => DELIMITER_LINE.test(text)),
    envelope_in_content: ids(({ text }) => text.includes("ALPHRED_UPSTREAM_ARTIFACT v")),
    invisible_chars: ids(({ text }) => INVISIBLE.test(text)),
    extensions: [],
    assembly_timestamp: assembledAt,
  };
  return { entries: included.map(({ entry }) => entry), manifest };
}

const { artifacts, rounds, cases } = JSON.parse(readFileSync(0, "utf8"));
const place = (built) => assemble(built, 7, "pick", "2026-02-03T04:05:06.789Z");
const build = () => artifacts.map((one) => { const copy = { ...one }; check(copy); return copy; });
let flattened = 0;

function digest(entries) {
  const hash = createHash("sha256");
  for (const entry of entries) hash.update(entry).update("\0");
  return hash.digest("hex");
}

// A string that was sliced or joined is a rope in V8 until it is read; taking its byte length forces it.
function medianUs(work) {
  for (let round = 0; round < 300; round++) flattened += work().entries.length;
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const started = process.hrtime.bigint();
    for (const entry of work().entries) flattened += Buffer.byteLength(entry);
    times.push(Number(process.hrtime.bigint() - started) / 1000);
  }
  return times.sort((a, b) => a - b)[times.length >> 1];
}

function measured() {
  const built = build();
  const entries_sha256 = digest(place(built).entries);
  return { place: medianUs(() => place(built)), whole: medianUs(() => place(build())), flattened, entries_sha256 };
}

const answers = () => cases.map(place).map(({ entries, manifest }) => [digest(entries), manifest]);
process.stdout.write(JSON.stringify(cases ? answers() : measured()));
