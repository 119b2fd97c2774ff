// SPDX-License-Identifier: GPL-2.0-only
//! `paratick serve` where it cannot listen: what it tells is read by tests/boot/serve.rs.

use crate::support::paratick;
use assert_cmd::Command;
use std::net::TcpListener;

fn error(command: &mut Command, code: i32) -> String {
    let output = command.assert().code(code).get_output().clone();
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_port_that_is_taken_is_named_with_who_has_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let said = error(&mut paratick(&["serve", "--listen", &address.to_string()]), 69);
    assert_eq!(
        said,
        format!(
            "error: cannot listen on {address}: Address already in use (os error 98)\n\
             hint: name another port with --listen, or end who listens: ss -ltnp sport = :{}\n",
            address.port()
        )
    );
}

/// As systemd would start it.
fn passed(descriptors: &str, options: &str) -> Command {
    let program = assert_cmd::cargo::cargo_bin("paratick");
    let mut command = Command::new("sh");
    let script = format!(
        "export LISTEN_PID=$$ LISTEN_FDS={descriptors}; exec {} serve {options} 3</dev/null 4<&3",
        program.display()
    );
    command.args(["-c", &script]);
    command
}

#[test]
fn what_systemd_passes_is_one_tcp_socket() {
    let said = error(&mut passed("1", ""), 69);
    let expected =
        "error: what systemd passes is no TCP socket\nhint: set ListenStream= to ADDR:PORT";
    assert!(said.starts_with(expected), "{said}");
    let said = error(&mut passed("2", ""), 69);
    assert!(said.starts_with("error: systemd passes more than one socket\nhint: "), "{said}");
    let said = error(&mut passed("1", "--listen 127.0.0.1:10186"), 2);
    let expected = "error: --listen has no effect where systemd passes a socket\nhint: omit ";
    assert!(said.starts_with(expected), "{said}");
}
