use super::*;
use crate::disk::PathKind;
use crate::load::Loaded;
use crate::resolve::parse;
use proptest::prelude::*;
use std::path::Path;

fn macros(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn apply(
    text: &str,
    kernel: &str,
    variant: &str,
    like: &str,
    pairs: &[(&str, &str)],
) -> Result<String, String> {
    let define = macros(pairs);
    let change = VariantChange {
        kernel,
        variant,
        like,
        define: &define,
    };
    apply_variant("gates.yaml", text, &change).map_err(|diagnostic| diagnostic.to_string())
}

/// A file with this kernel, of which only the variants matter here.
fn file(kernel: &str) -> String {
    format!(
        "version: 1
architectures: [sm_90]
kernels:
  k:
    source: k.cu
    entry: k   # of the source
{kernel}    tensors:
      x: {{type: f32, shape: [8]}}
      y: {{role: out, type: f32, shape: [8]}}
    args: [{{tensor: x}}, {{tensor: y}}]
    launch: {{grid: [1], block: [8]}}
    reference: {{unary: {{x: x, out: y, op: copy}}}}
    gates: {{max_err: 0}}
"
    )
}

/// `old` is what the kernel says of variants, `new` what it says afterwards.
#[track_caller]
fn check(old: &str, like: &str, pairs: &[(&str, &str)], new: &str) {
    assert_eq!(
        apply(&file(old), "k", "tuned", like, pairs).as_deref(),
        Ok(file(new).as_str())
    );
}

#[track_caller]
fn refused(old: &str, like: &str, words: &str) {
    let said = apply(&file(old), "k", "tuned", like, &[("T", "2")]).unwrap_err();
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_variant_is_added_after_the_last() {
    check(
        "    variants:
      # The first.
      plain: {}   # as it is

      wide: {define: {WIDE: 1}}   # wider

    # Shapes follow.
    seeds: 2
",
        "wide",
        &[("T", "64"), ("MODE", "fast")],
        "    variants:
      # The first.
      plain: {}   # as it is

      wide: {define: {WIDE: 1}}   # wider
      tuned: {define: {MODE: fast, T: 64, WIDE: 1}}

    # Shapes follow.
    seeds: 2
",
    );
}

#[test]
fn copies_all_settings_of_the_other_variant() {
    check(
        "    variants:
      plain: {}
      wide:
        launch: {grid: [1], block: [8], dynamic_shared: 64}
        # Why.
        define: {WIDE: 1, T: 1}
        gates:
          # No more.
          registers: 32
        fallback: plain
",
        "wide",
        &[("T", "2")],
        "    variants:
      plain: {}
      wide:
        launch: {grid: [1], block: [8], dynamic_shared: 64}
        # Why.
        define: {WIDE: 1, T: 1}
        gates:
          # No more.
          registers: 32
        fallback: plain
      tuned:
        define: {T: 2, WIDE: 1}
        launch: {grid: [1], block: [8], dynamic_shared: 64}
        gates:
          # No more.
          registers: 32
        fallback: plain
",
    );
}

#[test]
fn an_anchor_is_used_and_not_written_twice() {
    let old = "    variants:
      wide: &wide {define: {WIDE: 1}, gates: {registers: 32}}
      merged:
        <<: &base
          define: {A: 1, T: 1}
        launch: &launch {grid: [1], block: [8]}
      alias: *wide
";
    let with = |line: &str| format!("{old}      {line}\n");
    for (like, line) in [
        (
            "wide",
            "tuned: {<<: *wide, define: {T: 2, WIDE: 1}}".to_owned(),
        ),
        (
            "merged",
            "tuned:\n        <<: *base\n        define: {A: 1, T: 2}\n        launch: *launch"
                .to_owned(),
        ),
        (
            "alias",
            "tuned: {<<: *wide, define: {T: 2, WIDE: 1}}".to_owned(),
        ),
    ] {
        check(old, like, &[("T", "2")], &with(&line));
    }
}

#[test]
fn braces_stay_braces() {
    check(
        "    variants: {plain: {}, wide: {define: {WIDE: 1}, fallback: plain} }  # two\n",
        "wide",
        &[("T", "2")],
        "    variants: {plain: {}, wide: {define: {WIDE: 1}, fallback: plain}, \
         tuned: {define: {T: 2, WIDE: 1}, fallback: plain} }  # two\n",
    );
}

#[test]
fn a_kernel_without_variants_keeps_its_own() {
    check(
        "    define: {T: 1}  # of all\n",
        DEFAULT,
        &[("T", "2")],
        "    define: {T: 1}  # of all
    variants:
      default: {}
      tuned: {define: {T: 2}}
",
    );
}

#[test]
fn macros_of_a_variant_that_is_there_are_set() {
    for (old, new) in [
        (
            "{define: {T: 1, WIDE: 1}}  # kept",
            "{define: {T: 2, WIDE: 1, U: 3}}  # kept",
        ),
        ("{}", "{define: {T: 2, U: 3}}"),
        (
            "{fallback: plain}",
            "{fallback: plain, define: {T: 2, U: 3}}",
        ),
        (
            "\n        define:\n          T: 1     # found by hand\n          WIDE: 1\n        fallback: plain",
            "\n        define:\n          T: 2     # found by hand\n          WIDE: 1\n          U: 3\n        fallback: plain",
        ),
        (
            "\n        fallback: plain  # slow",
            "\n        fallback: plain  # slow\n        define: {T: 2, U: 3}",
        ),
        ("{define: {T: 2, U: 3}}", "{define: {T: 2, U: 3}}"),
    ] {
        let whole = |variant: &str| {
            format!("    variants:\n      plain: {{}}\n      tuned: {variant}\n    seeds: 2\n")
        };
        check(&whole(old), "tuned", &[("T", "2"), ("U", "3")], &whole(new));
    }
}

#[test]
fn a_file_without_a_last_newline_and_one_with_carriage_returns_keep_theirs() {
    let text = file("    define: {T: 1}\n");
    let (body, gates) = text.split_once("    gates:").unwrap();
    let last = format!("{body}    gates:{}    variants: {{a: {{}}}}", gates);
    let new = apply(&last, "k", "tuned", "a", &[("T", "2")]).unwrap();
    assert!(new.ends_with("{a: {}, tuned: {define: {T: 2}}}"), "{new}");
    let last = format!("{body}    gates:{}    variants:\n      a: {{}}", gates);
    let new = apply(&last, "k", "tuned", "a", &[("T", "2")]).unwrap();
    assert!(
        new.ends_with("a: {}\n      tuned: {define: {T: 2}}"),
        "{new}"
    );
    let windows = text.replace('\n', "\r\n");
    let new = apply(&windows, "k", "tuned", DEFAULT, &[("T", "2")]).unwrap();
    assert_eq!(new.matches('\n').count(), new.matches("\r\n").count());
    assert!(new.contains("{T: 1}\r\n    variants:\r\n      default: {}\r\n      tuned: "));
}

#[test]
fn rejects_an_edit_that_would_change_another_variant() {
    // A second kernel has its variants from the first.
    let text = file("    variants:\n      a: {define: {T: 1}}\n").replace("  k:\n", "  k: &k\n")
        + "  second:\n    <<: *k\n    gates: {max_err: 1}\n";
    for (kernel, words) in [
        (
            "k",
            "without a change of `kernels.second.variants.tuned`\n  help: write it yourself: tuned: {define: {T: 2}}",
        ),
        ("second", "the variants of `second` are written elsewhere"),
        ("third", "there is no kernel `third`"),
    ] {
        let said = apply(&text, kernel, "tuned", "a", &[("T", "2")]).unwrap_err();
        assert!(said.contains(words), "{kernel}: {said}");
    }
    // A variant that another one is an alias of.
    let shared = "    variants:\n      tuned: &a {define: {T: 1}}\n      b: *a\n";
    refused(
        shared,
        "tuned",
        "without a change of `kernels.k.variants.b.define.T`",
    );
    let alias = "    variants:\n      a: &a {define: {T: 1}}\n      tuned: *a\n";
    refused(
        alias,
        "tuned",
        "the macros of `tuned` are written elsewhere",
    );
    let nested = "    variants:\n      a: {define: &d {T: 1}}\n      tuned: {define: *d}\n";
    refused(
        nested,
        "tuned",
        "the macros of `tuned` are written elsewhere",
    );
    let holds = "    variants:\n      a: {gates: {conditions: [&c \"registers <= 64\"]}}\n";
    refused(holds, "a", "`a.gates` holds an anchor");
}

#[test]
fn rejects_unusable_variant_names() {
    let two = "    variants:\n      a: {}\n      tuned: {fallback: a}\n";
    refused(
        two,
        "a",
        "differs from `a` in `fallback`: choose another name",
    );
    refused(two, "c", "`k` has no variant `c`");
    let text = file("");
    for (variant, pairs, words) in [
        ("a b", [("T", "1")], "`a b` cannot name a variant"),
        ("a", [("T x", "1")], "`T x` is not the name of a macro"),
    ] {
        let said = apply(&text, "k", variant, DEFAULT, &pairs).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
    for mark in ["# @generated by make", "# Made by gen.py. DO NOT EDIT."] {
        let said = apply(&format!("{mark}\n{text}"), "k", "a", DEFAULT, &[]).unwrap_err();
        assert!(said.contains("the file is generated"), "{said}");
    }
    let said = apply("version: 1\nkernels: [", "k", "a", DEFAULT, &[]).unwrap_err();
    assert!(said.starts_with("gates.yaml:"), "{said}");
}

/// Files of this repository: gates files, and the complete ones in its documentation.
fn files() -> Vec<(String, String)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut found = Vec::new();
    let mut dirs = ["docs", "examples", "kernels", "tests"]
        .map(|dir| root.join(dir))
        .to_vec();
    let mut paths = vec![root.join("gates.yaml"), root.join("README.md")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path)
            } else {
                paths.push(path)
            }
        }
    }
    paths.sort();
    for path in paths {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let text = || std::fs::read_to_string(&path).unwrap();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("yaml") if crate::is_gates(&text()) => found.push((name, text())),
            Some("md") => {
                let text = text();
                let whole = text
                    .split("```yaml\n")
                    .skip(1)
                    .filter_map(|rest| rest.split("```").next())
                    .filter(|block| crate::is_gates(block));
                // A kernel that is merged into another takes no variant of its own; `apply` refuses it.
                let whole = whole.filter(|block| !block.contains("<<: *"));
                found.extend(whole.map(|block| (name.clone(), block.to_owned())));
            }
            _ => {}
        }
    }
    found
}

fn resolve(text: &str) -> Option<Loaded> {
    let disk = |path: &str| match path.rsplit('/').next() {
        Some(name) if name.contains('.') && !path.ends_with('.') => Some(PathKind::File),
        _ => Some(PathKind::Directory),
    };
    parse("gates.yaml", text, &disk, &|_| Some("/opt".to_owned())).ok()
}

/// Adds a variant to every file, based on an existing one. The plan for the new one equals that of the old one, with
/// the macro; and nothing else in the file differs.
#[test]
fn files_of_this_repository_take_a_variant() {
    let files = files();
    assert!(files.len() > 15, "{}", files.len());
    let mut written = 0;
    for (name, text) in &files {
        let Some(old) = resolve(text) else { continue };
        // Compiled sources have no macros.
        let units = old.plan.units.iter();
        let sources = units.filter(|unit| !unit.source.ends_with(".ptx"));
        let mut variants: Vec<_> = sources
            .map(|unit| (unit.id.kernel.as_str(), unit.id.variant.as_str()))
            .collect();
        variants.dedup();
        // A debug build takes long for all.
        for (kernel, like) in variants.into_iter().step_by(3) {
            let new = apply(text, kernel, "tuned_here", like, &[("ADDED_HERE", "0x10")])
                .unwrap_or_else(|said| panic!("{name}: {kernel}/{like}: {said}"));
            assert!(is_insertion(text, &new), "{name}\n{new}");
            let new = resolve(&new).unwrap_or_else(|| panic!("{name}: {kernel}/{like}\n{new}"));
            let is_like = |its_kernel: &str, variant: &str| its_kernel == kernel && variant == like;

            let mut units = old.plan.units.clone();
            units.retain(|unit| is_like(&unit.id.kernel, &unit.id.variant));
            for unit in &mut units {
                let value = "0x10".to_owned();
                unit.id.variant = "tuned_here".to_owned();
                unit.defines.insert("ADDED_HERE".to_owned(), value);
            }
            let (added, rest): (Vec<_>, Vec<_>) = new
                .plan
                .units
                .into_iter()
                .partition(|unit| unit.id.variant == "tuned_here");
            assert_eq!((rest, added), (old.plan.units.clone(), units), "{name}");

            let mut cases = old.plan.cases.clone();
            cases.retain(|case| is_like(&case.id.kernel, &case.id.variant));
            for case in &mut cases {
                case.id.variant = "tuned_here".to_owned();
            }
            let (added, rest): (Vec<_>, Vec<_>) = new
                .plan
                .cases
                .into_iter()
                .partition(|case| case.id.variant == "tuned_here");
            assert_eq!((rest, added), (old.plan.cases.clone(), cases), "{name}");
            written += 1;
        }
    }
    assert!(written > 40, "{written}");
}

fn is_insertion(old: &str, new: &str) -> bool {
    let same = |pair: &(u8, u8)| pair.0 == pair.1;
    let head = old.bytes().zip(new.bytes()).take_while(same).count();
    let tail = old
        .bytes()
        .rev()
        .zip(new.bytes().rev())
        .take_while(same)
        .count();
    new.len() > old.len() && head + tail >= old.len()
}

proptest! {
    /// Whatever a macro is set to is what the file then says. Control characters may be refused.
    #[test]
    fn a_value_is_written_as_it_is(value in "\\PC{0,12}|[-0-9xe.+~]{0,6}|true|Null|on|#.*|'.*|\".*") {
        let text = file("    variants:\n      a: {define: {T: 1}}\n");
        let new = match apply(&text, "k", "tuned", "a", &[("T", &value)]) {
            Ok(new) => new,
            Err(said) => {
                prop_assert!(value.contains(char::is_control), "{}", said);
                return Ok(());
            }
        };
        let new = Source::parse("", &new).unwrap().into_tree();
        let kernel = new.get("kernels").unwrap().get("k").unwrap();
        let tuned = kernel.get("variants").unwrap().get("tuned").unwrap();
        let Some(Tree::Scalar(written)) = tuned.get("define").unwrap().get("T") else {
            panic!("no word");
        };
        prop_assert_eq!(written, &value);
    }
}
