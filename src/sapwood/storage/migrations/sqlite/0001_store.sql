-- Source tables: artifact, chunk, claim, template. Their rows are written once; the triggers below refuse the rest.
-- Index tables: run, counter, mark. They can be rebuilt from the source tables, and change.

create table artifact (
  id       integer primary key,
  key      blob not null,        -- 16 bytes a segment; the parent is the prefix
  kind     text not null,
  hash     blob not null,        -- SHA-256 of the content
  metadata blob not null,        -- canonical JSON
  content  blob,                 -- the exact bytes, or null and then:
  chunks   blob,                 -- SHA-256 of each chunk, one after the other
  crc      integer not null      -- CRC-32 of key, kind, hash, metadata and chunks
) strict;
create unique index artifact_key on artifact (key);

create table chunk (
  id   integer primary key,
  hash blob not null,            -- SHA-256 of the bytes before compression
  data blob not null             -- zstd
) strict;
create unique index chunk_hash on chunk (hash);

create table claim (
  run      blob not null,
  node     text not null,
  attempt  integer not null,
  delivery integer not null,
  role     text not null,
  key      blob not null,
  crc      integer not null,     -- CRC-32 of the columns before
  primary key (run, node, attempt, delivery, role)
) strict, without rowid;

create table template (
  template_id text not null,
  hash        blob not null,
  key         blob not null unique,
  primary key (template_id, hash)
) strict, without rowid;

create table run (
  key             blob primary key,
  workflow_run_id integer not null,
  status          text not null check (status in ('running', 'completed', 'failed', 'cancelled')),
  started_ms      integer not null,
  ended_ms        integer,
  head            blob,
  owner           text not null,
  node_ids        integer not null,  -- how many run_node_ids have been given out
  artifact_ids    integer not null,
  crc             integer not null   -- CRC-32 of the columns before
) strict, without rowid;

create table counter (name text primary key, last integer not null) strict, without rowid;
insert into counter (name, last) values ('workflow_run_id', 0);

-- A scope end without rows of its own updates this one, because an empty transaction syncs nothing.
create table mark (id integer primary key check (id = 1), count integer not null) strict;
insert into mark (id, count) values (1, 0);

create trigger artifact_stays before update on artifact begin select raise(abort, 'artifacts never change'); end;
create trigger artifact_remains before delete on artifact begin select raise(abort, 'artifacts are never removed'); end;
create trigger artifact_once before insert on artifact
when exists (select 1 from artifact where key = new.key) or exists (select 1 from artifact where id = new.id)
begin select raise(abort, 'artifact exists'); end;

create trigger chunk_stays before update on chunk begin select raise(abort, 'chunks never change'); end;
create trigger chunk_remains before delete on chunk begin select raise(abort, 'chunks are never removed'); end;
create trigger chunk_once before insert on chunk
when exists (select 1 from chunk where hash = new.hash) or exists (select 1 from chunk where id = new.id)
begin select raise(abort, 'chunk exists'); end;

create trigger claim_stays before update on claim begin select raise(abort, 'claims never change'); end;
create trigger claim_remains before delete on claim begin select raise(abort, 'claims are never removed'); end;
create trigger claim_once before insert on claim
when exists (
  select 1 from claim
  where run = new.run and node = new.node and attempt = new.attempt and delivery = new.delivery and role = new.role
)
begin select raise(abort, 'claim exists'); end;

create trigger template_stays before update on template begin select raise(abort, 'templates never change'); end;
create trigger template_remains before delete on template begin select raise(abort, 'templates are never removed'); end;
create trigger template_once before insert on template
when exists (select 1 from template where key = new.key)
  or exists (select 1 from template where template_id = new.template_id and hash = new.hash)
begin select raise(abort, 'template exists'); end;

create trigger run_stays_sealed before update on run when old.status <> 'running'
begin select raise(abort, 'a sealed run never changes'); end;
create trigger run_remains before delete on run begin select raise(abort, 'runs are never removed'); end;
create trigger run_once before insert on run when exists (select 1 from run where key = new.key)
begin select raise(abort, 'run exists'); end;

-- The reports, notes and logs of all runs, as rows. The time is the one in the key: 48 bits of milliseconds.
create view phase_artifacts as
select
  json_extract(text, '$.artifact_id') as id,
  json_extract(text, '$.run_node_id') as run_node_id,
  lower(kind) as artifact_type,
  json_extract(text, '$.content_type') as content_type,
  cast(content as text) as content,
  text as metadata,
  strftime('%Y-%m-%dT%H:%M:%fZ', (
      (instr('0123456789ABCDEF', substr(time, 1, 1)) - 1) * 17592186044416
    + (instr('0123456789ABCDEF', substr(time, 2, 1)) - 1) * 1099511627776
    + (instr('0123456789ABCDEF', substr(time, 3, 1)) - 1) * 68719476736
    + (instr('0123456789ABCDEF', substr(time, 4, 1)) - 1) * 4294967296
    + (instr('0123456789ABCDEF', substr(time, 5, 1)) - 1) * 268435456
    + (instr('0123456789ABCDEF', substr(time, 6, 1)) - 1) * 16777216
    + (instr('0123456789ABCDEF', substr(time, 7, 1)) - 1) * 1048576
    + (instr('0123456789ABCDEF', substr(time, 8, 1)) - 1) * 65536
    + (instr('0123456789ABCDEF', substr(time, 9, 1)) - 1) * 4096
    + (instr('0123456789ABCDEF', substr(time, 10, 1)) - 1) * 256
    + (instr('0123456789ABCDEF', substr(time, 11, 1)) - 1) * 16
    + (instr('0123456789ABCDEF', substr(time, 12, 1)) - 1)
  ) / 1000.0, 'unixepoch') as created_at
from (
  select kind, content, cast(metadata as text) as text, hex(substr(key, -16, 6)) as time
  from artifact where kind in ('Report', 'Note', 'Log')
);
