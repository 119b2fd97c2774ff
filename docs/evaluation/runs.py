#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures what no bench does, by runs of the lab, and prints the file of its table.

usage: docs/evaluation/runs.py crossover AGENT >docs/evaluation/tables/crossover.json
       docs/evaluation/runs.py events >docs/evaluation/tables/events.json
       docs/evaluation/runs.py ipis AGENT >docs/evaluation/tables/ipis.json

crossover: from which idle period on a stopped tick costs less than one that goes on (section 3.3 of
the paper).  AGENT is the built paratick-agent.  It computes for 1 ms and sleeps in turn, for two
seconds of virtual time, in each of two modes; some three minutes.
events: what a program costs that looks for an event, and one that waits for it (section 6 of
"Getting maximum mileage out of tickless"), in 20 seconds of virtual time; a minute.
ipis: which IPIs programs on 4 vCPUs make, by the code that sends them and what their targets do;
some 10 minutes.  Needs bpftrace, sysbench, rt-tests and linux-perf.
"""

import datetime
import json
import os
import subprocess
import sys


def run(mode, command, options="--vcpus 1"):
    words = ["bin/paratick", "lab", "run", *options.split(), "--exits", "--format", "json"]
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


def patches(result):
    words = result["host"]["qemu"]
    image = words[words.index("-kernel") + 1]
    with open(os.path.join(os.path.dirname(image), "info.json")) as file:
        return json.load(file)["patches"]


def crossover(agent):
    for sleep in [1000, 2000, 4000, 6000, 8000, 10_000, 12_000, 14_000, 16_000, 20_000]:
        row = {"sleep_us": sleep}
        for mode in ["periodic", "tickless-stop"]:
            mix = "workload mix --work 2000 --busy-us 1000 --sleep-us"
            result = run(mode, [agent, *mix.split(), str(sleep)])
            # That of the workload's own marker.
            seconds, causes = counted(result, 1)
            timer = sum(causes.get(name, 0) for name in ["arm", "stop", "expiry"])
            row[mode] = round(timer / seconds, 1)
        yield result, row


def events():
    poll = "for(1..20/{0}){{select undef,undef,undef,{0}; -e q(/tmp/event)}}"
    wait = "pipe R,W; if(!fork){sleep 20; syswrite W,q(x); exit} sysread R,$_,1"
    for mode in ["tickless", "paratick"]:
        for what, line in [("waits", wait), (2, poll.format(2)), (0.2, poll.format(0.2))]:
            result = run(mode, ["perl", "-e", line])
            _, causes = counted(result, None)
            yield result, {"mode": mode, "looks_every_s": what, "exits": sum(causes.values())}


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


def ipis(agent):
    for name, program in PROGRAMS.items():
        for mode in ["tickless", "paratick+nopoll", "paratick"]:
            line = program.format(n=4, agent=agent)
            trace = ["bpftrace", "-f", "json", "-c", line, "docs/evaluation/ipis.bt"]
            result = run(mode, trace, "--parallel-clock --vcpus 4")
            row = {"program": name, "mode": mode}
            for text in result["stdout"].splitlines():
                if text.startswith('{"type"'):
                    row |= traced(json.loads(text)["data"])
            yield result, row


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


KINDS = {"crossover": (crossover, 1), "events": (events, 0), "ipis": (ipis, 1)}
if len(sys.argv) < 2 or len(sys.argv) - 2 != KINDS.get(sys.argv[1], (None, -1))[1]:
    sys.exit(__doc__.strip())
rows = []
for result, row in KINDS[sys.argv[1]][0](*sys.argv[2:]):
    print(json.dumps(row), file=sys.stderr)
    rows.append(row)
commit = subprocess.run(
    ["git", "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
)
table = {
    "command": " ".join(["docs/evaluation/runs.py", sys.argv[1]]),
    "started": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "commit": commit.stdout.strip(),
    "patches": patches(result),
    "clock": "parallel" if sys.argv[1] == "ipis" else "serial",
    "boots": 1,
    "runs": 1,
}
text = ",\n ".join(f'"{name}": {json.dumps(value)}' for name, value in table.items())
lines = ",\n  ".join(json.dumps(row) for row in rows)
print(f'{{\n {text},\n "rows": [\n  {lines}\n ]\n}}')
