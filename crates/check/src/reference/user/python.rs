//! Runs a reference in Python: a function over NumPy arrays, in a confined process as a C function is. runner.py
//! imports and calls it. This module finds out what it is made of, and describes its arguments.

use super::arguments::{Param, stored};
use super::{
    Build, Functions, LARGEST_FILE, MOST_OUTPUT, NoAnswer, ReferenceProgram, output, rules,
    run_confined,
};
use build::apart::FileRead;
use build::toolchain::clean_command;
use model::Number;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use system::cache::write_atomically;
use system::files;
use system::process;
use system::temporary::TemporaryDir;

const RUNNER: &str = include_str!("runner.py");

/// The longest time that the imports may take. Importing PyTorch takes ten seconds if no cache has it.
const IMPORT: Duration = Duration::from_secs(120);

/// The exit code of runner.py if the Python lacks something.
const PYTHON_LACKS: i32 = 4;

impl Functions {
    /// Imports the file once, to see that the function is there and what it is made of.
    pub(super) fn load(&self, build: &Build, function: &str) -> Result<ReferenceProgram, NoAnswer> {
        let what = format!("the reference `{function}` in {}", build.source);
        let scratch = TemporaryDir::new_in(&self.programs).map_err(|error| self.broken(&error))?;
        let python = self.find_python(&what, scratch.path())?;
        let before = SystemTime::now();
        let read = FileRead::read_since(&self.root, &build.source, before);
        let source = files::read(&self.root.join(&build.source), files::SOURCE)
            .map_err(|error| NoAnswer::Reference(format!("{}: {error}", build.source)))?;
        self.note_read(build, read);
        let arguments = vec![
            "-I".into(),
            "-B".into(),
            self.keep(RUNNER.as_bytes())?.into_os_string(),
        ];
        let file = vec![
            self.keep(&source)?.into_os_string(),
            build.source.clone().into(),
            function.into(),
        ];
        let listing = scratch.path().join("listing");
        let mut probe = clean_command(&python);
        probe
            .current_dir(scratch.path())
            .args(&arguments)
            .arg("probe")
            .args(&file)
            .arg(&listing);
        let writes = [scratch.path()];
        // The files that it imports are not known yet, so nothing can be hidden.
        let ended = run_confined(probe, &rules(&writes, None, Some(LARGEST_FILE)), IMPORT)
            .map_err(|why| why.into_answer(&what, IMPORT))?;
        if ended.status.code() == Some(PYTHON_LACKS) {
            return Err(NoAnswer::Environment(format!(
                "{what}: {}",
                ended.log.trim_end()
            )));
        }
        output(ended, &what)?;
        let mut hasher = blake3::Hasher::new();
        for part in [RUNNER.as_bytes(), &source, function.as_bytes()] {
            hasher.update(blake3::hash(part).as_bytes());
        }
        let mut hidden = self.hidden.programs.clone();
        for file in read_listing(&listing).map_err(|error| {
            NoAnswer::Reference(format!("{what} left no list of imports: {error}"))
        })? {
            let read = FileRead::read_since(&self.root, &file, before);
            let Some(digest) = &read.digest else {
                let file = file.display();
                return Err(NoAnswer::Environment(format!(
                    "{what}: {file} changes meanwhile"
                )));
            };
            hasher.update(digest.as_bytes());
            if let Some(hidden) = &mut hidden {
                hidden.but.push(read.real.clone());
            }
            self.note_read(build, read);
        }
        Ok(ReferenceProgram {
            executable: python,
            arguments: [arguments, vec!["call".into()], file].concat(),
            identity: hasher.finalize().to_hex().to_string(),
            scratch: self.programs.clone(),
            hidden: hidden.map(Arc::new),
        })
    }

    /// Finds the program itself, because `python3` on PATH may be a script that searches for it at every start. The
    /// search is confined, because Python starts with whatever is in an environment that the checkout may contain.
    fn find_python(&self, what: &str, scratch: &Path) -> Result<PathBuf, NoAnswer> {
        let lacking =
            |why: String| NoAnswer::Environment(format!("{what} needs python3 with NumPy: {why}"));
        let named = self.python.as_deref();
        let named = named.ok_or_else(|| lacking("there is no python3 on PATH".to_owned()))?;
        let mut ask = clean_command(named);
        ask.env("TMPDIR", scratch)
            .args(["-I", "-B", "-c", "import sys; print(sys.executable)"]);
        let ended =
            process::run_confined(ask, &rules(&[scratch], None, Some(0)), IMPORT, MOST_OUTPUT)
                .map_err(|error| lacking(format!("{}: {error}", named.display())))?;
        let said = ended.map(|ended| (ended.status.success(), ended.log));
        match said {
            Some((true, log)) if Path::new(log.trim()).is_absolute() => Ok(log.trim().into()),
            said => {
                let log = said.map(|(_, log)| log).unwrap_or_default();
                Err(lacking(format!(
                    "{} does not start: {}",
                    named.display(),
                    log.trim_end()
                )))
            }
        }
    }

    /// Keeps a copy in the cache, because the process may not be able to read the tree.
    fn keep(&self, content: &[u8]) -> Result<PathBuf, NoAnswer> {
        let name = format!("{}.py", blake3::hash(content).to_hex());
        let file = self.programs.join(name);
        write_atomically(&file, content)
            .map_err(|error| NoAnswer::Environment(error.to_string()))?;
        Ok(file)
    }
}

/// Reads a listing that a program of the tree wrote.
fn read_listing(listing: &Path) -> std::io::Result<Vec<PathBuf>> {
    let bytes = files::read(listing, files::made())?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Describes each argument in JSON, for [`RUNNER`].
pub fn describe(params: &[Param]) -> OsString {
    let array = |elem: Number, shape: Value| json!({"kind": "array", "type": numpy_type(elem), "shape": shape, "given": true, "returned": false});
    Value::Array(
        params
            .iter()
            .map(|param| match param {
                Param::Tensor(tensor) => json!({
                    "kind": "array",
                    "name": tensor.name,
                    "type": numpy_type(stored(tensor).number()),
                    "shape": tensor.value_dims(),
                    "given": tensor.role.is_drawn(),
                    "returned": tensor.role.is_result(),
                }),
                Param::Scales(_) => array(Number::Float(4), json!([-1])),
                Param::ZeroPoints(_) => array(Number::Signed(4), json!([-1])),
                Param::Bytes(_) => array(Number::Unsigned(1), json!([-1])),
                Param::Null => json!({"kind": "null", "given": true, "returned": false}),
                Param::Scalar(elem, _) => json!({
                    "kind": "scalar",
                    "type": numpy_type(elem.number()),
                    "given": true,
                    "returned": false,
                }),
            })
            .collect(),
    )
    .to_string()
    .into()
}

/// Returns NumPy's name of a type (<https://numpy.org/doc/stable/reference/arrays.interface.html>). Small floats are
/// passed as f32, as in C.
fn numpy_type(number: Number) -> String {
    match number {
        Number::Bool => "|b1".to_owned(),
        Number::Signed(bytes) => format!("<i{bytes}"),
        Number::Unsigned(bytes) => format!("<u{bytes}"),
        Number::Float(8) => "<f8".to_owned(),
        Number::Float(_) => "<f4".to_owned(),
    }
}
