//! Builds fixtures, and makes cases that call them and the correct answers.

use build::Artifact;
use model::{
    Arg, Case, CaseId, CheckFacts, ElemType, Fault, Fill, Launch, Location, Num, Reference, Role,
    ScalarType, ScalarValue, Seen, Step, Tensor,
};
use run::device::DeviceChoice;
use run::worker::{CheckAnswer, CheckJob, Crew, ExpectedOutput};
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

pub const N: usize = 200;

/// Returns the program. The machine that has a GPU need not be the one that built this.
pub fn gatekeeper() -> PathBuf {
    std::env::var_os("GATEKEEPER_BIN")
        .map_or_else(|| env!("CARGO_BIN_EXE_gatekeeper").into(), PathBuf::from)
}

pub fn nvcc(source: &str, flags: &[&str], output: &str) -> PathBuf {
    static DIR: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    let output = DIR.path().join(output);
    if !output.exists() {
        let manifest = std::env::var_os("GATEKEEPER_SOURCES")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let nvcc = std::env::var_os("NVCC").unwrap_or_else(|| "nvcc".into());
        let done = Command::new(nvcc)
            .args(["-arch=native", "-O3"])
            .args(flags)
            .arg("-o")
            .arg(&output)
            .arg(manifest.join("tests/fixtures/gpu").join(source))
            .output()
            .expect("nvcc starts; set NVCC");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    output
}

/// The machine code of the fixtures. It is built once, under the lock of this value.
pub static CUBIN: LazyLock<PathBuf> =
    LazyLock::new(|| nvcc("entries.cu", &["-cubin"], "entries.cubin"));
pub static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    nvcc(
        "launchers.cu",
        &["-shared", "-Xcompiler", "-fPIC"],
        "liblaunchers.so",
    )
});

pub fn entry(symbol: &str) -> Artifact {
    Artifact::Cubin {
        path: CUBIN.clone(),
        entries: vec![(symbol.into(), symbol.into())],
        ptx: Some(CUBIN.with_extension("ptx")),
        constants: Vec::new(),
    }
}

/// Returns an artifact with several entries, one for each step.
pub fn sequence(symbols: &[&str]) -> Artifact {
    let named = |symbol: &&str| (symbol.to_string(), symbol.to_string());
    match entry("") {
        Artifact::Cubin { path, ptx, .. } => Artifact::Cubin {
            path,
            entries: symbols.iter().map(named).collect(),
            ptx,
            constants: Vec::new(),
        },
        launcher => launcher,
    }
}

pub fn launcher(function: &str) -> Artifact {
    Artifact::Launcher {
        library: LIBRARY.clone(),
        function: function.into(),
        entries: vec![],
    }
}

pub fn crew() -> Crew<'static> {
    Crew::with_program(gatekeeper(), DeviceChoice::Cuda { ordinal: 0 })
}

pub fn tensor(name: &str, role: Role) -> Tensor {
    Tensor {
        fill: (role != Role::Out).then_some(Fill::Normal {
            mean: Num(0.0),
            std: Num(1.0),
            special: model::SpecialShares::new(),
        }),
        ..Tensor::new(name, role, ElemType::F32, vec![N])
    }
}

pub fn pointer(name: &str) -> Arg {
    Arg::Tensor { name: name.into() }
}

pub fn scalar(elem: ScalarType, value: ScalarValue) -> Arg {
    Arg::Scalar { elem, value }
}

pub fn int(value: i64) -> Arg {
    scalar(ScalarType::I32, ScalarValue::Int(value))
}

pub fn case(variant: &str) -> Case {
    Case {
        tensors: vec![tensor("x", Role::In), tensor("y", Role::Out)],
        steps: vec![Step::new(
            vec![pointer("x"), pointer("y"), int(N as i64)],
            Some(Launch {
                grid: [1, 1, 1],
                block: [256, 1, 1],
                cluster: None,
                cooperative: false,
                dynamic_shared: 0,
            }),
        )],
        seeds: vec![1],
        reference: Reference::Variant {
            variant: "right".into(),
        },
        tolerance: Some(Num(0.0)),
        launches: 8,
        deadline_ms: 20_000,
        timed: true,
        ..Case::empty(CaseId::new("fixture", variant, "s"))
    }
}

/// Returns the case `once`, whose scratch must be zero before every launch. It is poisoned if `fill` is `None`.
pub fn once(fill: Option<Fill>) -> Case {
    let mut case = case("once");
    case.tensors.push(Tensor {
        elem: ElemType::I32,
        fill,
        ..tensor("used", Role::Scratch)
    });
    case.steps[0].args.push(pointer("used"));
    case
}

pub const ZEROS: Fill = Fill::Constant { value: Num(0.0) };

pub fn launcher_case(variant: &str) -> Case {
    let mut case = case(variant);
    case.steps[0].launch = None;
    case.steps[0].args.push(Arg::Stream);
    case
}

/// Checks a case against `right`, which doubles its input.
pub fn check(crew: &mut Crew, case: Case, artifact: Artifact) -> CheckAnswer {
    crew.check(CheckJob {
        case,
        artifact,
        seed: 1,
        later_seed: 2,
        expected: ExpectedOutput::Variant {
            case: Box::new(self::case("right")),
            artifact: entry("right"),
        },
        dump: None,
    })
}

pub fn check_entry(crew: &mut Crew, symbol: &str) -> CheckAnswer {
    check(crew, case(symbol), entry(symbol))
}

pub fn got(answer: CheckAnswer) -> CheckFacts {
    match answer.check {
        Seen::Got(facts) => facts,
        other => panic!("{other:?}"),
    }
}

pub fn fault(answer: CheckAnswer) -> Fault {
    match answer.check {
        Seen::Fault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

pub fn assert_right(facts: &CheckFacts) {
    assert_eq!((facts.error.max_err, facts.error.non_finite), (Num(0.0), 0));
    assert_eq!((&facts.differs, facts.unwritten), (&None, 0));
    assert!(
        facts.clobbered_inputs.is_empty() && facts.overruns.is_empty(),
        "{facts:?}"
    );
}

pub fn assert_goes_on(crew: &mut Crew) {
    assert_right(&got(check_entry(crew, "right")));
}

pub fn y(index: usize) -> Location {
    Location {
        tensor: "y".into(),
        index: vec![index],
    }
}
