#!/usr/bin/perl
# Staff portal: serves one page until the new web server takes over.
use strict;
use warnings;
use IO::Socket::INET;
use POSIX qw(setsid);

my $port      = 80;
my $page_file = '/opt/staff-portal/index.html';

my $server = IO::Socket::INET->new(
    LocalPort => $port,
    Listen    => 64,
    ReuseAddr => 1,
) or die "cannot listen on port $port: $!\n";

defined(my $pid = fork) or die "cannot fork: $!\n";
exit 0 if $pid;
setsid;
$SIG{PIPE} = 'IGNORE';

while (1) {
    my $client = $server->accept or next;
    while (defined(my $line = <$client>)) {
        last if $line =~ /^\r?$/;
    }
    open my $file, '<', $page_file or next;
    my $page = do { local $/; <$file> };
    print $client "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
        "Content-Length: ", length $page, "\r\nConnection: close\r\n\r\n", $page;
    close $client;
}
