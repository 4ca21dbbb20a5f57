//! The edit loop: save, and the verdict is there.

#![allow(clippy::unwrap_used)]

mod common;

use common::{binary, edit, project, simulate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The next line that has this in it.
fn await_line(lines: &Receiver<String>, wanted: &str) -> String {
    loop {
        let line = lines.recv_timeout(Duration::from_secs(60));
        let line = line.unwrap_or_else(|_| panic!("no line with `{wanted}`"));
        if line.contains(wanted) {
            return line;
        }
    }
}

fn lines_of(from: impl Read + Send + 'static, to: std::sync::mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
}

#[test]
fn a_save_flips_the_verdict_and_ctrl_c_ends_it() {
    let project = project();
    let dir = project.path();
    simulate(dir, &["copy"], 0);
    let mut child = Command::new(binary())
        .current_dir(dir)
        .args(["run", "--device", "sim", "--watch", "copy"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (to, lines) = channel();
    lines_of(child.stdout.take().unwrap(), to.clone());
    lines_of(child.stderr.take().unwrap(), to);
    await_line(&lines, "PASS: ");
    await_line(&lines, "watching ");
    let gates = dir.join("gates.yaml");
    // A mistake is said, and does not end it.
    edit(&gates, "version: 1", "version: 7");
    await_line(&lines, "unknown version 7");
    await_line(&lines, "watching ");
    edit(&gates, "version: 7", "version: 1");
    await_line(&lines, "changed: ");
    await_line(&lines, "PASS: ");
    await_line(&lines, "watching ");
    let right = "y[i] = staged[255 - threadIdx.x];";
    edit(
        &dir.join("copy.cu"),
        right,
        "y[i] = 2 * staged[255 - threadIdx.x];",
    );
    assert!(await_line(&lines, "changed: ").contains("copy.cu"));
    await_line(&lines, "FAIL: ");
    await_line(&lines, "watching ");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
