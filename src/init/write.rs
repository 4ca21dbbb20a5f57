//! Writes kernels with their calls as a gates.yaml, and kernels without a call as comments. Pure.

use super::call::{Argument, Call, Integers, Tensor, UnknownCall};
use super::probe::made_up;
use super::{Survey, Surveyed};
use build::inventory::{Compilation, ListedKernel, Member, ParameterKind};
use build::signature::whole_name;
use model::{Arch, Role};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The most variants that one kernel gets. Further instances are counted in a comment.
const MOST_VARIANTS: usize = 12;

/// The text that is written for kernels, and the names in it.
#[derive(Clone, Debug, Default)]
pub struct WrittenKernels {
    /// The text below `kernels:`. Kernels with a call come first.
    pub text: String,
    /// The kernels that have a call.
    pub called: Vec<WrittenKernel>,
    /// The names of the kernels that are comments.
    pub todo: Vec<String>,
}

/// A kernel of the file, with the surveyed kernels that it stands for: the instances of a template.
#[derive(Clone, Debug)]
pub struct WrittenKernel {
    pub name: String,
    pub kernels: Vec<usize>,
    pub has_reference: bool,
}

/// The comment that tells editors where the schema of this file is.
pub const SCHEMA: &str = "# yaml-language-server: $schema=gates.schema.json";

/// Returns the beginning of a file, up to the line `kernels:`.
pub fn head(survey: &Survey, arch: Arch, is_of_program: bool) -> String {
    let origin = if is_of_program {
        "`gatekeeper init --program`: the calls that the program made"
    } else {
        "`gatekeeper init` from the sources: their launches, and the names of sizes"
    };
    let mut flags = "-O3".to_owned();
    for flag in &survey.flags {
        let _ = write!(flags, ", {}", quoted(flag));
    }
    let mut text = format!(
        "{SCHEMA}\n# Written by {origin}. Run it with: gatekeeper run\n\
         #\n\
         # Yours to say, for each kernel: the sizes that matter (`shapes`), and what its outputs are compared with. A reference\n\
         # that `matches` gives what the kernel does; whether that is right is yours to say. Instead of `reference: none` name\n\
         # a built-in one, or `user` with a function of yours (docs/gates.md). A kernel without a reference is inconclusive.\n\
         version: 1\narchitectures: [{arch}]\nflags: [{flags}]\n"
    );
    let _ = match &survey.commands {
        Some(Ok(path)) => writeln!(
            text,
            "\n# Directories of headers, macros and flags are those of {}.",
            shown(path)
        ),
        Some(Err(why)) => writeln!(text, "\n# Not used: {}", shown(why)),
        None => Ok(()),
    };
    if !survey.broken.is_empty() {
        text.push_str("\n# Not compiled by itself; what it needs goes to `include_dirs`, `define` and `flags`:\n");
        for broken in &survey.broken {
            let _ = writeln!(text, "# {}\n#   {}", broken.source, shown(&broken.why));
        }
    }
    let dirs = survey
        .kernels
        .iter()
        .flat_map(|kernel| &kernel.compilation.include_dirs);
    if dirs.into_iter().any(|dir| dir.starts_with('/')) {
        text.push_str(
            "\n# Whole paths in `include_dirs` are those of this machine; `${NAME}` takes them from the environment.\n",
        );
    }
    text + "\nkernels:\n"
}

/// Writes the kernels below `head`, under names that are not in `names`. `accepts` says whether a text is a correct
/// file of gates, and otherwise what is wrong with it.
pub fn write(
    kernels: &[Surveyed],
    head: &str,
    mut names: BTreeSet<String>,
    accepts: &dyn Fn(&str) -> Result<(), String>,
) -> WrittenKernels {
    let mut blocks = WrittenKernels::default();
    let mut comments = String::new();
    let mut families: Vec<(Option<_>, Vec<usize>)> = Vec::new();
    for (at, kernel) in kernels.iter().enumerate() {
        let template = kernel.template();
        let is_own = |(known, _): &&mut (_, _)| template.is_some() && *known == template;
        match families.iter_mut().find(is_own) {
            Some((_, family)) => family.push(at),
            None => families.push((template, vec![at])),
        }
    }
    for (_, family) in families {
        let all: Vec<&Surveyed> = family.iter().filter_map(|at| kernels.get(*at)).collect();
        let Some(first) = all.first() else { continue };
        let called: Vec<(&Surveyed, &Call)> = all
            .iter()
            .filter_map(|kernel| Some((*kernel, kernel.call.as_ref().ok()?)))
            .collect();
        let own = unused(first, &mut names);
        let alike = alike(&called);
        // If the variants do not fit together, the first instance stands for the template.
        let choices = [alike.as_slice(), alike.get(..1).unwrap_or_default()];
        let mut wrong = None;
        let accepted = choices
            .into_iter()
            .filter(|choice| !choice.is_empty())
            .find_map(|chosen| {
                let text = write_kernel(&own, chosen, &all);
                match accepts(&format!("{head}{text}")) {
                    Ok(()) => Some((text, &chosen.first()?.1)),
                    Err(why) => {
                        wrong = Some(why);
                        None
                    }
                }
            });
        if let Some((text, call)) = accepted {
            let separator = if blocks.text.is_empty() { "" } else { "\n" };
            let _ = write!(blocks.text, "{separator}{text}");
            let has_reference = call.reference.is_some();
            blocks.called.push(WrittenKernel {
                name: own,
                kernels: family,
                has_reference,
            });
            continue;
        }
        // An instance whose launch is known tells more than one that was never launched.
        let explained = all
            .iter()
            .find(|kernel| matches!(&kernel.call, Err(call) if call.launch.is_some()))
            .filter(|_| wrong.is_none());
        let shown = explained.unwrap_or(first);
        let unknown = wrong.map(|why| UnknownCall { why, launch: None });
        let unknown = unknown.or_else(|| shown.call.as_ref().err().cloned());
        if let Some(unknown) = unknown {
            comments.push('\n');
            comments.push_str(&todo(&own, shown, &unknown, all.len() - 1));
            blocks.todo.push(own);
        }
    }
    blocks.text.push_str(&comments);
    blocks
}

/// Returns the first call, and those that differ from it only in what variants can replace. If a size is the same but
/// written in another way, it is written as in the first.
fn alike<'a>(called: &[(&'a Surveyed, &Call)]) -> Vec<(&'a Surveyed, Call)> {
    let Some((first_kernel, first)) = called.first() else {
        return Vec::new();
    };
    let own = arguments(&first_kernel.kernel, first);
    let names = |call: &Call| {
        let names = call.dims.iter().map(|dim| dim.name.clone());
        names.collect::<Vec<_>>()
    };
    called
        .iter()
        .filter(|(kernel, call)| {
            arguments(&kernel.kernel, call) == own && names(call) == names(first)
        })
        .take(MOST_VARIANTS)
        .map(|(kernel, call)| {
            let mut call = (*call).clone();
            let dims = call.dims.clone();
            for (tensor, other) in call.tensors_mut().zip(first.tensors()) {
                if other.size.with(&dims) == Some(tensor.size.value) {
                    tensor.size.factors.clone_from(&other.size.factors);
                }
            }
            (*kernel, call)
        })
        .collect()
}

/// Writes a kernel that the file does not run as a comment: what is known of it, and what is
/// missing.
fn todo(name: &str, kernel: &Surveyed, unknown: &UnknownCall, others: usize) -> String {
    let mut text = format!("  # TODO {name}: {}\n", shown(&unknown.why));
    let mut line = |line: String| {
        let _ = writeln!(text, "  # {line}");
    };
    line(format!(
        "{name}:    # {}",
        shown(&whole_name(&kernel.kernel.symbol))
    ));
    line(format!("  source: {}", quoted(&kernel.source)));
    line(format!("  entry: {}", quoted(&kernel.kernel.name)));
    if others > 0 {
        line(format!("  # {others} more of this template"));
    }
    line(format!("  args: [{}]", listed_parameters(&kernel.kernel)));
    line(match &unknown.launch {
        Some((grid, block)) => format!("  {}", launch(grid, block, "")),
        None => "  launch: {grid: [TODO], block: [TODO]}".to_owned(),
    });
    text
}

fn listed_parameters(kernel: &ListedKernel) -> String {
    let parameters = kernel.parameters.iter().enumerate().map(|(at, parameter)| {
        let numbered = format!("p{at}");
        let name = parameter.name.as_ref().unwrap_or(&numbered);
        match &parameter.kind {
            ParameterKind::Pointer(_) => format!("{{tensor: {name}}}"),
            ParameterKind::Scalar(scalar) => format!("{{{}: {name}}}", scalar.name()),
            ParameterKind::Struct(members) => {
                let bytes: usize = members.iter().map(Member::bytes).sum();
                format!("{name} (a struct, {bytes} bytes)")
            }
            ParameterKind::Other(what) => format!("{name} ({what})"),
        }
    });
    parameters.collect::<Vec<_>>().join(", ")
}

fn launch(grid: &[String], block: &[String], more: &str) -> String {
    let list = |all: &[String]| {
        all.iter()
            .map(|text| expression(text))
            .collect::<Vec<_>>()
            .join(", ")
    };
    format!(
        "launch: {{grid: [{}], block: [{}]{more}}}",
        list(grid),
        list(block)
    )
}

fn write_launch(call: &Call) -> String {
    let mut more = String::new();
    if let Some(cluster) = call.captured.cluster {
        let _ = write!(more, ", cluster: {cluster:?}");
    }
    if call.dynamic_shared != "0" {
        let _ = write!(
            more,
            ", dynamic_shared: {}",
            expression(&call.dynamic_shared)
        );
    }
    if call.captured.cooperative {
        more.push_str(", cooperative: true");
    }
    launch(&call.grid, &call.block, &more)
}

/// Writes a number, or an expression with quotes if it needs them.
fn expression(text: &str) -> String {
    match text.parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => quoted(text),
    }
}

/// The most characters of a text that a comment shows.
const SHOWN: usize = 160;

/// Returns the start of a compiler's message or of a source's text, in a form that a comment may
/// have.
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

/// Returns an unused name for a kernel. An instance is named after its template.
fn unused(kernel: &Surveyed, names: &mut BTreeSet<String>) -> String {
    let name = kernel.kernel.name.split('<').next().unwrap_or_default();
    numbered(
        &as_identifier(name.rsplit("::").next().unwrap_or(name)),
        names,
    )
}

pub fn as_identifier(own: &str) -> String {
    let words = own.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("_").trim_end_matches('_').to_owned()
}

fn numbered(name: &str, names: &mut BTreeSet<String>) -> String {
    let mut numbered = name.to_owned();
    let mut number = 2;
    while !names.insert(numbered.clone()) {
        numbered = format!("{name}_{number}");
        number += 1;
    }
    numbered
}

/// Writes a kernel, with its instances as variants. `all` is the whole family of instances.
fn write_kernel(name: &str, instances: &[(&Surveyed, Call)], all: &[&Surveyed]) -> String {
    let mut text = String::new();
    let Some((kernel, call)) = instances.first() else {
        return text;
    };
    let mut taken = BTreeSet::new();
    let variants: Vec<String> = instances
        .iter()
        .map(|(kernel, _)| {
            let arguments = kernel
                .kernel
                .name
                .split_once('<')
                .map_or("default", |(_, arguments)| arguments);
            let own = as_identifier(arguments);
            let own = if own.starts_with(|c: char| c.is_ascii_alphabetic()) {
                own
            } else {
                format!("of_{own}")
            };
            numbered(&own, &mut taken)
        })
        .collect();
    let is_family = instances.len() > 1;
    let _ = writeln!(text, "  {name}:");
    let _ = writeln!(text, "    # {}", shown(&whole_name(&kernel.kernel.symbol)));
    let _ = writeln!(text, "    source: {}", quoted(&kernel.source));
    if !is_family {
        let _ = writeln!(text, "    entry: {}", quoted(&kernel.kernel.name));
    }
    if all.len() > instances.len() {
        let is_other = |kernel: &&&Surveyed| {
            let mut written = instances.iter();
            written.all(|(instance, _)| instance.kernel != kernel.kernel)
        };
        let other = all
            .iter()
            .find(is_other)
            .map_or("", |kernel| &kernel.kernel.name);
        let count = all.len() - instances.len();
        let _ = writeln!(
            text,
            "    # {count} more of this template, such as {}",
            shown(other)
        );
    }
    text.push_str(&write_compilation(&kernel.compilation));
    let mut shapes: Vec<(String, String)> = Vec::new();
    let mut own_shapes: Vec<Vec<String>> = Vec::new();
    for (variant, (_, call)) in variants.iter().zip(instances) {
        let all = std::iter::once(&call.dims).chain(&call.captured.shapes);
        let mut own = Vec::new();
        for (at, dims) in all.enumerate() {
            let dims = dims
                .iter()
                .map(|dim| format!("{}: {}", quoted(&dim.name), dim.value));
            let dims = dims.collect::<Vec<_>>().join(", ");
            let known = shapes.iter().find(|(_, known)| *known == dims);
            let name = match (known, shapes.len(), at) {
                (Some((name, _)), ..) => name.clone(),
                (None, 0, _) => "small".to_owned(),
                (None, _, 0) => variant.clone(),
                (None, _, at) if is_family => format!("{variant}_{}", at + 1),
                (None, _, at) => format!("shape_{}", at + 1),
            };
            if known.is_none() {
                shapes.push((name.clone(), dims));
            }
            own.push(name);
        }
        own_shapes.push(own);
    }
    text.push_str("    shapes:\n");
    for (name, dims) in &shapes {
        let _ = writeln!(text, "      {name}: {{{dims}}}");
    }
    let others: usize = instances.iter().map(|(_, call)| call.captured.others).sum();
    if others > 0 {
        let _ = writeln!(text, "      # {others} more calls of the program differ");
    }
    if is_family {
        text.push_str("    variants:\n");
        for ((variant, (instance, own)), names) in variants.iter().zip(instances).zip(own_shapes) {
            let mut keys = format!("entry: {}", quoted(&instance.kernel.name));
            if names.len() < shapes.len() {
                let _ = write!(keys, ", shapes: [{}]", names.join(", "));
            }
            let tensors: Vec<String> = own
                .tensors()
                .zip(call.tensors())
                .map(|(tensor, first)| (write_tensor(tensor, own), write_tensor(first, call)))
                .filter(|(tensor, first)| tensor != first)
                .map(|(tensor, _)| tensor)
                .collect();
            if !tensors.is_empty() {
                let _ = write!(keys, ", tensors: {{{}}}", tensors.join(", "));
            }
            let [own_launch, first] = [own, call].map(write_launch);
            if own_launch != first {
                let _ = write!(keys, ", {own_launch}");
            }
            if reference(own).0 != reference(call).0 {
                let _ = write!(keys, ", reference: {}", reference(own).0);
            }
            if own.max_err.value != call.max_err.value {
                let _ = write!(keys, ", gates: {{max_err: {}}}", own.max_err.value);
            }
            let _ = writeln!(text, "      {variant}: {{{keys}}}");
        }
    }
    if let Some(why) = &call.captured.unobserved {
        let _ = writeln!(
            text,
            "    # Sizes are those of the allocation: {}",
            shown(why)
        );
    }
    let mut launched = instances.iter().map(|(_, call)| &call.captured);
    if launched.any(|captured| captured.has_findings) {
        text.push_str("    # The program's own launch has findings in the simulator, too.\n");
    }
    text.push_str("    tensors:\n");
    for tensor in call.tensors() {
        let remark = if tensor.pointee.is_known {
            ""
        } else {
            "    # bytes: of what type?"
        };
        let _ = writeln!(text, "      {}{remark}", write_tensor(tensor, call));
    }
    let is_made_up = |argument: &Argument| matches!(argument, Argument::Number { value: None, .. });
    if call.arguments.iter().any(is_made_up) {
        text.push_str("    # Numbers are made up: say those that you call it with.\n");
    }
    text.push_str("    args:\n");
    text.push_str(&arguments(&kernel.kernel, call));
    let _ = writeln!(text, "    {}", write_launch(call));
    let (value, remark) = reference(call);
    let _ = writeln!(text, "    reference: {value}    # {remark}");
    let _ = writeln!(
        text,
        "    gates:\n      max_err: {}    # {}",
        call.max_err.value, call.max_err.because
    );
    text
}

/// Returns the reference of a call, and the comment on it.
fn reference(call: &Call) -> (String, String) {
    let Some(found) = &call.reference else {
        return ("none".to_owned(), "what is right?".to_owned());
    };
    let is_said = |(_, value): &&(&str, Value)| !matches!(value, Value::Null | Value::Bool(false));
    let keys = found.keys.iter().filter(is_said);
    let keys: Vec<String> = keys
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}: {}", quoted(text)),
            other => format!("{key}: {}", other.to_string().replace(',', ", ")),
        })
        .collect();
    let computes = found.keys.iter().find(|(key, _)| *key == "op");
    let computes = computes.and_then(|(_, op)| op.as_str());
    let error = match found.max_err {
        0.0 => "exactly".to_owned(),
        error => format!("{error:.0e}"),
    };
    (
        format!("{{{}: {{{}}}}}", found.name, keys.join(", ")),
        format!("matches {} ({error})", computes.unwrap_or(found.name)),
    )
}

/// Writes a line for each value that a kernel gets. Members of a struct are written below it.
fn arguments(kernel: &ListedKernel, call: &Call) -> String {
    let mut text = String::new();
    let mut values = call.arguments.iter().map(argument);
    for parameter in &kernel.parameters {
        let ParameterKind::Struct(members) = &parameter.kind else {
            let _ = writeln!(text, "      - {}", values.next().unwrap_or_default());
            continue;
        };
        text.push_str("      - struct:\n");
        for member in members {
            let value = match member {
                Member::Pad(bytes) => format!("{{pad: {bytes}}}"),
                _ => values.next().unwrap_or_default(),
            };
            let _ = writeln!(text, "          - {value}");
        }
    }
    text
}

/// Writes a value, with its name as a comment if the sources do not tell the value.
fn argument(argument: &Argument) -> String {
    match argument {
        Argument::Tensor(tensor) => format!("{{tensor: {}}}", quoted(&tensor.name)),
        Argument::Null(name) => format!("nullptr    # {name}"),
        Argument::Number { name, of, value } => match value {
            Some(value) => format!("{{{}: {}}}", of.name(), expression(value)),
            None => format!("{{{}: {}}}    # {name}", of.name(), made_up(*of).0),
        },
    }
}

fn write_compilation(compilation: &Compilation) -> String {
    let Compilation {
        include_dirs,
        define,
        flags,
    } = compilation;
    let mut text = String::new();
    if !include_dirs.is_empty() {
        let _ = writeln!(text, "    include_dirs: [{}]", listed(include_dirs));
    }
    if !flags.is_empty() {
        let _ = writeln!(text, "    flags: [{}]", listed(flags));
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

fn write_tensor(tensor: &Tensor, call: &Call) -> String {
    let own = tensor.size.factors.iter();
    let count = (tensor.pointee.count > 1).then(|| tensor.pointee.count.to_string());
    let own = || own.clone().cloned().chain(count.clone()).collect();
    let reference = call.reference.as_ref();
    let matched = reference.and_then(|reference| reference.shapes.get(&tensor.name));
    let shape: Vec<String> = matched.cloned().unwrap_or_else(own);
    let shape: Vec<String> = shape.iter().map(|factor| expression(factor)).collect();
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
        let Integers { low, high, values } = &tensor.integers;
        if values.is_empty() {
            format!(", fill: {{integers: {{low: {low}, high: {high}}}}}")
        } else {
            format!(", fill: {{values: {values:?}}}")
        }
    } else {
        String::new()
    };
    format!(
        "{}: {{{role}type: {}, shape: [{}]{fill}}}",
        quoted(&tensor.name),
        elem.name(),
        shape.join(", ")
    )
}

/// Writes words as the items of a list.
pub fn listed(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(", ")
}

/// Writes a text as a word of YAML, in quotes if it may be read as something else.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.');
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.'));
    // Some readers take these words for true, false or nothing.
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

    #[test]
    fn a_template_shows_why_its_launched_instance_has_no_call() {
        let instance = |name: &str, why: &str, launch| Surveyed {
            source: "k.cu".to_owned(),
            compilation: Compilation::default(),
            kernel: ListedKernel {
                symbol: name.to_owned(),
                name: name.to_owned(),
                parameters: Vec::new(),
            },
            call: Err(UnknownCall {
                why: why.to_owned(),
                launch,
            }),
        };
        let launch = Some((vec!["2".to_owned()], vec!["1024".to_owned()]));
        let kernels = [
            instance("k<half>", "the program does not launch it", None),
            instance("k<float>", "it reads itself", launch),
        ];
        let blocks = write(&kernels, "", BTreeSet::new(), &|_| Ok(()));
        assert_eq!(blocks.todo, ["k"]);
        assert!(
            blocks.text.contains("# TODO k: it reads itself"),
            "{}",
            blocks.text
        );
        assert!(
            blocks.text.contains("entry: \"k<float>\""),
            "{}",
            blocks.text
        );
        assert!(blocks.text.contains("grid: [2]"), "{}", blocks.text);
    }
}
