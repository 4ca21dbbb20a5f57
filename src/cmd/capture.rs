//! `capture`: runs a program with the library that captures its launches.

use super::{make_empty, remark, say};
use crate::cli::CaptureArgs;
use crate::injection::{explain_nothing, find_library, inject};
use build::signature::short_name;
use capture::{Capture, Request};
use report::exit::Exit;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use system::error::{Error, Result};
use system::process::how;

pub fn run(args: &CaptureArgs) -> Result<Exit> {
    let library = find_library()?;
    make_empty(
        &args.out,
        "it has files already, and a capture is a directory of its own",
    )?;
    let out = std::path::absolute(&args.out).map_err(|error| Error::at_path(&args.out, error))?;
    let request = Request {
        out: out.clone(),
        kernels: args.kernels.clone(),
        regions: args.regions.clone(),
        launches: args.launches,
        most_bytes: args.max_memory,
        random_inputs: args.random_inputs,
    };
    let (captured, ended) = run_captured(&args.command, &library, &request)?;
    say(&lay_out(&captured))?;
    ended?;
    if captured.launches().next().is_none() {
        return Err(explain_nothing(&captured, &request));
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

/// Runs a program, and reads the launches that were captured. Returns the capture, and how the program ended.
///
/// # Errors
/// Usage, if it cannot be started. Environment, if the capture cannot be read.
pub fn run_captured(
    words: &[String],
    library: &Path,
    request: &Request,
) -> Result<(Capture, Result<()>)> {
    let [program, arguments @ ..] = words else {
        return Err(
            Error::usage("no program is named").help("gatekeeper capture -- python bench.py")
        );
    };
    let mut command = Command::new(program);
    inject(command.args(arguments), library, request)?;
    let status = command.status().map_err(|error| {
        Error::usage(format!("`{program}` cannot be run: {error}"))
            .caused_by(error)
            .help("the program follows two dashes: gatekeeper capture -- python bench.py")
    })?;
    let captured =
        Capture::read(&request.out).map_err(|damage| Error::environment(damage.to_string()))?;
    let ended = if status.success() {
        Ok(())
    } else {
        Err(
            Error::environment(format!("`{program}` failed ({})", how(status)))
                .help("run it without gatekeeper to see whether it fails then, too"),
        )
    };
    Ok((captured, ended))
}

/// Returns a line for each kernel in each region, and one for each reason why launches were left out.
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
    lines.extend(lay_out_random_inputs(captured));
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

/// Returns how much of the captured memory is random, and whose is not.
fn lay_out_random_inputs(captured: &Capture) -> Vec<String> {
    let launches = captured.launches();
    let random: Vec<_> = launches
        .filter_map(|launch| Some((&launch.kernel, launch.random?)))
        .collect();
    if random.is_empty() {
        return Vec::new();
    }
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let replaced = random.iter().map(|(_, account)| account.replaced).sum();
    let mut kept: BTreeMap<String, u64> = BTreeMap::new();
    for (kernel, account) in random.iter().filter(|(_, account)| account.kept > 0) {
        *kept.entry(short_name(kernel)).or_default() += account.kept;
    }
    let mut lines = vec![format!(
        "random inputs: {} KiB. Still the program's: {} KiB",
        kib(replaced),
        kib(kept.values().sum())
    )];
    lines.extend(
        kept.iter()
            .map(|(kernel, bytes)| format!("{:>8}  KiB of {kernel}", kib(*bytes))),
    );
    lines
}

fn size_of(out: &Path) -> u64 {
    let contents = std::fs::read_dir(out.join("contents"));
    contents
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}
