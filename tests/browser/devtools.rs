// SPDX-License-Identifier: GPL-2.0-only
//! A headless Chromium, spoken to over a pipe: messages of JSON, each ended by a zero byte.

use serde_json::{json, Value};
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc,
    time::Duration,
};
use tempfile::TempDir;

/// How long a browser may take for all that is asked of it.
const LIMIT: Duration = Duration::from_secs(240);

/// `$PARATICK_CHROMIUM`, or Chromium on the path.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PARATICK_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let programs = ["chromium", "chromium-browser", "google-chrome"];
    let files =
        programs.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    messages: u64,
    _profile: TempDir,
    _ends_the_limit: mpsc::Sender<()>,
}

impl Browser {
    pub fn start(program: &Path) -> Browser {
        let profile = TempDir::new().unwrap();
        // Chromium reads from 3 and writes to 4.
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(r#"exec 3<&0 4>&1 </dev/null >/dev/null; exec "$@""#)
            .arg("sh")
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut browser = Browser {
            _ends_the_limit: limit(child.id()),
            child,
            input,
            output: BufReader::new(output),
            session: None,
            messages: 0,
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_string);
        browser.ask("Page.enable", json!({}));
        browser
    }

    /// Shows a file, in a window so wide.
    pub fn open(&mut self, file: &Path, width: u32, dark: bool) {
        let mobile = width < 800;
        let metrics =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile });
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let theme = if dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": theme });
        self.ask("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
        let url = format!("file://{}", file.display());
        let shown = self.ask("Page.navigate", json!({ "url": url }));
        assert_eq!(shown.get("errorText"), None, "{shown}");
        while self.receive()["method"] != "Page.loadEventFired" {}
    }

    /// The value of an expression of JavaScript.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let question = json!({ "expression": expression, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", question);
        assert_eq!(answer.get("exceptionDetails"), None, "{answer}");
        answer["result"]["value"].clone()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.messages += 1;
        let mut message = json!({ "id": self.messages, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == self.messages {
                assert_eq!(answer.get("error"), None, "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.output.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser has ended, or took longer than {LIMIT:?}");
        serde_json::from_slice(&message).unwrap()
    }
}

/// Ends the process when the time is over, unless what is returned is dropped before.
fn limit(process: u32) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if receiver.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").arg(process.to_string()).status();
        }
    });
    sender
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
