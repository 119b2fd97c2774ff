#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures what no bench does, by runs of the lab, and prints the file of its table.

usage: docs/evaluation/runs.py NAME >docs/evaluation/tables/NAME.json

applied: what `paratick lab halts --apply` expects of a rule and then measures; two minutes.
crossover: from which idle period on a stopped tick costs less than one that goes on (section 3.3 of
the paper).  The agent computes for 1 ms and sleeps in turn, for two seconds of virtual time, in
each of two modes; some three minutes.
events: what a program costs that looks for an event, and one that waits for it (section 6 of
"Getting maximum mileage out of tickless"), in 20 seconds of virtual time; four boots, some 4
minutes.
in-guest: the time between exits, by the record and by the emulator; a minute.
ipis: which IPIs programs on 4 vCPUs make, by the code that sends them and what their targets do;
some 10 minutes.  Needs bpftrace, sysbench, rt-tests and linux-perf.
grouped: two idle guests with timers of user space, put together in different ways, by mode; four
boots, some 15 minutes.
rare: timers of an idle guest with Debian's 6.12 that expire less than once in 30 s; a minute.
paper-starves: what the boot tests `paper` print; some 3 minutes.
pulls: tasks that balancing moves, by the kind of CPU that pulls them, in our own server and in one
on a JVM; four boots, some 5 minutes.  Needs javac.
rtla: what Debian's rtla says of a guest, beside our table of the same form; a minute.
slower-tick: what `paratick exits` predicts of a slower tick, and what comes of it; 4 minutes.
stock: Debian's kernels and the lab's, each as host and as guest; some 10 minutes, network.
model-errors: by how much the model misses the exits of `sequential`, `io` and
`multithreaded-small`, which were measured before.
matrix: every verb that observes a guest and its host, on the same kernels; some 25 minutes.
tests: what boot tests print as rows, each of a table that the row names; some 20 minutes.
windows: how late timers are in ten and twenty guests that wake up together; some 3 minutes.
"""

import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from multiprocessing.pool import ThreadPool

TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
BUILT = os.path.abspath(os.path.join(TARGET, "x86_64-unknown-linux-gnu/release"))
COMMIT = subprocess.run(
    ["git", "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
).stdout.strip()
# Of what is measured more than once.
BOOTS = {"events": 4, "grouped": 4, "pulls": 4}
PARATICK, AGENT = [os.path.join(BUILT, name) for name in ("paratick", "paratick-agent")]


def run(mode, command, options="--vcpus 1"):
    words = [PARATICK, "lab", "run", *options.split(), "--exits", "--format", "json"]
    words += ["--mode", mode, "--", *command]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def counted(result, number):
    """The window of this number: its seconds, and its exits by cause."""
    window = next(one for one in result["windows"] if number in (None, one["window"]))
    causes = {}
    for vcpu in window["vcpus"]:
        for one in vcpu["exits"]:
            causes[one["cause"]] = causes.get(one["cause"], 0) + one["count"]
    return (window["closed_ns"] - window["opened_ns"]) / 1e9, causes


def patches():
    """The series of the kernel that is measured."""
    words = run("tickless", ["true"])["host"]["qemu"]
    image = words[words.index("-kernel") + 1]
    with open(os.path.join(os.path.dirname(image), "info.json")) as file:
        return json.load(file)["patches"]


def crossover():
    for sleep in [1000, 2000, 4000, 6000, 8000, 10_000, 12_000, 14_000, 16_000, 20_000]:
        row = {"sleep_us": sleep}
        for mode in ["periodic", "tickless-stop"]:
            mix = "workload mix --work 2000 --busy-us 1000 --sleep-us"
            result = run(mode, [AGENT, *mix.split(), str(sleep)])
            # That of the workload's own marker.
            seconds, causes = counted(result, 1)
            timer = sum(causes.get(name, 0) for name in ["arm", "stop", "expiry"])
            row[mode] = round(timer / seconds, 1)
        yield row


def events():
    poll = "for(1..20/{0}){{select undef,undef,undef,{0}; -e q(/tmp/event)}}"
    wait = "pipe R,W; if(!fork){sleep 20; syswrite W,q(x); exit} sysread R,$_,1"
    for mode in ["tickless", "paratick"]:
        for what, line in [("waits", wait), (2, poll.format(2)), (0.2, poll.format(0.2))]:
            exits = []
            for _ in range(BOOTS["events"]):
                _, causes = counted(run(mode, ["perl", "-e", line]), None)
                exits.append(sum(causes.values()))
            yield {"mode": mode, "looks_every_s": what, "exits": exits}


PROGRAMS = {
    "sysbench threads": "/usr/bin/sysbench threads --threads={n} --events=400 --thread-locks=2 "
    "--time=0 run",
    "sysbench mutex": "/usr/bin/sysbench mutex --threads={n} --mutex-num=8 --mutex-locks=300 "
    "--mutex-loops=200 run",
    "hackbench, sockets": "/usr/bin/hackbench -g 1 -f 4 -l 20",
    "hackbench, pipes": "/usr/bin/hackbench -p -T -g 1 -f {n} -l 20",
    "perf, messages": "/usr/bin/perf bench sched messaging -g 1 -l 10",
    "stencil": "{agent} workload stencil --window 0 --threads {n} --work 300",
    "finelock": "{agent} workload finelock --window 0 --threads {n} --work 100",
    "warehouse": "{agent} workload warehouse --window 0 --threads {n}",
}
# The targets of @sent.
DID = {"0": "ran", "1": "polled", "2": "halted"}


def ipis():
    for name, program in PROGRAMS.items():
        for mode in ["tickless", "paratick+nopoll", "paratick"]:
            line = program.format(n=4, agent=AGENT)
            trace = ["bpftrace", "-f", "json", "-c", line, "docs/evaluation/ipis.bt"]
            result = run(mode, trace, "--parallel-clock --vcpus 4")
            row = {"program": name, "mode": mode}
            for text in result["stdout"].splitlines():
                if text.startswith('{"type"'):
                    row |= traced(json.loads(text)["data"])
            yield row


def traced(data):
    """The maps of bpftrace's that are not empty."""
    row = {}
    for key, count in data.get("@sent", {}).items():
        callback, callsite, did = key.split(",")
        what = "reschedule" if callback in ("0", "0x0") else "call"
        row.setdefault("sent", []).append([what, callsite, DID[did], count])
    for key, count in data.get("@sent_to_several", {}).items():
        row.setdefault("to_several", []).append([key.split(",")[1], count])
    if "@call" in data:
        row["calls"] = data["@call"]
    if "@halted_us" in data:
        row["halted_us"] = [[one.get("min", 0), one["count"]] for one in data["@halted_us"]]
    return row


def rows_of(tests, table):
    """What boot tests print as rows of a table."""
    cargo = [os.environ.get("CARGO", "cargo"), "test", "--release", "--locked", "--workspace"]
    cargo += ["--test", "boot", "--", *tests.split(), "--nocapture", "--test-threads", "1"]
    cargo += ["--include-ignored"]
    with subprocess.Popen(cargo, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            # The name of a test may stand before it.
            _, found, cells = line.partition(f"row of {table}: ")
            if found:
                yield json.loads(cells)
    if running.returncode:
        sys.exit(f"error: a test failed: {' '.join(cargo)}")


TESTED = """
    balance::load_that_can balance::no_idle_cpu_is_woken exit_record::hardware_noise
    exit_record::without_a_record exits::cost halt_until::timers_are_as_late idle::what_deferring
    noise::a_cpuid_is_light noise::a_program_on_an_isolated_cpu
    recording::what_recording_costs_an_exit recording::what_records_makes
    shared::a_guest_that_learns shared::timers_are_on_time shared::two_guests_on_a_pcpu
    slack::timers_with_slack unasked::a_guest_whose_tasks unasked::tasks_are_woken_up
"""


def row(table, *cells):
    """One of a table that has no form of its own: names of columns, each with its value.

    That is a text, a number, or a median and the ends of its interval.
    """
    return {"table": table, "cells": cells}


def tests(filters=TESTED):
    for name, cells in rows_of(filters, "tests"):
        yield row(name, *cells)


def in_guest():
    yield from tests("noise::every_gap_has_a_cause")


def slower_tick():
    yield from tests("exits::would::a_slower_tick")


def rtla():
    yield from tests("rtla::")


APPLIED = {"pingpong": 2000, "barrier": 1000, "sleep": 500, "exponential": 500, "block": 200}


def applied():
    for workload, work in APPLIED.items():
        words = [PARATICK, *"lab halts --mode tickless --parallel-clock".split()]
        words += ["--halt-poll", "none", "--apply=default", "--format", "json"]
        words += ["--disk", "16M", "--"] if workload == "block" else ["--"]
        words += [AGENT, "workload", workload, "--work", str(work)]
        said = subprocess.run(words, capture_output=True, text=True)
        if said.returncode not in (0, 1):
            sys.exit(said.stderr)
        verdict = json.loads(said.stdout)["applied"]["verdict"]
        blocks, polled = verdict["blocks"], verdict["polled"]
        yield row(
            "applied",
            ["", workload],
            ["blocks of each halt: before", round(blocks["before"], 3)],
            ["expected", round(blocks["predicted"], 3)],
            ["then", round(blocks["measured"], 3)],
            ["polled for each halt, ns: expected", round(polled["predicted"])],
            ["then", round(polled["measured"])],
        )


def idle_guests(folder, rounds, *options):
    """The files of `paratick bench idle`, so many boots of each mode."""
    words = [PARATICK, "bench", "idle", *options, "--rounds", str(rounds), "--output", folder]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def grouped():
    modes = ["periodic", "tickless-stop", "tickless", "paratick"]
    for how in [None, "phases", "slack", "accuracy", "grouped"]:
        options = ["--guests", "2", "--quick", "--modes", ",".join(modes)]
        options += ["--timers", how] if how else []
        with tempfile.TemporaryDirectory() as folder:
            files = idle_guests(folder, BOOTS["grouped"], *options)
            words = [PARATICK, "bench", "show", "--format", "json", *files]
            said = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
        found = {one["mode"]: one["summary"] for one in json.loads(said)["rows"]}
        for mode in modes:
            of = [(what, found[mode][what]) for what in ["wake-ups", "exits"]]
            cells = [[what, [its["median"], its["low"], its["high"]]] for what, its in of]
            yield row("grouped", ["timers", f"`{how}`" if how else "none"], ["mode", mode], *cells)


# Columns of each in a line of /proc/schedstat that begins with "domain", in their order there.
PULLED = ["busy CPUs", "idle CPUs, in ticks", "CPUs about to idle"]
GAINED, COLUMNS_OF_EACH = 4, 8


def pulled(text):
    """How many tasks each kind of CPU has pulled, by /proc/schedstat."""
    words = [line.split() for line in text.splitlines()]
    if ["version", "16"] not in words:
        sys.exit("error: this /proc/schedstat has another order of kinds than version 16")
    domains = [line[2:] for line in words if line and line[0].startswith("domain")]
    columns = [GAINED + COLUMNS_OF_EACH * kind for kind in range(len(PULLED))]
    return [sum(int(domain[column]) for domain in domains) for column in columns]


def pulls():
    moved = {"`warehouse`": [], "a JVM": []}
    with tempfile.TemporaryDirectory(dir=TARGET) as java:
        subprocess.run(["javac", "-d", java, "docs/evaluation/Warehouse.java"], check=True)
        jvm = "java -XX:+UseParallelGC -Xmx24m -Xmn8m -cp"
        programs = [f"{AGENT} workload warehouse --threads 6"]
        programs += [f"{jvm} {os.path.abspath(java)} Warehouse 6 2000"]
        stat = "cat /proc/schedstat"
        line = f"echo 1 >/proc/sys/kernel/sched_schedstats; {stat}"
        line += "".join(f" && {program} >/dev/null && echo && {stat}" for program in programs)
        for _ in range(BOOTS["pulls"]):
            options = "--parallel-clock --vcpus 4 --memory 1G"
            seen = run("periodic", ["sh", "-c", line], options)["stdout"].split("\n\n")
            seen = [pulled(text) for text in seen]
            for program, before, after in zip(moved, seen, seen[1:], strict=False):
                moved[program].append([new - old for old, new in zip(before, after, strict=True)])
    for program, boots in moved.items():
        cells = [
            [kind, [statistics.median(those), min(those), max(those)]]
            for kind, *those in zip(PULLED, *boots, strict=True)
        ]
        yield row("pulls", ["tasks pulled by", program], *cells)


def windows():
    modes = "paratick,paratick+coalesce"
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        for name in idle_guests(folder, 1, "--guests", "10,20", "--lateness", "--modes", modes):
            with open(name) as file:
                results = json.load(file)
            guests = results["plan"]["guests"]
            cells += [(guests, cell) for cell in results["cells"]]
    for guests, cell in sorted(cells, key=lambda one: one[0]):
        sample = cell["readings"]["exits"]["samples"][0]
        for of, late in sorted(sample["late"].items()):
            beyond = late["beyond_ns"]
            yield row(
                "windows",
                ["guests", guests],
                ["mode", cell["subject"]["mode"]],
                ["timers", of],
                ["expiries", late["expiries"]],
                ["late by, ms: half within", late["median_ns"] / 1e6],
                ["at most", late["most_ns"] / 1e6],
                ["beyond what is allowed", "?" if beyond is None else beyond / 1e6],
            )


def rare():
    words = [PARATICK, *"lab idle --kernel debian:6.12 --mode tickless --vcpus 1".split()]
    said = subprocess.run(
        [*words, "--for", "640s", "--format", "json"], check=True, stdout=subprocess.PIPE
    )
    said = json.loads(said.stdout)
    timers = [one for one in said["offenders"] if one["of"] == "timer"]
    most = said["window_ns"] / 30e9
    for one in sorted(timers, key=lambda one: (-one["expiries"], one["function"])):
        if one["expiries"] <= most:
            yield row(
                "rare",
                ["timer", f"`{one['function']}`"],
                ["set by", f"`{one['start']}`" if "start" in one else "–"],
                ["it is", one["class"]],
                ["expiries", one["expiries"]],
                ["wake-ups of the pCPU", one["pcpu_wakeups"]],
                ["exits for it alone", one["exits_alone"]],
            )


def paper_starves():
    both = {}
    for row in rows_of("paper::", "paper-starves"):
        both.setdefault((row["guest"], row["what"]), {})[row["mode"]] = row["value"]
    for (guest, what), modes in sorted(both.items()):
        yield {"guest": guest, "what": what} | modes


def model_errors():
    folder = os.path.join(TARGET, "evaluation")
    few = os.path.join("multithreaded-small", "multithreaded-small.json")
    needed = {"sequential": "sequential.json", "io": "io.json", "multithreaded-small": few}
    there = {name for name, file in needed.items() if os.path.exists(os.path.join(folder, file))}
    if missing := [name for name in needed if name not in there]:
        sys.exit(
            f"error: the model's errors are those in what was not measured: {', '.join(missing)}\n"
            f"hint: scripts/evaluation {' '.join(missing)} model-errors"
        )
    for bench, file in needed.items():
        bench = "4 vCPUs" if bench == "multithreaded-small" else bench
        words = [PARATICK, "model", "--from", os.path.join(folder, file), "--format", "json"]
        said = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        errors = {}
        for cell in said["cells"]:
            if cell["error"] is not None:
                errors.setdefault(cell["subject"]["mode"], []).append(cell["error"])
        for mode, those in errors.items():
            yield {
                "bench": bench,
                "mode": mode,
                "median": round(statistics.median(those), 4),
                "lowest": round(min(those), 4),
                "highest": round(max(those), 4),
                "within_10_percent": sum(abs(error) <= 0.1 for error in those),
                "cells": len(those),
            }


KERNELS = ["debian:6.1", "debian:6.12", "debian:7.3", "6.12"]
# Hosts and their guests; those of clouds have no 9p, and are no hosts.
PAIRS = [(host, guest) for host in KERNELS for guest in KERNELS]
PAIRS += [("6.12", f"debian:{series}-cloud") for series in ("6.1", "6.12", "7.3")]


def stock():
    """All of one run each: what works, and not how kernels differ."""
    for host, guest in PAIRS:
        words = ["bench", "quick", "--vcpus", "1", "--workloads", "idle,cpu,sleep"]
        words += ["--modes", "tickless", "--rounds", "1", "--repeat", "1"]
        words += ["--kernel", guest, "--host-kernel", host, "--format", "json"]
        with tempfile.TemporaryDirectory() as folder:
            words += ["--output", os.path.join(folder, "one.json")]
            out = subprocess.run([PARATICK, *words], check=True, stdout=subprocess.PIPE).stdout
        results = json.loads(out)
        environment = results["environment"]
        row = {
            "host": host,
            "guest": guest,
            "host_release": environment["host_kernel_version"],
            "guest_release": environment["kernel_version"],
            "clock": clock(environment["configuration"]["parallel_clock"]),
            "exits": {},
            "by_cause": {},
        }
        for cell in results["cells"]:
            exits = cell["readings"]["exits"]["samples"][0]["exits"]
            row["exits"][cell["workload"]] = exits["total"]
            row["by_cause"][cell["workload"]] = exits["by_cause"]
        yield row


def of_noise(said):
    parts = said["parts"]
    return {"gaps": len(said["ledger"]["entries"]), "unexplained": said["unexplained_gaps"]} | {
        "rest_ns": parts["rest"], "all_ns": sum(parts.values())
    }


def of_idle(said):
    summary = said["summary"]
    return {"exits": sum(summary["exits"].values()), "unexplained": summary["unexplained"]}


def of_timerlat(said):
    summary = said["summary"]
    counts = {"wake_ups": summary["activations"], "doubtful": summary["doubtful"]}
    return counts | {"sampler": said["sampler"]}


def of_halts(said):
    compared = [vcpu["compared"] for vcpu in said["verified"]]
    differ = [vcpu for vcpu in said["verified"] if vcpu["difference"]]
    return {"halts": said["halts"], "compared": sum(compared), "differ": len(differ)}


# Of each its words, and what is kept.
VERBS = {
    "noise": (["lab", "noise", "--for", "2s"], of_noise),
    "idle": (["lab", "idle", "--for", "5s"], of_idle),
    "timerlat": (["lab", "timerlat", "--for", "1s"], of_timerlat),
    "halts": (["lab", "halts"], of_halts),
}


def observed(host, guest, verb):
    words, kept = VERBS[verb]
    words = [PARATICK, *words, "--mode", "tickless", "--vcpus", "1", "--format", "json"]
    words += ["--kernel", guest, "--host-kernel", host]
    if host == "debian:6.1" and verb in ("idle", "halts"):
        # It cannot be emulated with CPUs that take turns.
        words.append("--parallel-clock")
    if verb == "halts":
        # There is none to see where the host does not poll.
        words += ["--halt-poll", "200000", "--", AGENT, "workload", "sleep", "--work", "200"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode == 0:
        return kept(json.loads(done.stdout))
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    error = said[-1].removeprefix("error: ") if said else "?"
    return {"code": done.returncode, "error": re.sub(r"/\S+/", "", error)}


def matrix():
    """Goes on with the cells of this commit that an interrupted run has measured."""
    cells = [(host, guest, verb) for host, guest in PAIRS for verb in VERBS]
    path = os.path.join(TARGET, "evaluation", "matrix.cells")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a+") as file, ThreadPool(2) as pool:
        file.seek(0)
        lines = map(json.loads, file)
        known = {tuple(cell): of for measured, cell, of in lines if measured == COMMIT}

        def measure(*cell):
            of = None if cell in known else observed(*cell)
            # A time limit tells of a busy machine, and not of the kernels.
            if of and "time limit" not in of.get("error", ""):
                known[cell] = of
                file.write(json.dumps([COMMIT, cell, of]) + "\n")
                file.flush()

        pool.starmap(measure, cells, chunksize=1)
    if missing := len(cells) - len(known):
        sys.exit(f"error: {missing} of {len(cells)} cells reached a time limit\n"
                 "hint: run it again on an idle machine: the others are kept")
    for host, guest in PAIRS:
        verbs = {verb: known[host, guest, verb] for verb in VERBS}
        yield {"host": host, "guest": guest} | verbs
    os.remove(path)


def clock(parallel):
    return "parallel" if parallel else "serial"


RUNS = {
    "applied": applied,
    "crossover": crossover,
    "events": events,
    "grouped": grouped,
    "in-guest": in_guest,
    "ipis": ipis,
    "matrix": matrix,
    "model-errors": model_errors,
    "paper-starves": paper_starves,
    "pulls": pulls,
    "rare": rare,
    "rtla": rtla,
    "slower-tick": slower_tick,
    "stock": stock,
    "tests": tests,
    "windows": windows,
}
# Where it is not the serial one, nor told by row.
CLOCKS = dict.fromkeys(["applied", "in-guest", "ipis", "pulls", "rtla", "slower-tick"], "parallel")
CLOCKS |= {"matrix": "each verb's", "tests": "each test's"}
if len(sys.argv) != 2 or sys.argv[1] not in RUNS:
    sys.exit(__doc__.strip())
began = datetime.datetime.now(datetime.timezone.utc)
rows = []
for one in RUNS[sys.argv[1]]():
    print(json.dumps(one), file=sys.stderr)
    rows.append(one)
clocks = {one.get("clock", CLOCKS.get(sys.argv[1], "serial")) for one in rows}
table = {
    "command": " ".join(["docs/evaluation/runs.py", sys.argv[1]]),
    "started": began.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "commit": COMMIT,
    "patches": patches(),
    "clock": " and ".join(sorted(clocks)),
    "boots": BOOTS.get(sys.argv[1], 1),
    "runs": 1,
}
text = ",\n ".join(f'"{name}": {json.dumps(value)}' for name, value in table.items())
lines = ",\n  ".join(json.dumps(one) for one in rows)
print(f'{{\n {text},\n "rows": [\n  {lines}\n ]\n}}')
