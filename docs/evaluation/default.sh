#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# What docs/evaluation/2026-11-default.md is made of.  Its programs come with
# `scripts/bootstrap --with benches --with evaluation`.
#
# usage: docs/evaluation/default.sh papers|waits|others [OPTION of `paratick bench multithreaded`…]
set -e
cd "$(dirname "$0")/../.."

measure() {
	bin/paratick bench multithreaded --sizes 4 --rounds 4 --rounds-at-most 4 --repeat 1 \
	    --modes tickless-stop,tickless,paratick+nopoll,paratick "$@"
}

which=$1
shift
case $which in
papers)
	measure "$@"
	;;
waits)
	set -- --program 'sbthreads=sysbench threads --threads={threads} --events=400 \
--thread-locks=2 --time=0 run' "$@"
	set -- --program 'sbmutex=sysbench mutex --threads={threads} --mutex-num=8 \
--mutex-locks=300 --mutex-loops=200 run' "$@"
	set -- --program 'hackbench=hackbench -g 1 -f 4 -l 20' "$@"
	set -- --program 'hackpipe=hackbench -p -T -g 1 -f {threads} -l 20' "$@"
	set -- --program 'perfmsg=perf bench sched messaging -g 1 -l 10' "$@"
	set -- --program 'perfpipe=perf bench sched pipe -l 500' "$@"
	set -- --program 'perffutex=perf bench futex wake-parallel -t {threads} -w 1' "$@"
	measure "$@"
	;;
others)
	set -- --program "redis=redis-server --port 7777 --save '' --daemonize yes >/dev/null
redis-benchmark -p 7777 -q -n 600 -c 4 -t get,set; redis-cli -p 7777 shutdown nosave" "$@"
	set -- --program 'memcached=memcached -u root -d -p 7778 -t {threads} -P /tmp/mc.pid
sleep 0.1; memcslap --servers=127.0.0.1:7778 --concurrency={threads} --execute-number=100
kill $(cat /tmp/mc.pid)' "$@"
	set -- --program "sqlite=for i in 1 2 3 4; do { echo 'create table t(a); begin;'
seq 300 | sed 's/.*/insert into t values(&);/'; echo 'commit; select sum(a) from t;'
} | sqlite3 /tmp/sq.\$\$.\$i & done; wait; rm /tmp/sq.*" "$@"
	set -- --program 'java=java -XX:+UseSerialGC -Xshare:auto -version' "$@"
	set -- --program "makej=seq 40 | sed 's/.*/all: t&\\nt&:; @i=0; while [ \$\$i -lt 200 ]; \
do i=\$\$((i+1)); done; ls \\/ >\\/dev\\/null/' | make -s -f - -j{threads} all" "$@"
	set -- --program 'cyclic=cyclictest -t {threads} -i 1000 -l 100 -q -m \
--latency=1000000' "$@"
	set -- --program 'cyclic100=cyclictest -t {threads} -i 100 -d 0 -l 500 -q \
--latency=1000000' "$@"
	set -- --program 'cyclat0=cyclictest -t {threads} -i 1000 -l 100 -q -m' "$@"
	set -- --program 'ngswitch=stress-ng --switch {threads} --switch-ops 500' "$@"
	set -- --program 'ngpoll=stress-ng --poll {threads} --poll-ops 200' "$@"
	set -- --program 'ngtimerfd=stress-ng --timerfd 2 --timerfd-ops 200' "$@"
	set -- --program 'ngfutex=stress-ng --futex {threads} --futex-ops 300' "$@"
	set -- --program 'sleeps=for i in $(seq 60); do sleep 0.003; done' "$@"
	measure "$@"
	;;
*)
	sed -n '/^# usage/s/^# //p' "$0" >&2
	exit 2
	;;
esac
