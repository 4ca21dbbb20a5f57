//! Tests the page of a record in Chromium, at the width of a phone and of a desk, in a light and a dark scheme.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use judge::{Index, fixture};
use model::{Evidence, Record, Seen};
use report::ReportInput;
use report::html::render;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::process::Command;

const CHECKS: &str = include_str!("browser.js");

/// Returns a record in which one case is slower than its base, one fails, and a name would run a script.
fn record() -> Record {
    let mut record = fixture::record_against_base();
    let slow = fixture::case_id("fast", "small");
    let is_of = |piece: &Evidence| matches!(piece, Evidence::Pair { case, .. } if *case == slow);
    record.evidence.retain(|piece| !is_of(piece));
    record
        .evidence
        .extend((0..10).map(|process| Evidence::Pair {
            case: slow.clone(),
            process,
            facts: Seen::Got(fixture::pair_facts(80_000, 1.05, process)),
        }));
    fixture::slow(&mut record, &fixture::case_id("direct", "large"), 250_000);
    record.environment.commit = Some("<img src=x onerror=hacked=1>".into());
    fixture::with_tails(record)
}

fn page() -> String {
    let record = record();
    let index = Index::new(&record);
    render(&ReportInput::new(&index, &record, &index.judge()))
}

/// Returns the page with the checks as its first script, which the page's policy must allow.
fn with_checks(page: &str) -> String {
    let hash: String = base64(&Sha256::digest(CHECKS));
    let page = page.replacen("script-src '", &format!("script-src 'sha256-{hash}' '"), 1);
    assert!(page.contains(&hash));
    page.replacen("<title>", &format!("<script>{CHECKS}</script><title>"), 1)
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .map(|group| {
            let bits = (0..3).fold(0usize, |bits, at| {
                bits << 8 | usize::from(group.get(at).copied().unwrap_or(0))
            });
            let letters = [18, 12, 6, 0].map(|at| char::from(LETTERS[bits >> at & 63]));
            let kept = group.len() + 1;
            letters
                .into_iter()
                .enumerate()
                .map(|(at, letter)| if at < kept { letter } else { '=' })
                .collect::<String>()
        })
        .collect()
}

/// Returns the document that the browser makes of a file.
fn browse(dir: &Path, file: &str, settings: &str) -> String {
    let found = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let name = found.into_iter().find(is_there);
    let name = name.expect("no Chromium on PATH: apt-get install chromium");
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(name)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--window-size=1400,900",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--blink-settings={settings}"))
        .arg(format!("file://{}", dir.join(file).display()))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the answers of the checks. The page is in a frame, because the least width of a window is more than a
/// phone's.
fn answers(dir: &Path, width: u32, scheme: u32) -> serde_json::Value {
    let frame = format!(
        "<!doctype html><style>:root {{ color-scheme: light dark }}</style><pre></pre>\
         <script>addEventListener('message', (event) => {{\
         document.querySelector('pre').textContent = event.data; }});</script>\
         <iframe src='page.html' width='{width}' height='800' style='border: 0'></iframe>"
    );
    fs::write(dir.join("frame.html"), frame).unwrap();
    let dom = browse(dir, "frame.html", &format!("preferredColorScheme={scheme}"));
    let said = dom.split("<pre>").nth(1).unwrap();
    let said = said.split("</pre>").next().unwrap();
    let said = said.replace("&lt;", "<").replace("&gt;", ">");
    serde_json::from_str(&said.replace("&amp;", "&")).expect(&dom)
}

#[test]
#[ignore = "needs Chromium: cargo test --test it browser:: -- --ignored"]
fn a_page_in_chromium_at_two_widths_and_in_two_schemes() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("page.html"), with_checks(&page())).unwrap();
    if let Some(kept) = std::env::var_os("KEEP_PAGE") {
        fs::write(kept, page()).unwrap();
    }
    let mut backs = Vec::new();
    for (width, scheme) in [(390, 1), (390, 0), (1280, 1), (1280, 0)] {
        let said = answers(dir.path(), width, scheme);
        assert_eq!(said["width"], width);
        assert_eq!(said["dark"], scheme == 0);
        assert_eq!(said["overflow"], 0, "wider than the window: {said}");
        // WCAG AA requires this contrast.
        assert!(said["contrast"].as_f64().unwrap() >= 4.5, "{said}");
        assert!(said["charts"].as_u64().unwrap() >= 6, "{said}");
        assert!(said["narrowest"].as_f64().unwrap() >= 300.0, "{said}");
        assert!(said["letters"].as_f64().unwrap() >= 9.5, "{said}");
        for nothing in ["outside", "refused", "broken"] {
            assert_eq!(said[nothing], serde_json::json!([]), "{nothing}");
        }
        assert_eq!(said["images"], 0);
        assert_eq!(said["hacked"], false);
        assert_eq!((&said["cases"], &said["tools"]), (&4.into(), &1.into()));
        assert_eq!(said["rows"], 4);
        assert_eq!(said["filtered"], serde_json::json!([1, 1]));
        assert_eq!(said["passed"], serde_json::json!([2, 2]));
        // Problems come first, then the table, whose search field stays in view.
        let first: Vec<_> = said["first"].as_array().unwrap().iter().collect();
        assert!(first.len() > 1 && first[0] == "ARTICLE", "{said}");
        assert_eq!(*first[first.len() - 1], "TABLE");
        assert!(said["scrolled"].as_u64().unwrap() > 300, "{said}");
        assert_eq!(said["sticks"], 0, "{said}");
        let ascending = ["80", "83.99", "100", "250"];
        assert_eq!(said["ascending"], serde_json::json!(ascending));
        let mut descending = ascending;
        descending.reverse();
        assert_eq!(said["descending"], serde_json::json!(descending));
        backs.push(said["back"].clone());
    }
    assert_ne!(backs[0], backs[1], "a dark scheme is dark");
    assert_eq!((&backs[0], &backs[1]), (&backs[2], &backs[3]));
}

#[test]
#[ignore = "needs Chromium: cargo test --test it browser:: -- --ignored"]
fn a_page_in_chromium_without_scripts_has_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    // The page's own policy refuses the script, because it names another one now.
    let page = page().replacen("script-src 'sha256-", "script-src 'sha256-0", 1);
    fs::write(dir.path().join("page.html"), page).unwrap();
    let dom = browse(dir.path(), "page.html", "preferredColorScheme=1");
    for text in ["<svg", "k/fast@small", "Problems", "gatekeeper run"] {
        assert!(dom.contains(text), "{text}");
    }
    // A tool that does nothing without a script is not shown.
    assert!(dom.contains("class=\"tools\" hidden"), "{dom}");
    assert!(!dom.contains(">copy</button>"));
}
