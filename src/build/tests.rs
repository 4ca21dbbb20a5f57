//! Real nvcc over small sources; the compiler itself is replaced only where a test counts its calls.

use super::*;
use crate::toolchain::testing;
use std::collections::BTreeMap;
use verdict::model::{CType, FaultKind, LaunchedEntry, ScalarType, UnitId};

pub(super) struct Bench {
    pub root: tempfile::TempDir,
    pub cache: Cache,
    _cache_dir: tempfile::TempDir,
}

impl Bench {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let cache_dir = tempfile::tempdir().unwrap();
        let bench = Self {
            root: tempfile::tempdir().unwrap(),
            cache: Cache::at(cache_dir.path()).unwrap(),
            _cache_dir: cache_dir,
        };
        for (name, text) in files {
            bench.write(name, text);
        }
        bench
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn build_with(&self, toolchain: &Toolchain, units: &[Unit]) -> Vec<Built> {
        build_all(
            self.root.path(),
            toolchain,
            &self.cache,
            units,
            2,
            &|_, _| {},
        )
        .unwrap()
    }

    pub fn build(&self, units: &[Unit]) -> Vec<Built> {
        self.build_with(&testing::toolchain(), units)
    }

    pub fn one(&self, unit: &Unit) -> Built {
        self.build(std::slice::from_ref(unit)).remove(0)
    }
}

pub(super) fn unit(source: &str, arch: &str, call: Callable) -> Unit {
    Unit {
        id: UnitId {
            kernel: "k".into(),
            variant: "base".into(),
            arch: arch.parse().unwrap(),
        },
        source: source.into(),
        include_dirs: Vec::new(),
        defines: BTreeMap::new(),
        flags: Vec::new(),
        call,
    }
}

pub(super) fn entry(source: &str, name: &str) -> Unit {
    unit(source, "sm_90", Callable::Entry { name: name.into() })
}

pub(super) fn got(built: &Built) -> &BuildFacts {
    built
        .facts
        .got()
        .unwrap_or_else(|| panic!("{:?}", built.facts))
}

fn fault(built: &Built) -> (FaultKind, String) {
    match &built.facts {
        Seen::Fault(fault) => (fault.kind, fault.message.clone()),
        other => panic!("no fault: {other:?}"),
    }
}

const NAMES: &str = r#"
extern "C" __global__ void plain(int* o) { *o = 1; }
template <typename T, int N> __global__ void fill(T* o) { o[threadIdx.x] = N; }
namespace ns {
__global__ void inside(int* o) { *o = 2; }
namespace { __global__ void hidden(int* o) { *o = 3; } }
void use() { hidden<<<1, 1>>>(nullptr); }
template <int A, int B = A + 1> __global__ void twice(float* o) { *o = A * B; }
}
static __global__ void local(int* o) { *o = 4; }
void use() { local<<<1, 1>>>(nullptr); }
__global__ void over(float* o) { *o = 1; }
__global__ void over(double* o) { *o = 1; }
"#;

#[test]
fn every_kind_of_name_resolves() {
    let bench = Bench::new(&[("src/names.cu", NAMES)]);
    let names = [
        ("plain", "plain"),
        ("ns::inside", "_ZN2ns6insideEPi"),
        ("_ZN2ns6insideEPi", "_ZN2ns6insideEPi"),
        ("fill<float, 4>", "_Z4fillIfLi4EEvPT_"),
        ("fill<double,2*TWO>", "_Z4fillIdLi4EEvPT_"),
        ("ns::twice<3>", "_ZN2ns5twiceILi3ELi4EEEvPf"),
        ("over(double*)", "_Z4overPd"),
        ("local", "_Z5localPi"),
    ];
    let units: Vec<Unit> = names
        .iter()
        .map(|(name, _)| Unit {
            defines: [("TWO".to_owned(), "2".to_owned())].into(),
            ..entry("src/names.cu", name)
        })
        .collect();
    for (built, (name, symbol)) in bench.build(&units).iter().zip(names) {
        let facts = got(built);
        assert_eq!(facts.entries[0].name, name);
        assert_eq!(facts.entries[0].symbol, symbol);
        assert!(facts.entries[0].resources.registers > 0);
        assert!(
            matches!(&built.artifact, Some(Artifact::Cubin { path, symbol: s }) if path.is_file() && s == symbol)
        );
    }
    let hidden = bench.one(&entry("src/names.cu", "ns::hidden"));
    assert!(got(&hidden).entries[0].symbol.contains("hidden"));
}
