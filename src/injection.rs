//! Finds the library that captures launches, and loads it into another program.

use capture::{Capture, Request, VARIABLE};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use system::error::{Error, Result};

/// The library's directories relative to this program: next to it, or where a wheel has it.
const PLACES: [&str; 2] = ["", "../lib/gatekeeper"];
const LIBRARY: &str = "libgatekeeper_inject.so";

/// The most memory that a captured launch may reach, in bytes, if `capture` has no option for it.
pub const MOST_BYTES: u64 = 4 << 30;

/// Finds the library that captures launches next to this program.
///
/// # Errors
/// Environment, if this program was installed without it.
pub fn find_library() -> Result<PathBuf> {
    let program = std::env::current_exe().map_err(|error| {
        Error::environment(format!("gatekeeper itself: {error}")).caused_by(error)
    })?;
    let dir = program.parent().unwrap_or(Path::new(""));
    PLACES
        .iter()
        .map(|place| dir.join(place).join(LIBRARY))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            Error::environment(format!("{LIBRARY} is not next to {}", program.display()))
                .help(format!(
                    "wheel and archive have it. `cargo install` leaves it out: in the clone, cargo build --release -p inject && \
                     cp target/release/{LIBRARY} {}/",
                    dir.display()
                ))
        })
}

/// Has a program loaded with the library.
///
/// # Errors
/// Environment, if the request cannot be written down.
pub fn inject(command: &mut Command, library: &Path, request: &Request) -> Result<()> {
    let request = serde_json::to_string(request)
        .map_err(|error| Error::environment(format!("the request: {error}")).caused_by(error))?;
    command
        .env("LD_PRELOAD", preloaded(library))
        .env(VARIABLE, request);
    Ok(())
}

/// Returns the value of `LD_PRELOAD`: this library, followed by the libraries that are preloaded already.
fn preloaded(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|value| !value.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// Returns why a capture has no launches.
pub fn explain_nothing(captured: &Capture, request: &Request) -> Error {
    if captured.processes.is_empty() {
        return Error::environment("the program used no CUDA function that capture follows")
            .help("a program that is linked statically, or that runs in a container, loads no other library");
    }
    match captured.left_out().next() {
        Some(_) => Error::environment("no launch could be captured: the reasons are above"),
        None if !request.regions.is_empty() => {
            Error::usage("no launch of these kernels is in one of these regions")
                .help("a program marks them: with gatekeeper.region(\"decode\"): ...")
        }
        None if request.kernels.is_empty() => Error::environment("the program launched no kernel"),
        None => Error::usage("no launch has one of these names")
            .help("leave --kernels out to see the names of all kernels"),
    }
}
