//! Whole files: what they resolve to, and the messages for mistakes.

use super::*;
use disk::PathKind;
use load::Loaded;
use model::Case;
use resolve::parse;

/// Rows of `old => new, message;`, each for `check` of the module that it stands in.
macro_rules! mistakes {
    ($($old:expr => $new:expr, $said:expr;)+) => {
        $(check($old, $new, $said);)+
    };
}

mod accepted;
mod cases;
mod expect;
mod fallback;
mod files;
mod garbage;
mod gates;
mod mistakes_in_limits;
mod mistakes_in_structure;
mod mistakes_in_values;
mod programs;
mod references;
mod rivals;
mod selection;
mod simulation;
mod target;
mod tensor_maps;
mod tune;

/// A disk where what has an extension is a file.
fn disk(path: &str) -> Option<PathKind> {
    match path {
        "missing.cu" => None,
        _ if path.ends_with("/missing") => None,
        _ if path.contains('.') && path != "." => Some(PathKind::File),
        _ => Some(PathKind::Directory),
    }
}

fn environment(name: &str) -> Option<String> {
    match name {
        "TORCH_INCLUDE" => Some("/opt/torch/include".to_owned()),
        "RELATIVE" => Some("include".to_owned()),
        _ => None,
    }
}

fn read(text: &str) -> Result<Loaded, String> {
    parse("gates.yaml", text, &disk, &environment).map_err(|diagnostic| diagnostic.to_string())
}

/// A small file that is right; tests change one line of it.
const RIGHT: &str = r#"version: 1
architectures: [sm_89, sm_90]
kernels:
  scale:
    source: scale.cu
    entry: scale
    define: {TILE: 64, MODE: fast}
    variants:
      plain: {}
      wide: {define: {WIDE: 1}}
    shapes:
      small: {N: 128}
      large: {N: 4096}
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}, {f32: 0.5}]
    launch: {grid: ["ceil_div(N, TILE)"], block: [TILE]}
    reference:
      unary: {x: x, out: y, op: relu}
    gates:
      registers: 128
      max_err: 1e-6
      p50: "+2%"
"#;

/// `RIGHT` with one piece replaced.
fn with(old: &str, new: &str) -> String {
    assert_eq!(RIGHT.matches(old).count(), 1, "{old}");
    RIGHT.replace(old, new)
}

/// The message for a file that is wrong.
fn said_of(text: &str) -> String {
    match read(text) {
        Err(said) => said,
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

/// `RIGHT` with `old` replaced by `new` is refused in these words.
fn check(old: &str, new: &str, expected: &str) {
    assert_eq!(said_of(&with(old, new)), expected, "{new}");
}

fn right(old: &str, new: &str) -> Loaded {
    accepted(&with(old, new))
}

fn accepted(text: &str) -> Loaded {
    read(text).unwrap_or_else(|said| panic!("{said}\n{text}"))
}

fn case<'a>(resolved: &'a Loaded, id: &str) -> &'a Case {
    resolved
        .plan
        .cases
        .iter()
        .find(|case| case.id.to_string() == id)
        .unwrap()
}
