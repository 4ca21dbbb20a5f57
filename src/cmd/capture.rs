//! `capture`: runs a program with the library that sees its launches.

use super::{make_empty, remark, say};
use crate::cli::CaptureArgs;
use build::signature::short_name;
use capture::{Capture, Request, VARIABLE};
use report::exit::Exit;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use system::error::{Error, Result};
use system::process::how;

/// Next to the program, or where a wheel has it.
const PLACES: [&str; 2] = ["", "../lib/gatekeeper"];
const LIBRARY: &str = "libgatekeeper_inject.so";

pub fn run(args: &CaptureArgs) -> Result<Exit> {
    let library = find_library()?;
    make_empty(
        &args.out,
        "it has files already, and a capture is a directory of its own",
    )?;
    let out = std::path::absolute(&args.out)
        .map_err(|error| Error::environment(format!("{}: {error}", args.out.display())))?;
    let request = Request {
        out: out.clone(),
        kernels: args.kernels.clone(),
        regions: args.regions.clone(),
        launches: args.launches,
        most_bytes: args.max_memory,
    };
    let request = serde_json::to_string(&request)
        .map_err(|error| Error::environment(format!("the request: {error}")))?;
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(
            Error::usage("no program is named").help("gatekeeper capture -- python bench.py")
        );
    };
    let status = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", preloaded(&library))
        .env(VARIABLE, request)
        .status();
    let status = status.map_err(|error| {
        Error::usage(format!("`{program}` cannot be run: {error}"))
            .help("the program follows two dashes: gatekeeper capture -- python bench.py")
    })?;
    let captured = Capture::read(&out).map_err(|damage| Error::environment(damage.to_string()))?;
    say(&lay_out(&captured))?;
    if !status.success() {
        return Err(
            Error::environment(format!("`{program}` failed ({})", how(status)))
                .help("run it without gatekeeper to see whether it fails then, too"),
        );
    }
    if captured.launches().next().is_none() {
        return Err(nothing_captured(&captured, args));
    }
    let (launches, size) = (captured.launches().count(), size_of(&out));
    remark(&format!(
        "{} in {} ({} MiB); next: gatekeeper replay {}",
        match launches {
            1 => "1 launch".to_owned(),
            count => format!("{count} launches"),
        },
        args.out.display(),
        size >> 20,
        args.out.display()
    ));
    Ok(Exit::Held)
}

fn nothing_captured(captured: &Capture, args: &CaptureArgs) -> Error {
    if captured.processes.is_empty() {
        return Error::environment("the program used no CUDA function that capture follows")
            .help("a program that is linked statically, or that runs in a container, loads no other library");
    }
    match captured.left_out().next() {
        Some(_) => Error::environment("no launch could be captured: the reasons are above"),
        None if !args.regions.is_empty() => {
            Error::usage("no launch of these kernels is in one of these regions")
                .help("a program marks them: with gatekeeper.region(\"decode\"): ...")
        }
        None if args.kernels.is_empty() => Error::environment("the program launched no kernel"),
        None => Error::usage("no launch has one of these names")
            .help("leave --kernels out to see the names of all kernels"),
    }
}

/// Ahead of libraries that are loaded this way already.
fn preloaded(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|it| !it.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

fn find_library() -> Result<PathBuf> {
    let program = std::env::current_exe()
        .map_err(|error| Error::environment(format!("gatekeeper itself: {error}")))?;
    let dir = program.parent().unwrap_or(Path::new(""));
    let mut places = PLACES.iter().map(|place| dir.join(place).join(LIBRARY));
    places.find(|path| path.is_file()).ok_or_else(|| {
        Error::environment(format!("{LIBRARY} is not next to {}", program.display()))
            .help("in a checkout, `cargo build --release` builds it, too")
    })
}

/// A line for each kernel in each region, and one for each reason why launches were left out.
fn lay_out(captured: &Capture) -> String {
    let mut kernels: BTreeMap<String, (usize, u64, u64)> = BTreeMap::new();
    for launch in captured.launches() {
        let mut kernel = short_name(&launch.kernel);
        if let Some(region) = &launch.region {
            kernel.push_str(&format!("  in {region}"));
        }
        let (count, reached, changed) = kernels.entry(kernel).or_default();
        let (more_reached, more_changed) = launch.reached();
        *count += 1;
        *reached += more_reached;
        *changed += more_changed;
    }
    let mut lines = vec![format!(
        "{:>8}  {:>12}  {:>12}  kernel",
        "launches", "reached KiB", "changed KiB"
    )];
    for (kernel, (count, reached, changed)) in kernels {
        let kib = |bytes: u64| bytes.div_ceil(1024);
        lines.push(format!(
            "{count:>8}  {:>12}  {:>12}  {kernel}",
            kib(reached),
            kib(changed)
        ));
    }
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for left_out in captured.left_out() {
        let kernels = reasons.entry(left_out.reason.to_string()).or_default();
        kernels.push(short_name(&left_out.kernel));
    }
    for (reason, kernels) in reasons {
        lines.push(format!("left out: {}", reason));
        lines.extend(kernels.iter().map(|kernel| format!("          {kernel}")));
    }
    lines.join("\n")
}

fn size_of(out: &Path) -> u64 {
    let contents = std::fs::read_dir(out.join("contents"));
    let files = contents.into_iter().flatten().flatten();
    files.filter_map(|it| Some(it.metadata().ok()?.len())).sum()
}
