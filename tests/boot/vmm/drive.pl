# SPDX-License-Identifier: GPL-2.0-only
# Runs on a host: starts QEMUs and does with them what the arguments say, one step after the other.
#
#   start NAME COMMAND-LINE   starts a QEMU; its console is printed from here on
#   wait NAME COUNT REGEX     until its console has matched as often since the last step
#   type NAME TEXT            to its console
#   monitor NAME COMMAND      and prints what it answers
#   end NAME                  kills it
#   mark TEXT                 prints it, and puts it into the host's trace
#   sh COMMAND                on the host, and prints what it says
use strict;
use warnings;
use IO::Select;
use IO::Socket::UNIX;

# Longer than anything takes by the host's clock, which leaps while nothing runs.
my $patience = 300;
my %qemu;
$| = 1;

sub syscall_ok { my $n = shift; syscall($n, @_) >= 0 or die "system call $n: $!\n" }

# vCPUs have CPUs 1 and 2.  QEMU's own threads have another, and not the one that the QEMU before
# has: a vCPU waits for them at times.
my @others = (0, 3);
sub pin {
    my ($pid, $cpu) = @_;
    syscall_ok 203, int $pid, 8, my $mask = pack "Q", 1 << $cpu;
}

sub connect_to {
    my ($name, $what) = @_;
    for (1 .. 100 * $patience) {
        my $socket = IO::Socket::UNIX->new("/tmp/$name.$what");
        return $socket if $socket;
        waitpid($qemu{$name}{pid}, 1) and die "$name has ended: $?\n";
        select undef, undef, undef, 0.01;
    }
    die "$name has no $what\n";
}

sub start {
    my ($name, $line) = @_;
    my $pid = fork // die;
    if (!$pid) {
        pin 0, $others[0];
        my @sockets = map { "-$_ unix:/tmp/$name.$_,server=on,wait=off" } "serial", "monitor";
        exec "sh", "-c", "exec $line @sockets";
    }
    @others = reverse @others;
    $qemu{$name} = { pid => $pid, text => "" };
    $qemu{$name}{$_} = connect_to($name, $_) for "serial", "monitor";
    # When it answers, it has all of its vCPUs.
    answer($name);
    for my $task (glob "/proc/$pid/task/*") {
        open my $comm, "<", "$task/comm" or next;
        my ($vcpu) = <$comm> =~ m{^CPU (\d+)/KVM} or next;
        pin $task =~ s{.*/}{}r, 1 + $vcpu;
    }
}

# What has come from a socket, if anything comes in that time; its end is an error.
sub take {
    my ($name, $what, $seconds) = @_;
    my $socket = $qemu{$name}{$what};
    IO::Select->new($socket)->can_read($seconds) or return "";
    sysread $socket, my $bytes, 65536 or die "$name has ended\n";
    $bytes =~ s/\r//g;
    if ($what eq "serial") {
        print $bytes;
        $qemu{$name}{text} .= $bytes;
    }
    $bytes
}

sub answer {
    my ($name) = @_;
    my $text = "";
    my $end = time + $patience;
    while ($text !~ /\(qemu\) $/) {
        time < $end or die "$name does not answer: $text\n";
        take($name, "serial", 0);
        $text .= take($name, "monitor", 0.01);
    }
    # Without the prompt, and what the line editor prints while the command is typed.
    $text =~ s/\(qemu\) $//;
    $text =~ s/^.*\e\[K//s;
    $text =~ s/^\s+//;
    $text
}

sub monitor {
    my ($name, $command) = @_;
    syswrite $qemu{$name}{monitor}, "$command\n";
    my $text = answer($name);
    # What it said until now belongs before what follows.
    1 while take($name, "serial", 0.01) ne "";
    print "$name: $command: $text\n";
}

sub wait_for {
    my ($name, $count, $regex) = @_;
    my $end = time + $patience;
    $qemu{$name}{text} = "";
    while ((() = $qemu{$name}{text} =~ /$regex/g) < $count) {
        time < $end or die "$name has not said $count times: $regex\n";
        take($name, "serial", 0.05);
    }
}

sub end_it {
    my ($name) = @_;
    my $gone = delete $qemu{$name};
    kill KILL => $gone->{pid};
    waitpid $gone->{pid}, 0;
}

sub mark {
    my ($text) = @_;
    print "\n== $text\n";
    open my $trace, ">", "/sys/kernel/tracing/trace_marker" or die "trace_marker: $!\n";
    syswrite $trace, "== $text\n";
}

my %steps = (
    start => sub { start(split / /, $_[0], 2) },
    wait => sub { wait_for(split / /, $_[0], 3) },
    type => sub { my ($name, $text) = split / /, $_[0]; syswrite $qemu{$name}{serial}, $text },
    monitor => sub { monitor(split / /, $_[0], 2) },
    end => sub { end_it($_[0]) },
    mark => sub { mark($_[0]) },
    sh => sub { print `$_[0]`; $? and die "$_[0]: $?\n" },
);
for (@ARGV) {
    my ($step, $rest) = split / /, $_, 2;
    eval { ($steps{$step} // die "no step $step\n")->($rest); 1 } or do {
        print "\n";
        die "$_: $@";
    };
}
end_it($_) for keys %qemu;
