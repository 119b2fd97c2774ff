// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use std::{
    net::SocketAddr,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
};

/// Whatever it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server whose sensor tells this, and how often it was asked.
fn server(told: Told, time: Duration) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, requests) = sync_channel::<Asked>(MOST);
    serve(listener, asked, time);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    thread::spawn(move || {
        for one in requests {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = one.answer.send(told.clone());
        }
    });
    (address, count)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Until the server ends the connection.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // It may end it while something is on its way to it.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_scrape_gets_the_metrics_in_the_format_that_it_reads() {
    let (address, asked) = server(Ok("m 1\n".into()), TIME);
    let answer = ask(address, GET);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let head: Vec<&str> = head.lines().collect();
    let plain = "Content-Type: text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(head, ["HTTP/1.1 200 OK", plain, "Content-Length: 4", "Connection: close"]);
    assert_eq!(body, "m 1\n");
    let accept = "GET /metrics?x=y HTTP/1.0\r\naccept: a/b\r\n\
                  ACCEPT: application/openmetrics-text\r\n\r\n";
    assert!(ask(address, accept).contains("\r\nContent-Type: application/openmetrics-text; "));
    let head = ask(address, &GET.replace("GET", "HEAD"));
    assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[test]
fn what_is_no_scrape_is_turned_away_and_asks_nobody() {
    let (address, asked) = server(Ok("m 1\n".into()), TIME);
    let long = format!("GET /metrics HTTP/1.1\r\nCookie: {}\r\n\r\n", "x".repeat(LONGEST));
    for (request, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /metrics/ HTTP/1.1\r\n\r\n", "404 Not Found"),
        (&GET.replace("GET", "POST"), "405 Method Not Allowed"),
        (&GET.replace("GET", "DELETE"), "405 Method Not Allowed"),
        ("hello\r\n\r\n", "400 Bad Request"),
        ("GET /metrics HTTP/2\r\n\r\n", "400 Bad Request"),
        ("\r\n\r\n", "400 Bad Request"),
        (&long, "431 Request Header Fields Too Large"),
    ] {
        let answer = ask(address, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}\r\n")), "{request}: {answer}");
        assert_eq!(answer.contains("\r\nAllow: GET, HEAD\r\n"), expected.starts_with("405"));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
fn why_there_are_no_metrics_is_told() {
    let (address, _) = server(Err("nothing tells".into()), TIME);
    let answer = ask(address, GET);
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.ends_with("nothing tells\n"));
}

/// Until a scrape works, that is until one of those before has ended.
fn wait_for_room(address: SocketAddr) {
    let end = Instant::now() + PATIENCE;
    while !ask(address, GET).starts_with("HTTP/1.1 200 ") {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn slow_clients_are_few_and_have_an_end() {
    let time = Duration::from_secs(8);
    let (address, _) = server(Ok("x".repeat(64 << 20).into()), time);
    // Some say nothing, and some read nothing.
    let slow: Vec<TcpStream> = (0..MOST)
        .map(|number| {
            let mut stream = connect(address);
            stream.write_all(if number % 2 == 0 { b"G" } else { GET.as_bytes() }).unwrap();
            stream
        })
        .collect();
    let mut one_more = String::new();
    let _ = connect(address).read_to_string(&mut one_more);
    assert!(one_more.starts_with("HTTP/1.1 503 "), "{one_more}");
    wait_for_room(address);
    for (number, mut stream) in slow.into_iter().enumerate() {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        // As far as the sockets' own memory holds it.
        assert!(answer.len() < 64 << 20 && answer.is_empty() == (number % 2 == 0));
    }
}
