//! Writes the findings as a gates.yaml. Pure.

use super::call::{Argument, Call, Found, Match, SMALL, Tensor};
use super::probe::made_up;
use super::{Survey, Surveyed};
use build::inventory::Compilation;
use model::{Arch, Role};
use ptxsim::FindingKind;
use std::collections::BTreeSet;
use std::fmt::Write;

/// `accepts`: whether a text is a right file of gates; what is wrong with it otherwise.
/// With the number of kernels that the file has; none of it is a file that does nothing.
pub fn write(
    survey: &Survey,
    arch: Arch,
    accepts: &dyn Fn(&str) -> Result<(), String>,
) -> (String, usize) {
    let mut flags = "-O3".to_owned();
    for flag in &survey.flags {
        let _ = write!(flags, ", {}", quoted(flag));
    }
    let head = format!(
        "{SCHEMA}\n# Written by `gatekeeper init`: what nvcc lists, with sizes and launches that came to their end in the simulator.\n\
         # Run it with: gatekeeper run\n\
         #\n\
         # Yours to say, for each kernel: whether it is called so, the sizes that matter (`shapes`), and what its outputs\n\
         # are compared with. A reference that `matches` gave what the kernel does, and whether that is right is yours to\n\
         # say, too. Instead of `reference: none` write binary, unary, gemm, sdpa, softmax, layer_norm, rms_norm, reduce or\n\
         # transpose with the tensors' names, or `user` with a C function of yours (docs/gates.md). As long as a kernel has\n\
         # no reference, a run of it is inconclusive (exit code 3).\n\
         version: 1\narchitectures: [{arch}]\nflags: [{flags}]\n"
    );
    let mut names = BTreeSet::new();
    let (mut kept, mut left, mut doubtful) = (String::new(), String::new(), String::new());
    let mut count = 0;
    for kernel in &survey.kernels {
        let refused = match &kernel.call {
            Err(why) => why.clone(),
            Ok(call) => {
                let text = of_kernel(&unused(kernel, &mut names), kernel, call);
                match (accepts(&format!("{head}\nkernels:\n{text}")), &call.finding) {
                    (Ok(()), Some(finding)) => {
                        let _ = writeln!(
                            doubtful,
                            "\n  # As called here it has {}. Does it expect another launch, or other sizes?",
                            shown(&describe(finding))
                        );
                        doubtful.extend(
                            text.lines()
                                .map(|line| line.strip_prefix("  ").unwrap_or(line))
                                .map(|line| format!("  # {line}\n")),
                        );
                        continue;
                    }
                    (Ok(()), None) => {
                        count += 1;
                        kept.push('\n');
                        kept.push_str(&text);
                        continue;
                    }
                    (Err(why), _) => why,
                }
            }
        };
        let why = shown(&refused);
        let _ = writeln!(
            left,
            "# {} in {}\n#   {why}",
            shown(&kernel.signature),
            kernel.source
        );
    }
    let mut text = head;
    match &survey.commands {
        Some(Ok(path)) => {
            let _ = write!(
                text,
                "\n# Directories of headers, macros and flags are those of {}.\n",
                shown(path)
            );
        }
        Some(Err(why)) => {
            let _ = write!(text, "\n# Not used: {}\n", shown(why));
        }
        None => {}
    }
    if !left.is_empty() {
        let _ = write!(
            text,
            "\n# Not here, for no call of it was found: write these by hand (docs/gates.md).\n{left}"
        );
    }
    if !survey.broken.is_empty() {
        text.push_str("\n# Not compiled by itself; what it needs goes to `include_dirs`, `define` and `flags`:\n");
        for broken in &survey.broken {
            let _ = writeln!(text, "# {}\n#   {}", broken.source, shown(&broken.why));
        }
    }
    if survey
        .kernels
        .iter()
        .flat_map(|kernel| &kernel.compilation.include_dirs)
        .any(|dir| dir.starts_with('/'))
    {
        text.push_str(
            "\n# Whole paths in `include_dirs` are those of this machine; `${NAME}` takes them from the environment.\n",
        );
    }
    text.push_str("\nkernels:\n");
    text.push_str(kept.trim_start_matches('\n'));
    text.push_str(&doubtful);
    (text, count)
}

/// Where editors find the keys of this file, next to it.
pub const SCHEMA: &str = "# yaml-language-server: $schema=gates.schema.json";

/// `a race in each of 12 launches (k.cu:3)`
pub fn describe(found: &Found) -> String {
    let kind = match found.kind {
        FindingKind::GlobalRace | FindingKind::SharedRace | FindingKind::WarpRace => "a race",
        FindingKind::WarpHazard => "lanes of a warp that no `__syncwarp()` orders",
        FindingKind::UninitialisedGlobal
        | FindingKind::UninitialisedShared
        | FindingKind::UninitialisedLocal => "an output made of memory that nothing wrote",
        FindingKind::AsyncBeforeWait => "data that is used before its copy is waited for",
        FindingKind::ExitedBlock => "shared memory of a block that may have ended",
        FindingKind::BarrierByPart => "a barrier that threads have left out",
        FindingKind::InvalidMembers
        | FindingKind::WrongLayout
        | FindingKind::InvalidFree
        | FindingKind::Leak => "a finding of the simulator",
    };
    match found.places.first() {
        Some(place) => format!("{kind} ({})", place.at),
        None => kind.to_owned(),
    }
}

/// Characters of a text that a comment shows.
const SHOWN: usize = 160;

/// The start of what a compiler or a source says, as it may stand in a comment.
fn shown(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut shown: String = line
        .chars()
        .filter(|character| !character.is_control())
        .take(SHOWN)
        .collect();
    if line.chars().count() > SHOWN {
        shown.push_str("...");
    }
    shown
}

/// A name for a kernel that no other has.
fn unused(kernel: &Surveyed, names: &mut BTreeSet<String>) -> String {
    let own = kernel.kernel.name.split("::").last().unwrap_or_default();
    // A template's arguments may have colons.
    let own = match kernel.kernel.name.split_once('<') {
        Some((name, arguments)) => {
            format!("{}<{arguments}", name.rsplit("::").next().unwrap_or(name))
        }
        None => own.to_owned(),
    };
    let mut name = String::new();
    for c in own.chars() {
        match c.is_ascii_alphanumeric() || c == '_' {
            true => name.push(c),
            false if name.ends_with('_') => {}
            false => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_').to_owned();
    let mut numbered = name.clone();
    let mut number = 2;
    while !names.insert(numbered.clone()) {
        numbered = format!("{name}_{number}");
        number += 1;
    }
    numbered
}

fn of_kernel(name: &str, kernel: &Surveyed, call: &Call) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "  {name}:");
    let _ = writeln!(text, "    # {}", shown(&kernel.signature));
    let _ = writeln!(text, "    source: {}", quoted(&kernel.source));
    let _ = writeln!(text, "    entry: {}", quoted(&kernel.kernel.name));
    text.push_str(&of_compilation(&kernel.compilation));
    let dims: Vec<String> = call
        .dims
        .iter()
        .map(|dim| format!("{}: {}", quoted(&dim.name), dim.value))
        .collect();
    let _ = writeln!(text, "    shapes:\n      small: {{{}}}", dims.join(", "));
    if !call.is_whole {
        text.push_str("    # No launch that was tried writes all of an output: look at sizes, roles and launch.\n");
    }
    text.push_str("    tensors:\n");
    let parts = || call.arguments.iter().flat_map(Argument::parts);
    for part in parts() {
        if let Argument::Tensor(tensor) = part {
            let _ = writeln!(
                text,
                "      {}",
                of_tensor(tensor, call.reference.whole.as_ref())
            );
        }
    }
    if parts().any(|part| matches!(part, Argument::Value { .. })) {
        text.push_str("    # Numbers are made up: say those that you call it with.\n");
    }
    text.push_str("    args:\n");
    for argument in &call.arguments {
        write_argument(&mut text, 6, argument);
    }
    let grid: Vec<String> = call.grid.iter().map(|grid| quoted(grid)).collect();
    let block: Vec<String> = call.block.iter().map(u32::to_string).collect();
    let shared = match call.dynamic_shared {
        0 => String::new(),
        bytes => format!(", dynamic_shared: {bytes}"),
    };
    let _ = writeln!(
        text,
        "    launch: {{grid: [{}], block: [{}]{shared}}}",
        grid.join(", "),
        block.join(", ")
    );
    let _ = match (&call.reference.whole, call.reference.single.as_slice()) {
        (None, []) => writeln!(text, "    reference: none    # what is right?"),
        (None, single) => {
            let matched: Vec<String> = single
                .iter()
                .map(|(out, found)| format!("{out} matches {}", shown_match(found)))
                .collect();
            writeln!(
                text,
                "    # {}: a `user` reference computes several outputs.\n    reference: none    # what is right?",
                matched.join(", ")
            )
        }
        (Some(found), _) => {
            let keys: Vec<String> = found
                .keys
                .iter()
                .map(|(key, value)| match *key {
                    "axes" | "permutation" => format!("{key}: {value}"),
                    _ => format!("{key}: {}", quoted_word(value)),
                })
                .collect();
            writeln!(
                text,
                "    reference: {{{}: {{{}}}}}    # matches {}",
                found.name,
                keys.join(", "),
                shown_match(found)
            )
        }
    };
    let _ = writeln!(
        text,
        "    gates:\n      max_err: {}    # {}",
        call.max_err.value, call.max_err.because
    );
    text
}

/// `softmax (3e-9)`
fn shown_match(found: &Match) -> String {
    let error = match found.max_err {
        0.0 => "exactly".to_owned(),
        error => format!("{error:.0e}"),
    };
    format!("{} ({error})", found.computes)
}

fn of_compilation(compilation: &Compilation) -> String {
    let Compilation {
        include_dirs,
        define,
        flags,
    } = compilation;
    let list = |all: &[String]| -> String {
        let all: Vec<String> = all.iter().map(|word| quoted(word)).collect();
        all.join(", ")
    };
    let mut text = String::new();
    if !include_dirs.is_empty() {
        let _ = writeln!(text, "    include_dirs: [{}]", list(include_dirs));
    }
    if !flags.is_empty() {
        let _ = writeln!(text, "    flags: [{}]", list(flags));
    }
    if !define.is_empty() {
        let define: Vec<String> = define
            .iter()
            .map(|(name, value)| match value.parse::<i64>() {
                Ok(number) => format!("{}: {number}", quoted(name)),
                Err(_) => format!("{}: {}", quoted(name), quoted(value)),
            })
            .collect();
        let _ = writeln!(text, "    define: {{{}}}", define.join(", "));
    }
    text
}

/// A line each, with the name of what is made up.
fn write_argument(text: &mut String, indent: usize, argument: &Argument) {
    let (value, remark) = match argument {
        Argument::Tensor(tensor) => (format!("tensor: {}", quoted(&tensor.name)), None),
        Argument::Size { of, dim } => (format!("{}: {}", of.name(), quoted(dim)), None),
        Argument::Value { of, name } => {
            let value = format!("{}: {}", of.name(), made_up(*of).0);
            (value, Some(name))
        }
        Argument::Pad(bytes) => (format!("pad: {bytes}"), None),
        Argument::Struct(members) => {
            let _ = writeln!(text, "{:indent$}- struct:", "");
            for member in members {
                write_argument(text, indent + 4, member);
            }
            return;
        }
    };
    let remark = remark.map_or_else(String::new, |name| format!("    # {name}"));
    let _ = writeln!(text, "{:indent$}- {{{value}}}{remark}", "");
}

/// A value of a reference: a name, a number or a yes.
fn quoted_word(text: &str) -> String {
    if text == "true" || text.parse::<f64>().is_ok() {
        text.to_owned()
    } else {
        quoted(text)
    }
}

fn of_tensor(tensor: &Tensor, reference: Option<&Match>) -> String {
    let own = tensor.size.factors.iter();
    let count = (tensor.pointee.count > 1).then(|| tensor.pointee.count.to_string());
    let own = || own.clone().cloned().chain(count.clone()).collect();
    let matched = reference.and_then(|reference| reference.shapes.get(&tensor.name));
    let shape: Vec<String> = matched.cloned().unwrap_or_else(own);
    let of_factor = |factor: &String| match factor.parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) => quoted(factor),
    };
    let shape: Vec<String> = shape.iter().map(of_factor).collect();
    let role = match tensor.role {
        Role::In => "",
        Role::Out => "role: out, ",
        Role::Inout => "role: inout, ",
        Role::Scratch => "role: scratch, ",
        Role::Reference => "role: reference, ",
    };
    let is_drawn = tensor.role != Role::Out;
    let elem = tensor.pointee.elem;
    let fill = if is_drawn && !elem.is_float() {
        format!(", fill: {{integers: {{low: 0, high: {}}}}}", SMALL - 1)
    } else {
        String::new()
    };
    let remark = if tensor.pointee.is_known {
        ""
    } else {
        "    # bytes: of what type?"
    };
    format!(
        "{}: {{{role}type: {}, shape: [{}]{fill}}}{remark}",
        quoted(&tensor.name),
        elem.name(),
        shape.join(", ")
    )
}

/// As a word of YAML, in quotes where it may be read as something else.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.');
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.'));
    // Some readers take these for true, false or nothing.
    let taken = ["yes", "no", "on", "off", "true", "false", "null"];
    if is_word && text.chars().all(is_plain) && !taken.contains(&text.to_lowercase().as_str()) {
        text.to_owned()
    } else {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_stays_in_its_comment() {
        assert_eq!(shown("a\u{1b}[31mb\nkernels: {}"), "a[31mb");
        assert_eq!(shown(&"x".repeat(200)).len(), SHOWN + 3);
    }

    #[test]
    fn words_that_mean_something_else_are_quoted() {
        assert_eq!(quoted("src/k.cu"), "src/k.cu");
        assert_eq!(quoted("n"), "n");
        for other in ["ops::k<float, 4>", "on", "1.cu", "a b", "ceil_div(n, 2)"] {
            assert_eq!(quoted(other), format!("\"{other}\""));
        }
        assert_eq!(quoted("a\"b"), "\"a\\\"b\"");
    }
}
