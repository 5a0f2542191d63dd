#!/usr/bin/env python3
"""Compares Longhaul with other systems: the same client, the same calls, one system after the other in each round.

`make bench-peers` calls this. Writes peers.md and its pictures. The client is the program `bench`; this starts the
systems, reads what the kernel says of them, and counts what goes to AWS.
"""

import argparse
import collections
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import report
from counter import Counter
from report import Table
from systems import SYSTEMS, Aws, Client, Failed, Ground, Running

STEPS = (0, 1, 10)
PARTS = ("lives", "disk", "results", "kill", "start", "calls")
RUNS_NOTHING = "not a system: it runs nothing."
MIB = 1_048_576
DISK_CALLS = ("fsync", "fdatasync", "sync_file_range", "msync")
# How long there must be no call to AWS until a call counts as ended.
REST_S = 0.25


class Field:
    """The systems that are compared with each other: on this machine alone, or on AWS as the emulator has it."""

    def __init__(self, options, ground, is_on_aws):
        self.options, self.ground, self.is_on_aws = options, ground, is_on_aws
        self.systems = [system for system in options.systems if system.is_on_aws == is_on_aws]

    def table(self, title, about, columns):
        return Table(self.systems, f"On AWS: {title.lower()}" if self.is_on_aws else title, about, columns)

    def measure(self, part, tables, one, rounds=1, takes=lambda system: True):
        """Calls `one` for each system in each round, and notes which cannot be measured. Each round begins with another
        system, so that none always comes first."""
        for number in range(1, rounds + 1):
            first = number % len(self.systems)
            for system in filter(takes, self.systems[first:] + self.systems[:first]):
                print(f"{part}: round {number} of {rounds}: {system.title}", flush=True)
                folder = self.ground.data(f"{part}-{number}-{system.name}")
                try:
                    one(system, folder)
                except (Failed, OSError, subprocess.SubprocessError) as why:
                    print(f"{system.title}: {why}", flush=True)
                    for table in tables:
                        table.explain(system, f"it failed: {why}")
                self.ground.clear(system, folder)


def lives(field):
    options = field.options
    note = (
        " The emulator is one Python process that answers one request after the other. While a receive waits, it checks"
        " for messages only every 100 ms, which is most of the time of Longhaul's single calls. So these tables show"
        " how many requests a call needs, and not how long it would take on AWS." if field.is_on_aws else "")
    tables = alone, many, cost = [
        field.table("One call at a time", "From the request until the client has the result, in milliseconds. MCP's"
            f" tasks are polled at once and then every {20 if field.is_on_aws else 5} ms, so their time is rounded up to"
            f" that. The others are answered when the result is ready.{note}",
            ["0 steps, p50", "p99", "1 step, p50", "p99", "10 steps, p50", "p99"]),
        field.table("Calls per second", "With 16 and 64 in flight at a time, each on a connection of its own.",
            ["16: 0 steps, /s", "1 step, /s", "10 steps, /s", "64: 0 steps, /s", "1 step, /s", "10 steps, /s"]),
        field.table("Cost of a call", "Milliseconds of processor time per call, of all processes of the system, without the"
            " client and the emulator. The last column is their highest memory together, in MiB; shared memory counts"
            " twice.",
            ["16: 0 steps", "1 step", "10 steps", "64: 0 steps", "1 step", "10 steps", "memory, MiB"]),
    ]
    for system in field.systems:
        if not system.has_journal:
            why = "no journal, so its steps are turns of a loop, and cost nothing."
            for table in tables:
                table.explain(system, why if system.is_served else RUNS_NOTHING)

    def one(system, folder):
        with Running(system, field.ground, folder) as running:
            running.lives(1, 1, lives=20)
            for number, steps in enumerate(STEPS):
                measured = running.lives(1, steps, seconds=options.seconds)
                alone.add(system, 2 * number, measured["p50"])
                alone.add(system, 2 * number + 1, measured["p99"])
            for row, connections in enumerate((16, 64)):
                for number, steps in enumerate(STEPS):
                    before = running.cpu_s()
                    measured = running.lives(connections, steps, seconds=options.seconds)
                    column = row * len(STEPS) + number
                    many.add(system, column, measured["per_second"])
                    cost.add(system, column, (running.cpu_s() - before) * 1e3 / max(measured["count"], 1))
            cost.add(system, 2 * len(STEPS), running.memory_peak_mib())
            running.stop()

    field.measure("lives", tables, one, options.rounds, lambda system: system.is_served)
    return tables


def disk(field):
    lives, traced = 200 if field.options.quick else 1_000, 50
    table = field.table("The disk", f"Per 1,000 calls, measured with {lives}. Column *handed over*: MiB handed to the disk, by the"
        " kernel's count; a page that is written twice counts twice. Column *kept*: MiB that remain after a stop by SIGTERM,"
        " without logs. Column *waits*: waits of a call for the disk (`fsync`, `fdatasync`) when"
        f" {traced} calls run one after the other."
        " One round. Results are kept 6 h by Longhaul, a day by Restate, for ever by DBOS, 15 min by FastMCP.",
        ["1 step: handed over", "kept", "waits", "10 steps: handed over", "kept", "waits"])

    def one(system, folder):
        if not system.is_durable:
            table.explain(system, "it writes nothing.")
            return
        for number, steps in enumerate((1, 10)):
            data = field.ground.data(f"{folder.name}/{steps}")
            with Running(system, field.ground, data) as running:
                before = running.written_bytes()
                running.lives(16, steps, lives=lives)
                handed_over = running.written_bytes() - before
                try:
                    table.add(system, 3 * number + 2, waits(running, steps, traced) / traced)
                except (Failed, OSError) as why:
                    table.explain(system, f"waits could not be counted: {why}")
                running.stop()
            table.add(system, 3 * number, handed_over / MIB * 1_000 / lives)
            table.add(system, 3 * number + 1, kept_bytes(data) / MIB * 1_000 / lives)

    field.measure("disk", [table], one, takes=lambda system: not system.is_plain_call)
    table.explain(SYSTEMS["longhaul-call"], "it writes what the row above writes.")
    return [table]


def waits(running, steps, lives):
    """How often calls wait for the disk, when one follows the other."""
    with tempfile.NamedTemporaryFile("r") as counts:
        pids = [argument for pid in running.pids() for argument in ("-p", str(pid))]
        strace = ["strace", "-f", "-c", "-e", f"trace={','.join(DISK_CALLS)}", "-o", counts.name, *pids]
        with subprocess.Popen(strace, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tracer:
            # It has to find all threads.
            time.sleep(1)
            running.lives(1, steps, lives=lives)
            tracer.send_signal(2)
        return disk_calls(counts.read())


def disk_calls(printed):
    """The calls in strace's table: share, seconds, microseconds a call, calls, perhaps errors, the call's name."""
    rows = [line.split() for line in printed.splitlines()]
    return sum(int(row[3]) for row in rows if row and row[-1] in DISK_CALLS)


def kept_bytes(folder):
    """What a folder holds on the disk, in blocks of 512 bytes: what is only reserved in a file does not count."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(Running.LOG))
    return sum(path.stat().st_blocks * 512 for path in files)


def results(field):
    counts, bytes_each, counted = (0, 20, 100), 100_000, 3
    calls = 20 if field.is_on_aws else 100
    times = field.table("With long results of the same caller", "Median milliseconds until a call is accepted, and"
        f" until its first poll is answered. The caller already has 0, 20 or 100 finished tasks of {bytes_each} bytes"
        " each.",
        ["0: call", "poll", "20: call", "poll", "100: call", "poll"])
    units = field.table("Capacity with long results of the same caller", "For the same calls, without steps: units"
        f" that DynamoDB bills, KiB of bodies, and units of a poll. {counted} calls each.",
        [head for count in counts for head in (f"{count}: reads", "writes", "KiB", "poll")])

    def one(system, folder):
        if system.protocol != "tasks":
            for table in (times, units):
                table.explain(system, "it has no call that is accepted and polled.")
        elif not system.is_served:
            units.explain(system, RUNS_NOTHING)
            alone(system, folder)
        else:
            served(system, folder, field.is_on_aws and not any(of == system.name for of, _ in units.cells))

    def served(system, folder, counts_units):
        finished = 0
        for number, wanted in enumerate(counts):
            with Running(system, field.ground, folder) as running:
                running.ask("blobs", count=wanted - finished, bytes=bytes_each)
                finished = wanted
                measured = running.ask("accepted", calls=calls)
                times.add(system, 2 * number, measured["call"])
                times.add(system, 2 * number + 1, measured["poll"])
                running.stop()
            if counts_units:
                with Counter(field.ground.aws.endpoint) as counter:
                    with Running(system, field.ground, folder, through=counter.endpoint) as running:
                        for _ in range(counted):
                            life, poll = one_life(running, counter, 0)
                            row = life.read_units, life.write_units, life.bytes / 1_024, poll.read_units
                            for column, value in enumerate(row):
                                units.add(system, len(row) * number + column, value)
                        running.stop()

    def alone(system, folder):
        """The SDK's calls, among as many items of that size."""
        sdk = field.ground.aws.sdk(field.ground, system, folder)
        finished = 0
        for number, wanted in enumerate(counts):
            for finished in range(finished, wanted):
                sdk("put", f"finished-{finished}", bytes=bytes_each)
            finished = wanted
            ids = [f"call-{number}-{call}" for call in range(calls)]
            taken = [(sdk("call", id), sdk("poll", id)) for id in ids]
            for column, times_ms in enumerate(zip(*taken)):
                times.add(system, 2 * number + column, statistics.median(times_ms))

    field.measure("results", [times], one, field.options.rounds)
    return [times, units] if field.is_on_aws else [times]


def kill(field):
    lives, patience_s = 20, 60
    # A record that says `working` for ever is waited for to the end, which takes a minute each.
    rounds = 1 if field.is_on_aws else field.options.rounds
    stage = (
        "On AWS another process may still have the task, so Longhaul waits until its lease has expired: 13.5 s. SQS"
        " hides a message for whole seconds." if field.is_on_aws else
        "FastMCP is set to give up on a lost worker after 10 s (its default is 300 s).")
    table = field.table("A kill in flight", f"{lives} calls of 10 steps of 200 ms, {rounds}"
        f" round{'' if rounds == 1 else 's'}. After a second all processes of the system get SIGKILL and are started"
        " again at once. Column *all results*: seconds from then until the client has all results; 1 s of work was left."
        f" Columns *begun twice*, *done twice*: steps. Column *lost*: results that did not come within {patience_s} s. Every system"
        f" that continues begins a step in flight again (at least once). {stage} A kill is not a loss of power.",
        ["all results, s", "begun twice", "done twice", "lost"])

    def one(system, folder):
        log = folder / "steps.log"
        life = {"steps": 10, "pauseMs": 200, "log": str(log)}
        with Running(system, field.ground, folder) as running:
            ids = running.ask("begin", life=life, names=[f"life-{number}" for number in range(lives)])["ids"]
            time.sleep(1)
            running.kill()
            killed = time.monotonic()
            running.start()
            lost = running.ask("end", life=life, ids=ids, patience_s=patience_s)["lost"]
            seconds = time.monotonic() - killed
            running.stop()
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        # Without all results there is no time until they are there.
        row = seconds if lost == 0 else None, repeated(lines, "begins"), repeated(lines, "ends"), lost
        for column, value in enumerate(row):
            if value is not None:
                table.add(system, column, value)

    field.measure("kill", [table], one, rounds, lambda system: system.is_served and not system.is_plain_call)
    for system in field.systems:
        if system.is_plain_call:
            table.explain(system, "its connection is gone with the server; the task continues as in the row above.")
        elif not system.is_served:
            table.explain(system, RUNS_NOTHING)
        elif field.is_on_aws and (table.median(system, 3) or 0) > 0:
            table.explain(
                system, "the work of the killed process is not run again: its tasks stay `working`.")
    return [table]


def repeated(lines, what):
    """How many steps left more than one line that says `what`."""
    counts = collections.Counter(line for line in lines if f" {what} " in line)
    return sum(1 for count in counts.values() if count > 1)


def start(field):
    lives = 100 if field.is_on_aws or field.options.quick else 500
    table = field.table("Start", "Milliseconds from the start of the processes until the client has its first result."
        f" Column *again*: on the data of {lives} calls of one step, after a stop by SIGTERM.",
        ["without data", "again"])

    def one(system, folder):
        if not system.is_served:
            table.explain(system, RUNS_NOTHING)
            return
        with Running(system, field.ground, folder) as running:
            without_data = running.first_result_s
            running.lives(4, 1, lives=lives)
            running.stop()
            running.start()
            for column, seconds in enumerate((without_data, running.first_result_s)):
                table.add(system, column, seconds * 1e3)
            running.stop()

    field.measure("start", [table], one, field.options.rounds)
    return [table]


def calls(field):
    lives, idle_s = 10, 3 if field.options.quick else 20
    tables = called, capacity, kib = [
        field.table("Requests of a call", f"Requests to DynamoDB and SQS, from {lives} calls one after the other. A call"
            " counts until its result is recorded and the system rests, without polls. The other columns are a poll of"
            " a completed task, and an idle minute. A proxy before the emulator counts them, including retries."
            " Receives without a message count only in the last column. Longhaul runs as a container, which receives"
            " and deletes its messages itself. For functions, Lambda does that, and SQS bills it likewise.",
            ["0 steps: DynamoDB", "SQS", "1 step: DynamoDB", "SQS", "10 steps: DynamoDB", "SQS", "a poll",
             "a minute at rest"]),
        field.table("Capacity of a call", "Billed units of DynamoDB for the same calls and polls. Writes are as the emulator"
            " reports them (`ReturnConsumedCapacity`), by the sizes of items, twice in transactions. Reads are computed"
            " from the sizes of the read items, since the emulator reports the same for every size.",
            ["0 steps: writes", "reads", "1 step: writes", "reads", "10 steps: writes", "reads", "a poll: reads"]),
        field.table("Bytes of a call", "KiB of request and answer bodies of the same calls and polls, as compact JSON."
            " Columns *kept*: KiB that a call leaves in the table until it expires.",
            ["0 steps, KiB", "1 step", "10 steps", "a poll", "kept: 0 steps", "1 step", "10 steps"]),
    ]

    def add(system, number, life, poll):
        called.add(system, 2 * number, life.dynamo / lives)
        called.add(system, 2 * number + 1, life.sqs / lives)
        capacity.add(system, 2 * number, life.write_units / lives)
        capacity.add(system, 2 * number + 1, life.read_units / lives)
        kib.add(system, number, life.bytes / 1_024 / lives)
        if poll.operations and number == 0:
            called.add(system, 6, (poll.dynamo + poll.sqs) / lives)
            capacity.add(system, 6, poll.read_units / lives)
            kib.add(system, 3, poll.bytes / 1_024 / lives)
        if life.unsure + poll.unsure:
            capacity.explain(system, "some of its reads show less than they read; their units are at least these.")

    def one(system, folder):
        with Counter(field.ground.aws.endpoint) as counter:
            (served if system.is_served else alone)(system, folder, counter)

    def served(system, folder, counter):
        with Running(system, field.ground, folder, through=counter.endpoint) as running:
            for _ in range(3):
                one_life(running, counter, 1)
            operations = []
            for number, steps in enumerate(STEPS):
                before = field.ground.aws.kept_bytes(folder)
                measured = [one_life(running, counter, steps) for _ in range(lives)]
                life, poll = (sum(tallies[1:], tallies[0]) for tallies in zip(*measured))
                kib.add(system, 4 + number, (field.ground.aws.kept_bytes(folder) - before) / 1_024 / lives)
                operations.append(f"{steps} step{'' if steps == 1 else 's'}: {each(life)}")
                add(system, number, life, poll)
                if number == 0 and poll.operations:
                    operations.insert(0, f"A poll: {each(poll)}")
            time.sleep(idle_s)
            rest = counter.take()
            called.add(system, 7, (rest.dynamo + rest.sqs + rest.empty) * 60 / idle_s)
            called.explain(system, f"{'. '.join(operations)}.")
            running.stop()

    def alone(system, folder, counter):
        """The SDK's requests, counted like a call."""
        sdk = field.ground.aws.sdk(field.ground, system, folder, through=counter.endpoint)
        taken = []
        for number in range(lives):
            sdk("call", f"counted-{number}")
            life = counter.take()
            sdk("poll", f"counted-{number}")
            taken.append((life, counter.take()))
        life, poll = (sum(tallies[1:], tallies[0]) for tallies in zip(*taken))
        add(system, 0, life, poll)
        called.explain(
            system, f"{RUNS_NOTHING} Its figures are those of the call: {each(life)}; the poll: {each(poll)}.")

    def each(tally):
        counts = sorted(tally.operations.items())
        return ", ".join(f"{operation} {count / lives:.1f}".removesuffix(".0") for operation, count in counts)

    field.measure("calls", tables, one)
    return tables


def one_life(running, counter, steps):
    """One call until the system rests, and one poll of it."""
    life = {"steps": steps, "pauseMs": 0}
    counter.rests(REST_S)
    counter.take()
    if running.system.protocol != "tasks":
        running.lives(1, steps, lives=1)
        counter.rests(REST_S)
        return counter.take(), counter.take()
    [id] = running.ask("begin", life=life, names=[None])["ids"]
    counter.rests(REST_S)
    taken = counter.take()
    running.ask("poll", life=life, id=id)
    counter.rests(REST_S / 5)
    return taken, counter.take()


def arguments():
    choices = list(SYSTEMS)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", required=True, type=pathlib.Path, help="the program bench")
    parser.add_argument("--tools", required=True, type=pathlib.Path,
                        help="where the peers' programs are: what `scripts/setup-tools.sh peers` installs")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="where the report and its pictures are written")
    parser.add_argument("--only", metavar="SYSTEM,…", help=f"compare only these of {', '.join(choices)}")
    parser.add_argument("--parts", metavar="PART,…", help=f"measure only these of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=3, help="each figure is the median over so many rounds")
    parser.add_argument("--seconds", type=float, default=1, help="how long each measurement of a round takes")
    parser.add_argument("--quick", action="store_true", help="one short round: shows whether everything works")
    parser.add_argument("--dir", type=pathlib.Path,
                        help="where the systems store their data; a disk, not memory; next to bench by default")
    options = parser.parse_args()
    asked = [("--only", options.only, None), ("--parts", options.parts, None), ("--rounds", options.rounds, 3),
             ("--seconds", options.seconds, 1)]
    options.asked = " ".join([f"{name} {value}" for name, value, usual in asked if value != usual]
                             + ["--quick"] * options.quick)
    for name, known in (("only", choices), ("parts", PARTS)):
        chosen = getattr(options, name).split(",") if getattr(options, name) else known
        if unknown := set(chosen) - set(known):
            parser.error(f"--{name} does not know {', '.join(sorted(unknown))}")
        setattr(options, name, [one for one in known if one in chosen])
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds are above 0")
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    for path in (options.bench, options.tools):
        if not path.exists():
            parser.error(f"{path} is missing; run `make bench-peers`")
    options.systems = [SYSTEMS[name] for name in options.only]
    return options


def main():
    options = arguments()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="peers-", dir=options.dir or options.bench.parent)).resolve()
    aws = Aws.found() if any(system.is_on_aws for system in options.systems) else None
    ground = Ground(folder, options.tools.resolve(), options.bench.resolve(), aws)
    tables = []
    try:
        for is_on_aws in (False, True):
            field = Field(options, ground, is_on_aws)
            for part in options.parts if field.systems else []:
                if (part, is_on_aws) not in (("disk", True), ("calls", False)):
                    tables += globals()[part](field)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.write(options, ground, tables)


if __name__ == "__main__":
    main()
