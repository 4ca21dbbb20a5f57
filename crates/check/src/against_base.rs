//! Compares the base's reference with head's, on head's inputs, bit for bit.
//!
//! The source and the location of a reference do not matter. If both sides have the same program and the same inputs,
//! nothing is run.

use super::cache::{Answer, References, read};
use super::compare::errors;
use super::compared::{ComparedElements, is_in};
use super::reference::NoAnswer;
use super::{Outputs, Values, cache, inputs};
use model::{
    BaseReference, Case, ErrorFacts, Fault, FaultKind, Fill, NeutralInput, NotRun, Num,
    ReferenceComparison, Seen, Tensor, Worst,
};
use std::path::PathBuf;

/// A case that both sides have, with what computes the reference of each.
pub struct Sides<'a> {
    pub base: &'a Case,
    pub theirs: &'a References,
    pub head: &'a Case,
    pub ours: &'a References,
}

/// The number of additional inputs of a reference up to which each one is tried at 0 and at 1 by itself.
const MOST_APART: usize = 3;

/// Compares the references of a case. `too_large` is the reason if nothing of the case can be computed here.
pub fn compare_references(sides: &Sides, too_large: Option<&NotRun>) -> Seen<BaseReference> {
    let asked = on_inputs_of(sides.head, sides.base);
    match compare(sides, &asked, too_large) {
        Ok(found) => found,
        // The base's own inputs show whether the base's reference has an answer at all.
        Err(NoAnswer::Reference(message)) => match answer_of_base(sides) {
            Ok(_) => fault(NoAnswer::Reference(message)),
            Err(NoAnswer::Reference(message)) => Seen::Got(BaseReference::Broken { message }),
            Err(error) => fault(error),
        },
        Err(error) => fault(error),
    }
}

fn fault<T>(error: NoAnswer) -> Seen<T> {
    let kind = match &error {
        NoAnswer::Reference(_) => FaultKind::Reference,
        NoAnswer::Late(_) => FaultKind::Hang,
        NoAnswer::Environment(_) => FaultKind::Environment,
    };
    Seen::Fault(Fault::new(kind, error.to_string()))
}

fn compare(
    sides: &Sides,
    asked: &Case,
    too_large: Option<&NotRun>,
) -> Result<Seen<BaseReference>, NoAnswer> {
    let Sides {
        base,
        theirs,
        head,
        ours,
    } = sides;
    let mut differing = Vec::new();
    for &seed in &head.seeds {
        if theirs.names(asked, seed)? != ours.names(head, seed)? {
            differing.push(seed);
        }
    }
    if let (false, Some(why)) = (differing.is_empty(), too_large) {
        return Ok(Seen::NotRun(why.clone()));
    }
    let mut wanted = Vec::new();
    for seed in differing {
        wanted.push((seed, outputs(theirs, asked, seed)?));
    }
    let found = over_seeds(&wanted, ours, base, head)?;
    if found.differing == 0 {
        return Ok(Seen::Got(BaseReference::Compared(found)));
    }
    for neutral in neutral_inputs(head, asked) {
        let at_rest = with_inputs(head, &neutral);
        // An input that cannot have such a value, like an index that must be in its range, is not neutral there.
        match over_seeds(&wanted, ours, base, &at_rest) {
            Ok(found) if found.differing == 0 => {
                let found = ReferenceComparison { neutral, ..found };
                return Ok(Seen::Got(BaseReference::Compared(found)));
            }
            Ok(_) | Err(NoAnswer::Reference(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Seen::Got(BaseReference::Compared(found)))
}

/// Returns the base's case with what head has of the base's tensors, and with the base's deadline.
fn on_inputs_of(head: &Case, base: &Case) -> Case {
    let known = |name: &str| base.tensors.iter().any(|tensor| tensor.name == name);
    let tensors = head.tensors.iter().filter(|tensor| known(&tensor.name));
    Case {
        tensors: tensors.cloned().collect(),
        reference: base.reference.clone(),
        deadline_ms: base.deadline_ms,
        ..head.clone()
    }
}

fn answer_of_base(sides: &Sides) -> Result<Answer, NoAnswer> {
    let seed = sides.base.seeds.first().copied().unwrap_or_default();
    sides.theirs.find(sides.base, seed)
}

type Wanted = [(u64, Vec<Outputs>)];

fn over_seeds(
    wanted: &Wanted,
    ours: &References,
    base: &Case,
    head: &Case,
) -> Result<ReferenceComparison, NoAnswer> {
    let mut all = ReferenceComparison::default();
    for (seed, wanted) in wanted {
        let got = outputs(ours, head, *seed)?;
        let compared = compared(base, head, *seed)?;
        for (mut got, want) in got.into_iter().zip(wanted) {
            // A new output has no counterpart.
            got.retain(|name, _| want.contains_key(name));
            let facts = errors(&got, want, &head.tensors, &compared, None)
                .map_err(|error| NoAnswer::Reference(error.to_string()))?;
            let differing = got
                .iter()
                .zip(want.values())
                .map(|((name, got), want)| differing(got, want, compared.part(name)))
                .sum();
            add(&mut all, *seed, differing, facts);
        }
    }
    Ok(all)
}

/// Counts the elements that differ in any bit.
fn differing(got: &Values, want: &Values, part: Option<&[bool]>) -> u64 {
    let differs = |at: usize| match (got, want) {
        (Values::F32(got), Values::F32(want)) => {
            got.get(at).map(|value| value.to_bits()) != want.get(at).map(|value| value.to_bits())
        }
        (Values::F64(got), Values::F64(want)) => {
            got.get(at).map(|value| value.to_bits()) != want.get(at).map(|value| value.to_bits())
        }
        (Values::I64(got), Values::I64(want)) => got.get(at) != want.get(at),
        _ => true,
    };
    let positions = 0..want.len();
    positions
        .filter(|&at| is_in(part, at) && differs(at))
        .count() as u64
}

/// Returns the elements that both sides compare. Neither side is responsible for the others.
fn compared(base: &Case, head: &Case, seed: u64) -> Result<ComparedElements, NoAnswer> {
    let is_part = |case: &Case| case.tensors.iter().any(|tensor| tensor.compare.is_some());
    if !is_part(base) && !is_part(head) {
        return Ok(ComparedElements::all());
    }
    let inputs =
        inputs::generate(head, seed).map_err(|error| NoAnswer::Reference(error.to_string()))?;
    let input = |name: &str| Some(inputs.tensors.get(name)?.seen.clone());
    let of_base = |tensor: &Tensor| {
        base.tensors
            .iter()
            .find(|other| other.name == tensor.name)?
            .compare
            .clone()
    };
    let tensors = head.tensors.iter().map(|tensor| Tensor {
        compare: of_base(tensor),
        ..tensor.clone()
    });
    let by_base = Case {
        tensors: tensors.collect(),
        ..head.clone()
    };
    let by_head = ComparedElements::for_case(head, &input)?;
    Ok(by_head.and(ComparedElements::for_case(&by_base, &input)?))
}

fn add(all: &mut ReferenceComparison, seed: u64, differing: u64, facts: ErrorFacts) {
    all.elements += facts.elements;
    all.differing += differing;
    let Some(worst) = facts.worst.filter(|_| differing > 0) else {
        return;
    };
    // If only one of two values is a number, they are further apart than any two numbers.
    let apart = |worst: &Worst| {
        let apart = (worst.got.0 - worst.want.0).abs();
        if apart.is_nan() { f64::INFINITY } else { apart }
    };
    let is_larger = |(_, known): &(u64, Worst)| apart(&worst) > apart(known);
    if all.largest.as_ref().is_none_or(is_larger) {
        all.largest = Some((seed, *worst));
    }
}

/// Returns the outputs over the inputs as the kernel sees them, and over the inputs before quantisation if there is
/// one.
fn outputs(references: &References, case: &Case, seed: u64) -> Result<Vec<Outputs>, NoAnswer> {
    let files = match references.find(case, seed)? {
        Answer::Files { seen, original } => [Some(seen), original],
        Answer::Variant { .. } => {
            return Err(NoAnswer::Reference("only a device can tell".to_owned()));
        }
    };
    let read = |path: PathBuf| {
        read(&path).map_err(|error: cache::Unreadable| NoAnswer::Environment(error.to_string()))
    };
    files.into_iter().flatten().map(read).collect()
}

/// Returns values for the inputs that head alone has. With these values its reference may compute what it computed
/// before: a bias has no effect at 0, and a factor has none at 1.
fn neutral_inputs(head: &Case, base: &Case) -> Vec<Vec<NeutralInput>> {
    let is_known = |name: &str| base.tensors.iter().any(|tensor| tensor.name == name);
    let new: Vec<&str> = head
        .tensors
        .iter()
        .filter(|tensor| tensor.role.is_drawn() && !is_known(&tensor.name))
        .map(|tensor| tensor.name.as_str())
        .collect();
    let choices: Vec<u32> = match new.len() {
        0 => Vec::new(),
        few if few <= MOST_APART => (0..1 << few).collect(),
        _ => vec![0, u32::MAX],
    };
    let at = |choice: u32| {
        new.iter()
            .enumerate()
            .map(|(place, tensor)| NeutralInput {
                tensor: (*tensor).to_owned(),
                value: Num(f64::from(choice >> place.min(31) & 1)),
            })
            .collect()
    };
    choices.into_iter().map(at).collect()
}

fn with_inputs(head: &Case, neutral: &[NeutralInput]) -> Case {
    let mut case = head.clone();
    for tensor in &mut case.tensors {
        if let Some(at) = neutral.iter().find(|at| at.tensor == tensor.name) {
            tensor.fill = Some(Fill::Constant { value: at.value });
        }
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::user::HiddenFrom;
    use crate::testing::{self, binary, case, input, output, pointer};
    use build::apart::OwnedTrees;
    use model::{Binary, Compare, ElemType, Expr, Reference, Unary};
    use std::path::Path;
    use system::cache::Cache;

    struct Bench {
        dir: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for side in ["base", "head"] {
                std::fs::create_dir(dir.path().join(side)).unwrap();
            }
            Self { dir }
        }

        fn write(&self, side: &str, text: &str) {
            std::fs::write(self.dir.path().join(side).join("k.cpp"), text).unwrap();
        }

        fn compare(&self, base: &Case, head: &Case) -> Seen<BaseReference> {
            let cache = Cache::at(&self.dir.path().join("cache")).unwrap();
            let [base_root, head_root] = ["base", "head"].map(|dir| self.dir.path().join(dir));
            let open = |root: &Path, hidden: HiddenFrom| {
                References::open(root, &cache, Some(Path::new("g++")), hidden).unwrap()
            };
            let trees = OwnedTrees::new(&head_root, &base_root, &[]);
            let hidden = trees.hide_head();
            let hidden = HiddenFrom {
                compilers: hidden.clone(),
                programs: hidden,
            };
            let blind = HiddenFrom {
                compilers: None,
                ..hidden.clone()
            };
            let theirs = open(&base_root, hidden);
            let ours = open(&head_root, blind);
            let sides = Sides {
                base,
                theirs: &theirs,
                head,
                ours: &ours,
            };
            compare_references(&sides, None)
        }

        /// Compares the references and returns the files of head that the base's reference read.
        fn cross(&self, case: &Case) -> (Seen<BaseReference>, Vec<String>) {
            let cache = Cache::at(&self.dir.path().join("cache")).unwrap();
            let [base, head] = ["base", "head"].map(|dir| self.dir.path().join(dir));
            let compiler = Some(Path::new("g++"));
            let hidden = HiddenFrom {
                compilers: OwnedTrees::new(&head, &base, &[]).hide_head(),
                programs: None,
            };
            let theirs = References::open(&base, &cache, compiler, hidden).unwrap();
            let in_sight = HiddenFrom::default();
            let ours = References::open(&head, &cache, compiler, in_sight).unwrap();
            let sides = Sides {
                base: case,
                theirs: &theirs,
                head: case,
                ours: &ours,
            };
            let seen = compare_references(&sides, None);
            (
                seen,
                theirs
                    .reads()
                    .files
                    .into_keys()
                    .filter(|read| read.real.starts_with(&head))
                    .map(|read| read.real.display().to_string())
                    .collect(),
            )
        }
    }

    fn found(seen: Seen<BaseReference>) -> ReferenceComparison {
        match seen {
            Seen::Got(BaseReference::Compared(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    fn copy() -> Case {
        let mut case = case(vec![
            input("x", ElemType::F32, &[64]),
            output("y", ElemType::F32, &[64]),
        ]);
        case.seeds = vec![1, 2];
        case
    }

    fn unary(op: Unary) -> Case {
        Case {
            reference: testing::unary(op),
            ..copy()
        }
    }

    fn user(names: &[&str]) -> Case {
        let mut case = copy();
        case.tensors.insert(1, input("b", ElemType::F32, &[64]));
        case.tensors
            .retain(|tensor| names.contains(&tensor.name.as_str()));
        let args = names.iter().map(|name| pointer(name)).collect();
        case.reference = testing::user("k.cpp", "k", args);
        case
    }

    fn program(parameters: &str, value: &str) -> String {
        format!(
            "extern \"C\" void k({parameters}, float* y) {{ for (int i = 0; i < 64; ++i) y[i] = {value}; }}"
        )
    }

    #[test]
    fn equal_is_equal_however_it_is_written() {
        let bench = Bench::new();
        let none = ReferenceComparison::default();
        assert_eq!(
            found(bench.compare(&unary(Unary::Copy), &unary(Unary::Copy))),
            none
        );
        let other = found(bench.compare(&unary(Unary::Abs), &unary(Unary::Copy)));
        assert!(other.differing > 0 && other.differing < other.elements);
        let (_, worst) = other.largest.unwrap();
        assert_eq!(worst.got.0, -worst.want.0, "head's against base's");

        // A function of the user's own replaces a built-in one.
        bench.write("head", &program("const float* x", "x[i]"));
        let same = found(bench.compare(&unary(Unary::Copy), &user(&["x", "y"])));
        assert_eq!((same.elements, same.differing), (128, 0));
        bench.write(
            "head",
            &program("const float* x", "i == 9 ? 2 * x[i] : x[i]"),
        );
        let bent = found(bench.compare(&unary(Unary::Copy), &user(&["x", "y"])));
        assert_eq!((bent.elements, bent.differing), (128, 2));
        assert_eq!(bent.largest.unwrap().1.at.index, [9]);
    }

    #[test]
    fn ignores_elements_that_neither_side_compares() {
        let bench = Bench::new();
        bench.write("base", &program("const float* x", "x[i]"));
        bench.write(
            "head",
            &program("const float* x", "i < 60 ? x[i] : 2 * x[i] + 1"),
        );
        let part = |text: &str| {
            let mut case = user(&["x", "y"]);
            case.tensors[1].compare = Some(Compare::Where {
                condition: Expr {
                    text: text.to_owned(),
                    constants: [].into(),
                },
                index: vec!["i".to_owned()],
            });
            case
        };
        let differing = |base: &Case, head: &Case| found(bench.compare(base, head)).differing;
        let (all, few, more) = (user(&["x", "y"]), part("i < 60"), part("i < 61"));
        assert_eq!(differing(&all, &all), 8);
        assert_eq!(differing(&few, &few), 0);
        assert_eq!(differing(&more, &more), 2, "one of each seed");
        // Another verdict says that head compares less.
        assert_eq!(differing(&all, &few), 0);
        assert_eq!(differing(&few, &all), 0);
    }

    #[test]
    fn a_new_neutral_input_changes_nothing() {
        let bench = Bench::new();
        bench.write("base", &program("const float* x", "x[i]"));
        let (base, head) = (user(&["x", "y"]), user(&["x", "b", "y"]));
        let with = |value: &str| {
            bench.write("head", &program("const float* x, const float* b", value));
            let found = found(bench.compare(&base, &head));
            (
                found.differing,
                found
                    .neutral
                    .iter()
                    .map(|neutral| (neutral.tensor.clone(), neutral.value.0))
                    .collect::<Vec<_>>(),
            )
        };
        let at = |value: f64| vec![("b".to_owned(), value)];
        assert_eq!(with("x[i]"), (0, Vec::new()), "it is not read");
        assert_eq!(with("x[i] + b[i]"), (0, at(0.0)));
        assert_eq!(with("x[i] * b[i]"), (0, at(1.0)));
        // Both were changed alike.
        assert_eq!(with("2 * x[i] + b[i]"), (128, Vec::new()));
    }

    #[test]
    fn names_references_that_cannot_be_computed_on_these_inputs() {
        let bench = Bench::new();
        let base = Case {
            reference: binary("x", "b", Binary::Add),
            ..user(&["x", "b", "y"])
        };
        let Seen::Fault(fault) = bench.compare(&base, &unary(Unary::Copy)) else {
            panic!()
        };
        assert_eq!(fault.kind, FaultKind::Reference);
        assert!(fault.message.contains("`b`"), "{}", fault.message);

        bench.write("base", "#error its own header is missing");
        bench.write("head", &program("const float* x", "x[i]"));
        let case = user(&["x", "y"]);
        let Seen::Got(BaseReference::Broken { message }) = bench.compare(&case, &case) else {
            panic!()
        };
        assert!(message.contains("its own header is missing"), "{message}");
        bench.write("base", &program("const float* x", "x[i]"));
        bench.write("head", "#error");
        assert!(matches!(bench.compare(&case, &case), Seen::Fault(_)));
    }

    /// With its whole path, a shared library of head's would be base's, too.
    #[test]
    fn nothing_of_head_is_loaded_by_the_bases() {
        let bench = Bench::new();
        let library = |by: &str| {
            let head = bench.dir.path().join("head");
            let code = format!("extern \"C\" float by() {{ return {by}; }}");
            std::fs::write(head.join("by.cpp"), code).unwrap();
            let mut compile = std::process::Command::new("g++");
            compile.current_dir(&head);
            compile.args(["-shared", "-fPIC", "by.cpp", "-o", "libby.so"]);
            assert!(compile.status().unwrap().success());
            head.join("libby.so").display().to_string()
        };
        let text = format!(
            "extern \"C\" float by();\n{}",
            program("const float* x", "by() * x[i]")
        );
        bench.write("base", &text);
        bench.write("head", &text);
        let mut case = user(&["x", "y"]);
        if let Reference::User { flags, .. } = &mut case.reference {
            flags.push(library("2"));
        }
        let (seen, of_head) = bench.cross(&case);
        assert!(of_head.iter().any(|file| file.ends_with("head/libby.so")));
        if system::process::confine::is_confining() {
            assert!(matches!(seen, Seen::Got(BaseReference::Broken { .. })));
        }
    }

    #[test]
    fn the_bases_reference_has_the_bases_deadline_and_is_late_by_that_alone() {
        let bench = Bench::new();
        let slow = program("const float* x", "x[i]")
            .replace("for (int i = 0;", "usleep(900000); for (int i = 0;");
        bench.write("base", &format!("#include <unistd.h>\n{slow}"));
        bench.write("head", &program("const float* x", "x[i]"));
        let within = |deadline_ms: u64| Case {
            deadline_ms,
            ..user(&["x", "y"])
        };
        let Seen::Fault(fault) = bench.compare(&within(200), &within(60_000)) else {
            panic!()
        };
        assert_eq!(fault.kind, FaultKind::Hang);
        assert!(fault.message.contains("within 200 ms"), "{}", fault.message);
        // Head's deadline does not apply to the base.
        let in_time = found(bench.compare(&within(60_000), &within(1000)));
        assert_eq!((in_time.elements, in_time.differing), (128, 0));
    }
}
