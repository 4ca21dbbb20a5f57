//! Tests the edit loop: after a file is saved, the verdict is printed.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{binary, edit, project, simulate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Waits for a line with each of these texts, in any order, because two streams have none.
fn await_lines(lines: &Receiver<String>, wanted: &[&str]) -> Vec<String> {
    let mut wanted = wanted.to_vec();
    let mut seen = Vec::new();
    while !wanted.is_empty() {
        let line = lines.recv_timeout(Duration::from_secs(60));
        let line = line.unwrap_or_else(|_| panic!("no line with {wanted:?}"));
        wanted.retain(|word| !line.contains(word));
        seen.push(line);
    }
    seen
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
    await_lines(&lines, &["PASS: ", "watching "]);
    let gates = dir.join("gates.yaml");
    // A mistake is reported, and does not end the loop.
    edit(&gates, "version: 1", "version: 7");
    await_lines(&lines, &["changed: ", "unknown version 7", "watching "]);
    edit(&gates, "version: 7", "version: 1");
    await_lines(&lines, &["changed: ", "PASS: ", "watching "]);
    let right = "y[i] = staged[255 - threadIdx.x];";
    edit(
        &dir.join("copy.cu"),
        right,
        "y[i] = 2 * staged[255 - threadIdx.x];",
    );
    let seen = await_lines(&lines, &["changed: ", "FAIL: ", "watching "]);
    let changed = seen.iter().find(|line| line.contains("changed: "));
    assert!(changed.unwrap().contains("copy.cu"));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
