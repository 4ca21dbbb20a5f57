//! Every way in which there is no compiler has its own message. No test here downloads anything: python3
//! and nvcc are scripts.

use super::*;

/// A machine made of scripts.
struct Machine {
    dir: tempfile::TempDir,
    cache: Cache,
    search: Search,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            cache: Cache::at(&dir.path().join("cache")).unwrap(),
            search: Search {
                path: vec![dir.path().join("bin")],
                homes: vec![dir.path().join("cuda")],
                host_compiler: None,
            },
            dir,
        }
    }

    fn script(&self, name: &str, body: &str) {
        write_script(&self.dir.path().join(name), body);
    }

    fn gxx(&self) {
        self.script("bin/g++", "echo 'g++ (Debian 12.2.0) 12.2.0'; echo more");
    }

    /// A toolkit in `dir` whose nvcc has this version.
    fn toolkit(&self, dir: &str, version: &str) {
        toolkit(&self.dir.path().join(dir), version);
    }

    fn find(&self, pin: Option<&str>) -> Result<Toolchain> {
        find_in(pin, &self.cache, &self.search)
    }

    fn install(&self) -> Result<Toolchain> {
        install::install_in(PROVIDED, &self.cache, &|_| {}, &self.search)
    }

    /// The message without this test's directories.
    fn says(&self, result: Result<Toolchain>) -> String {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Environment(_)), "{error}");
        let cache = self.dir.path().join("cache").canonicalize().unwrap();
        error
            .to_string()
            .replace(&cache.display().to_string(), "CACHE")
            .replace(&self.dir.path().display().to_string(), "DIR")
    }
}

/// Another process writes it: a program that a test that runs at the same time starts inherits what is open for writing
/// here, until it executes, and the script could not be run as long ("Text file busy").
pub(crate) fn write_script(path: &Path, body: &str) {
    use std::process::Command;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let written = Command::new("/bin/sh")
        .args([
            "-c",
            "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"",
            "sh",
        ])
        .arg(path)
        .arg(body)
        .status();
    assert!(written.unwrap().success(), "{}", path.display());
}

fn toolkit(home: &Path, version: &str) {
    for part in [
        "bin/ptxas",
        "bin/cudafe++",
        "bin/fatbinary",
        "bin/nvlink",
        "bin/nvcc.profile",
        "nvvm/bin/cicc",
        "nvvm/libdevice/libdevice.10.bc",
    ] {
        let path = home.join(part);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, part).unwrap();
    }
    write_script(
        &home.join("bin/nvcc"),
        &format!(
            "home=$(dirname $(dirname $0))\n\
             case $1 in\n\
             --version) echo 'Cuda compilation tools, release x, V{version}';;\n\
             --dryrun) echo \"#$ _HERE_=$home/bin\"; echo \"#$ TOP=$home/bin/..\"\n\
             echo \"#$ CICC_PATH=$home/bin/../nvvm/bin\"; echo \"#$ NVVMIR_LIBRARY_DIR=$home/bin/../nvvm/libdevice\";;\n\
             esac"
        ),
    );
}

/// A pip that installs a fake toolkit, and counts how often.
fn pip(machine: &Machine, install: &str) {
    let new = machine.dir.path().join("wheel/nvidia/cu13");
    toolkit(&new, "13.0.88");
    let count = machine.dir.path().join("pip-calls");
    machine.script(
        "bin/python3",
        &format!(
            "if [ \"$5\" = --version ]; then exit 0; fi\n\
             echo \"$TMPDIR $PWD $*\" >> {count}\n\
             while [ \"$1\" != --target ]; do shift; done\n\
             cp $4 {count}.requirements\n\
             mkdir -p $2; cp -r {wheel}/nvidia $2/; {install}",
            count = count.display(),
            wheel = machine.dir.path().join("wheel").display(),
        ),
    );
}

fn pip_calls(machine: &Machine) -> usize {
    std::fs::read_to_string(machine.dir.path().join("pip-calls"))
        .map_or(0, |text| text.lines().count())
}

#[test]
fn pins_match_whole_parts() {
    for (version, pin, want) in [
        ("13.0.88", "13", true),
        ("13.0.88", "13.0", true),
        ("13.0.88", "13.0.88", true),
        ("13.0.88", "13.0.8", false),
        ("13.0.88", "13.0.88.1", false),
        ("13.0.88", "1", false),
        ("12.8.93", "13.0", false),
    ] {
        assert_eq!(matches_pin(version, pin), want, "{version} {pin}");
    }
}

#[test]
fn a_machine_without_a_compiler_hears_both_ways_out() {
    let machine = Machine::new();
    machine.gxx();
    insta::assert_snapshot!(machine.says(machine.find(None)), @"
no CUDA compiler: nvcc is neither provisioned nor on PATH, in CUDA_HOME or in /usr/local/cuda
  help: run with --provision, or install CUDA 13 and put nvcc on PATH
");
    insta::assert_snapshot!(machine.says(machine.find(Some("13.0"))), @"
no CUDA compiler: gates.yaml pins nvcc 13.0, which is neither provisioned nor on PATH, in CUDA_HOME or in /usr/local/cuda
  help: run with --provision, or install CUDA 13.0 and put nvcc on PATH
");
    machine.toolkit("cuda", "12.4.131");
    insta::assert_snapshot!(machine.says(machine.find(Some("13.0"))), @"
gates.yaml pins nvcc 13.0; DIR/cuda/bin/nvcc is 12.4.131
  help: run with --provision, or install CUDA 13.0 and put nvcc on PATH
");
    insta::assert_snapshot!(machine.says(machine.find(Some("11.8"))), @"
gates.yaml pins nvcc 11.8; DIR/cuda/bin/nvcc is 12.4.131
  help: install CUDA 11.8 and put its nvcc on PATH
  help: or pin 13.0 or newer in gates.yaml: --provision installs no older one
");
}

#[test]
fn no_host_compiler_is_its_own_message() {
    let machine = Machine::new();
    machine.toolkit("cuda", "13.0.88");
    insta::assert_snapshot!(machine.says(machine.find(None)), @"
no host compiler: nvcc needs a C++ compiler, and neither g++, c++ nor clang++ is on PATH
  help: install one, for example `apt-get install g++`
  help: or set NVCC_CCBIN to the path of one
");
    // Said before anything is downloaded.
    assert_eq!(
        machine.says(machine.install()),
        machine.says(machine.find(None))
    );
    let mut wanted = machine;
    wanted.search.host_compiler = Some("g++-99".into());
    insta::assert_snapshot!(wanted.says(wanted.find(None)), @"
NVCC_CCBIN names g++-99, which is not a program
  help: unset NVCC_CCBIN, or set it to a C++ compiler
");
}

#[test]
fn path_then_homes_and_the_pin_wins() {
    let machine = Machine::new();
    machine.gxx();
    machine.toolkit("cuda", "13.0.88");
    assert_eq!(machine.find(None).unwrap().facts.version, "13.0.88");
    machine.toolkit("elsewhere", "12.8.93");
    let on_path = machine.dir.path().join("elsewhere/bin/nvcc");
    machine.script("bin/nvcc", &format!("exec {} \"$@\"", on_path.display()));
    // PATH first; a pin passes it over.
    assert_eq!(machine.find(None).unwrap().facts.version, "12.8.93");
    assert_eq!(machine.find(Some("13.0")).unwrap().facts.version, "13.0.88");
    // The wrapper's toolkit was asked for, not guessed from the wrapper's place.
    assert!(
        machine
            .find(Some("12"))
            .unwrap()
            .include
            .starts_with(machine.dir.path().join("elsewhere"))
    );
    assert_eq!(
        machine.find(None).unwrap().facts.host,
        "g++ (Debian 12.2.0) 12.2.0"
    );
}

#[test]
fn a_part_that_changes_changes_the_digest() {
    let machine = Machine::new();
    machine.gxx();
    machine.toolkit("cuda", "13.0.88");
    let digest = || machine.find(None).unwrap().facts.digest;
    let first = digest();
    assert_eq!(digest(), first);
    for part in [
        "bin/ptxas",
        "nvvm/bin/cicc",
        "nvvm/libdevice/libdevice.10.bc",
    ] {
        let file = machine.dir.path().join("cuda").join(part);
        let (was, before) = (
            std::fs::read(&file).unwrap(),
            std::fs::metadata(&file).unwrap().modified().unwrap(),
        );
        // Same size and the same time: only the change time and the content tell.
        let mut other = was.clone();
        other[0] ^= 1;
        std::fs::write(&file, &other).unwrap();
        std::fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(before)
            .unwrap();
        assert_ne!(digest(), first, "{part}");
        std::fs::write(&file, &was).unwrap();
        assert_eq!(digest(), first, "{part}");
    }
    std::fs::remove_file(machine.dir.path().join("cuda/nvvm/bin/cicc")).unwrap();
    insta::assert_snapshot!(machine.says(machine.find(None)), @"
nvcc at DIR/cuda/bin/nvcc is incomplete: cicc is not at DIR/cuda/bin/../nvvm/bin/cicc: No such file or directory (os error 2)
  help: install the whole toolkit, or run with --provision
");
}

#[test]
fn a_broken_nvcc_is_not_passed_over() {
    let machine = Machine::new();
    machine.gxx();
    machine.script("bin/nvcc", "echo 'cannot execute' >&2; exit 127");
    insta::assert_snapshot!(machine.says(machine.find(None)), @"
DIR/bin/nvcc does not work: exit code 127: cannot execute
  help: repair it, take it off PATH, or run with --provision
");
    machine.script("bin/nvcc", "echo hello");
    insta::assert_snapshot!(machine.says(machine.find(None)), @"
DIR/bin/nvcc does not work: no version in `nvcc --version`: hello
  help: repair it, take it off PATH, or run with --provision
");
}

#[test]
fn an_install_is_made_once_and_stays_in_the_cache() {
    let machine = Machine::new();
    machine.gxx();
    pip(&machine, "true");
    // The leftovers of a killed install are removed.
    let left_behind = machine
        .dir
        .path()
        .join("cache/toolchains/.gatekeeper-1-x/new");
    std::fs::create_dir_all(&left_behind).unwrap();
    let toolchain = machine.install().unwrap();
    assert_eq!(toolchain.facts.version, "13.0.88");
    let cache = machine.dir.path().join("cache").canonicalize().unwrap();
    assert!(toolchain.nvcc.starts_with(&cache));
    assert_eq!(machine.install().unwrap(), toolchain);
    assert_eq!(pip_calls(&machine), 1);
    let said = std::fs::read_to_string(machine.dir.path().join("pip-calls")).unwrap();
    assert!(
        said.starts_with(&cache.display().to_string()),
        "TMPDIR: {said}"
    );
    let started = said.split(' ').nth(1);
    assert_eq!(started, Some("/"), "no directory of a checkout: {said}");
    assert!(
        said.contains(" -I -B -m pip --disable-pip-version-check install "),
        "{said}"
    );
    assert!(said.contains(" --require-hashes "), "{said}");
    let asked = machine.dir.path().join("pip-calls.requirements");
    let asked = std::fs::read_to_string(asked).unwrap();
    assert_eq!(asked.lines().count(), 5);
    for line in asked.lines() {
        let (wheel, digests) = line.split_once(" --hash=sha256:").unwrap();
        assert!(wheel.contains("==13.0."), "{line}");
        let digests: Vec<_> = digests.split(" --hash=sha256:").collect();
        assert_eq!(
            digests.iter().map(|it| it.len()).collect::<Vec<_>>(),
            [64, 64]
        );
    }
    // No staging directory is left.
    let left: Vec<_> = std::fs::read_dir(cache.join("toolchains"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".gatekeeper-")),
        "{left:?}"
    );
    // A provisioned compiler needs no pin to be preferred.
    machine.toolkit("cuda", "12.8.93");
    assert_eq!(machine.find(None).unwrap(), toolchain);
}

/// `uvx gatekeeper run --provision`: the first python on PATH is one that uv has made, without pip.
#[test]
fn installs_with_another_python_or_uv_if_the_first_has_no_pip() {
    let mut machine = Machine::new();
    machine.gxx();
    pip(&machine, "true");
    machine.script("tool/python3", "echo 'No module named pip' >&2; exit 1");
    machine
        .search
        .path
        .insert(0, machine.dir.path().join("tool"));
    machine.install().unwrap();
    assert_eq!(pip_calls(&machine), 1);

    let mut machine = Machine::new();
    machine.gxx();
    pip(&machine, "true");
    let bin = machine.dir.path().join("bin");
    std::fs::rename(bin.join("python3"), bin.join("uv")).unwrap();
    machine.script("tool/python3", "echo 'No module named pip' >&2; exit 1");
    machine
        .search
        .path
        .insert(0, machine.dir.path().join("tool"));
    machine.install().unwrap();
    let said = std::fs::read_to_string(machine.dir.path().join("pip-calls")).unwrap();
    assert!(said.contains(" pip install --no-deps"), "{said}");
    machine.script("bin/uv", "echo 'no such host' >&2; exit 2");
    std::fs::remove_dir_all(machine.dir.path().join("cache/toolchains")).unwrap();
    insta::assert_snapshot!(machine.says(machine.install()), @"
    uv could not install CUDA:
    no such host
      help: check the network, or set UV_DEFAULT_INDEX or UV_FIND_LINKS to a mirror
      help: or install CUDA 13 by hand and put nvcc on PATH
    ");
}

#[test]
fn a_truncated_install_is_made_again() {
    let machine = Machine::new();
    machine.gxx();
    pip(&machine, "true");
    let nvcc = machine.install().unwrap().nvcc;
    let home = nvcc.ancestors().nth(4).unwrap().to_owned();
    let remove = |file: &str| std::fs::remove_file(home.join(file)).unwrap();
    let write = |file: &str, text: &str| std::fs::write(home.join(file), text).unwrap();
    let damages: [&dyn Fn(); 4] = [
        &|| remove("complete.json"),
        &|| write("nvidia/cu13/bin/ptxas", ""),
        &|| remove("nvidia/cu13/nvvm/bin/cicc"),
        &|| write("complete.json", "{\"files\":{}}"),
    ];
    for (turn, damage) in damages.into_iter().enumerate() {
        damage();
        assert!(machine.find(None).is_err(), "{turn}");
        assert_eq!(machine.install().unwrap().nvcc, nvcc);
        assert_eq!(pip_calls(&machine), turn + 2);
    }
}

#[test]
fn two_installs_at_once_are_one() {
    let machine = Machine::new();
    machine.gxx();
    pip(&machine, "sleep 0.3");
    let (a, b) = std::thread::scope(|scope| {
        let other = scope.spawn(|| machine.install().unwrap());
        (machine.install().unwrap(), other.join().unwrap())
    });
    assert_eq!(a, b);
    assert_eq!(pip_calls(&machine), 1);
}

#[test]
fn every_way_in_which_provisioning_fails() {
    let machine = Machine::new();
    machine.gxx();
    insta::assert_snapshot!(machine.says(machine.install()), @"
installing CUDA needs python3 with pip, and there is no python3 on PATH
  help: install it, for example `apt-get install python3-pip`
  help: or install CUDA 13 by hand and put nvcc on PATH
");
    machine.script("bin/python3", "echo 'No module named pip' >&2; exit 1");
    insta::assert_snapshot!(machine.says(machine.install()), @"
installing CUDA needs pip, and DIR/bin/python3 has none (exit code 1: No module named pip)
  help: install it, for example `apt-get install python3-pip` or `python3 -m ensurepip`
  help: or install CUDA 13 by hand and put nvcc on PATH
");
    machine.script(
        "bin/python3",
        "[ \"$5\" = --version ] || { echo 'WARNING: Retrying' >&2; echo 'ERROR: No matching distribution found' >&2; exit 1; }",
    );
    insta::assert_snapshot!(machine.says(machine.install()), @"
pip could not install CUDA:
WARNING: Retrying
ERROR: No matching distribution found
  help: check the network, or set PIP_INDEX_URL or PIP_FIND_LINKS to a mirror
  help: or install CUDA 13 by hand and put nvcc on PATH
");
    pip(&machine, "rm $2/nvidia/cu13/bin/nvcc");
    insta::assert_snapshot!(machine.says(machine.install()), @"
the wheels contain no nvidia/cu13/bin/nvcc for this platform
  help: install CUDA 13 by hand and put nvcc on PATH
");
    assert!(machine.find(None).is_err());
    // And then it works.
    pip(&machine, "true");
    machine.install().unwrap();
}

#[test]
fn progress_is_pips() {
    let machine = Machine::new();
    machine.gxx();
    pip(
        &machine,
        "echo Collecting nvidia-nvvm; echo '  Downloading nvidia_nvvm-13.0.88-py3-none-any.whl (60 MB)'; echo noise",
    );
    let lines = std::sync::Mutex::new(Vec::new());
    install::install_in(
        PROVIDED,
        &machine.cache,
        &|line| lines.lock().unwrap().push(line.to_owned()),
        &machine.search,
    )
    .unwrap();
    insta::assert_snapshot!(lines.into_inner().unwrap().join("\n"), @"
installing CUDA 13.0.88 (105 to 130 MB to fetch, up to 350 MB on disk)
downloading nvidia_nvvm, 60 MB (1 of 5)
installed CUDA 13.0.88
");
}
