#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-only
# activate.pl COMMAND…: runs it as systemd runs a service of Type=notify that a connection starts.
# Prints what it notifies, how it answers that connection, and how SIGTERM ends it.
use strict;
use warnings;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();

# Whatever it waits for in vain.
alarm 300;
my $notify = "/tmp/notify.$$";
my $told = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $notify) or die "notify: $!";
chmod 0777, $notify;
my $listener = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1') or die "listen: $!";
my $client = IO::Socket::INET->new('127.0.0.1:' . $listener->sockport) or die "connect: $!";

my $child = fork // die "fork: $!";
if (!$child) {
	POSIX::dup2($listener->fileno, 3);
	@ENV{'LISTEN_FDS', 'LISTEN_PID', 'NOTIFY_SOCKET'} = (1, $$, $notify);
	exec @ARGV or die "exec: $!";
}
$told->recv(my $state, 4096);
print "notified $state";
print $client "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
print while <$client>;
kill 'TERM', $child;
waitpid $child, 0;
print "ended $?\n";
unlink $notify;
