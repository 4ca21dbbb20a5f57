//! Tests every way in which there is no compiler. Each has its own message. No test here downloads anything: python3
//! and nvcc are scripts.

use super::*;
use model::Component;

/// A machine whose programs are scripts.
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
        write_script(&self.path(name), body);
    }

    fn with_gxx() -> Self {
        let machine = Self::new();
        machine.script("bin/g++", "echo 'g++ (Debian 12.2.0) 12.2.0'; echo more");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a toolkit in `dir` whose nvcc has this version.
    fn toolkit(&self, dir: &str, version: &str) {
        toolkit(&self.path(dir), version);
    }

    fn find(&self, pin: Option<&str>) -> Result<Toolchain> {
        find_in(pin, &self.cache, &self.search)
    }

    fn install(&self) -> Result<Toolchain> {
        install::install_in(PROVIDED, &self.cache, &|_| {}, &self.search)
    }

    /// Returns the message without this test's directories.
    fn says(&self, result: Result<Toolchain>) -> String {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Environment(_)), "{error}");
        let cache = self.path("cache").canonicalize().unwrap();
        error
            .to_string()
            .replace(&cache.display().to_string(), "CACHE")
            .replace(&self.dir.path().display().to_string(), "DIR")
    }
}

/// Writes a script in another process. Otherwise a program that a concurrent test starts would inherit the file that is
/// open for writing here, until it executes, and in the meantime the script could not be run ("Text file busy").
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
    let bin = home.join("bin");
    let says = [
        format!("_HERE_={}", bin.display()),
        format!("TOP={}/..", bin.display()),
        format!("CICC_PATH={}/../nvvm/bin", bin.display()),
        format!("NVVMIR_LIBRARY_DIR={}/../nvvm/libdevice", bin.display()),
    ];
    let nvvm = ["nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"];
    write_parts(home, &nvvm);
    let in_bin = ["ptxas", "cudafe++", "fatbinary", "nvlink", "nvcc.profile"];
    write_parts(&bin, &in_bin);
    write_nvcc(&bin.join("nvcc"), version, &says);
}

/// Makes a toolkit of CUDA 11.8 to 12.4 as NVIDIA installs it: cicc is found by PATH, and the headers are below
/// `targets`.
fn toolkit_before_12_5(home: &Path, version: &str) {
    toolkit(home, version);
    let bin = home.join("bin");
    for program in [bin.join("ptxas"), home.join("nvvm/bin/cicc")] {
        write_script(&program, "");
    }
    let target = "targets/x86_64-linux";
    write_parts(&home.join(target), &["include/cuda_runtime.h"]);
    let bin = bin.display();
    let says = [
        format!("_HERE_={bin}"),
        format!("TOP={bin}/.."),
        format!("NVVMIR_LIBRARY_DIR={bin}/../nvvm/libdevice"),
        format!("PATH={bin}/../nvvm/bin:{bin}:/usr/bin"),
        format!("INCLUDES=\"-I{bin}/../{target}/include\"  "),
        format!("LIBRARIES=  \"-L{bin}/../{target}/lib/stubs\" \"-L{bin}/../{target}/lib\""),
    ];
    write_nvcc(&home.join("bin/nvcc"), version, &says);
}

/// Makes a toolkit of CUDA 11.8 to 12.4 as Debian installs it: spread over `usr`, with cicc next to the nvcc that a
/// wrapper starts.
fn toolkit_of_debian(usr: &Path, version: &str) {
    let own = usr.join("lib/nvidia-cuda-toolkit");
    write_parts(&own, &["libdevice/libdevice.10.bc", "bin/nvcc.profile"]);
    write_script(&own.join("bin/cicc"), "");
    for program in ["ptxas", "cudafe++", "fatbinary", "nvlink"] {
        write_script(&usr.join("bin").join(program), "");
    }
    write_parts(
        usr,
        &["include/cuda_runtime.h", "lib/x86/libcudart_static.a"],
    );
    let (own, usr_) = (own.display(), usr.display());
    let says = [
        format!("_HERE_={own}/bin"),
        format!("NVVMIR_LIBRARY_DIR={own}/libdevice"),
        format!("PATH={own}/bin:{usr_}/bin"),
        format!("INCLUDES=-I{usr_}/include"),
        format!("LIBRARIES=  -L{usr_}/lib/x86/stubs -L{usr_}/lib/x86"),
    ];
    let nvcc = usr.join("lib/nvidia-cuda-toolkit/bin/nvcc");
    write_nvcc(&nvcc, version, &says);
    let wrapper = format!("exec {} \"$@\"", nvcc.display());
    write_script(&usr.join("bin/nvcc"), &wrapper);
}

fn write_parts(dir: &Path, parts: &[&str]) {
    for part in parts {
        let path = dir.join(part);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, part).unwrap();
    }
}

/// Makes an nvcc that prints these lines to say where its parts are.
fn write_nvcc(nvcc: &Path, version: &str, says: &[String]) {
    let says: String = says.iter().map(|line| format!("#$ {line}\n")).collect();
    write_script(
        nvcc,
        &format!(
            "case $1 in\n\
             --version) echo 'Cuda compilation tools, release x, V{version}';;\n\
             --dryrun) cat <<'END'\n{says}END\n;;\n\
             esac"
        ),
    );
}

/// Makes a pip that installs a fake toolkit, and counts its calls.
fn pip(machine: &Machine, install: &str) {
    let new = machine.path("wheel/nvidia/cu13");
    toolkit(&new, "13.0.88");
    let count = machine.path("pip-calls");
    machine.script(
        "bin/python3",
        &format!(
            "if [ \"$5\" = --version ]; then exit 0; fi\n\
             echo \"$TMPDIR $PWD $*\" >> {count}\n\
             while [ \"$1\" != --target ]; do shift; done\n\
             cp $4 {count}.requirements\n\
             mkdir -p $2; cp -r {wheel}/nvidia $2/; {install}",
            count = count.display(),
            wheel = machine.path("wheel").display(),
        ),
    );
}

fn pip_calls(machine: &Machine) -> usize {
    std::fs::read_to_string(machine.path("pip-calls")).map_or(0, |text| text.lines().count())
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
    let machine = Machine::with_gxx();
    insta::assert_snapshot!(machine.says(machine.find(None)));
    insta::assert_snapshot!(machine.says(machine.find(Some("13.0"))));
    machine.toolkit("cuda", "12.4.131");
    insta::assert_snapshot!(machine.says(machine.find(Some("13.0"))));
    insta::assert_snapshot!(machine.says(machine.find(Some("11.8"))));
}

#[test]
fn no_host_compiler_is_its_own_message() {
    let machine = Machine::new();
    machine.toolkit("cuda", "13.0.88");
    insta::assert_snapshot!(machine.says(machine.find(None)));
    // Said before anything is downloaded.
    assert_eq!(
        machine.says(machine.install()),
        machine.says(machine.find(None))
    );
    let mut wanted = machine;
    wanted.search.host_compiler = Some("g++-99".into());
    insta::assert_snapshot!(wanted.says(wanted.find(None)));
}

#[test]
fn path_then_homes_and_the_pin_wins() {
    let machine = Machine::with_gxx();
    machine.toolkit("cuda", "13.0.88");
    assert_eq!(machine.find(None).unwrap().facts.version, "13.0.88");
    machine.toolkit("elsewhere", "12.8.93");
    let on_path = machine.path("elsewhere/bin/nvcc");
    machine.script("bin/nvcc", &format!("exec {} \"$@\"", on_path.display()));
    // PATH first; a pin passes it over.
    assert_eq!(machine.find(None).unwrap().facts.version, "12.8.93");
    assert_eq!(machine.find(Some("13.0")).unwrap().facts.version, "13.0.88");
    // The wrapper's toolkit was found by asking the wrapper, not guessed from its path.
    assert!(
        machine
            .find(Some("12"))
            .unwrap()
            .include
            .starts_with(machine.path("elsewhere"))
    );
    assert_eq!(
        machine.find(None).unwrap().facts.host,
        "g++ (Debian 12.2.0) 12.2.0"
    );
}

#[test]
fn a_part_that_changes_changes_the_digest() {
    let machine = Machine::with_gxx();
    machine.toolkit("cuda", "13.0.88");
    let digest = || machine.find(None).unwrap().facts.digest;
    let first = digest();
    assert_eq!(digest(), first);
    for part in [
        "bin/ptxas",
        "nvvm/bin/cicc",
        "nvvm/libdevice/libdevice.10.bc",
    ] {
        let file = machine.path("cuda").join(part);
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
    std::fs::remove_file(machine.path("cuda/nvvm/bin/cicc")).unwrap();
    insta::assert_snapshot!(machine.says(machine.find(None)));
}

/// Changes a file, and returns whether that makes another compiler of it.
fn is_part(machine: &Machine, file: &str) -> bool {
    let digest = || machine.find(None).unwrap().facts.digest;
    let (before, file) = (digest(), machine.path(file));
    let was = std::fs::read(&file).unwrap();
    std::fs::write(&file, [&was[..], b"\n"].concat()).unwrap();
    let after = digest();
    std::fs::write(&file, &was).unwrap();
    assert_eq!(digest(), before);
    after != before
}

#[test]
fn cicc_of_a_release_before_12_5_is_found_by_the_path_of_nvcc() {
    let machine = Machine::with_gxx();
    toolkit_before_12_5(&machine.path("cuda"), "12.4.131");
    // Another program of the name is not the one that nvcc starts.
    machine.script("bin/cicc", "");
    for part in ["nvvm/bin/cicc", "bin/ptxas", "bin/nvcc.profile"] {
        assert!(is_part(&machine, &format!("cuda/{part}")), "{part}");
    }
    assert!(!is_part(&machine, "bin/cicc"));
    let found = machine.find(None).unwrap();
    let home = machine.path("cuda");
    let include = home.join("bin/../targets/x86_64-linux/include");
    assert_eq!(found.include, include);
    assert_eq!(found.library_dir, None);
    let home = home.canonicalize().unwrap();
    for place in [home.clone(), home.join("nvvm"), home.join("bin/nvcc")] {
        assert!(found.places().contains(&place), "{}", place.display());
    }
    std::fs::remove_file(home.join("nvvm/bin/cicc")).unwrap();
    insta::assert_snapshot!(machine.says(machine.find(None)));
}

#[test]
fn a_toolkit_spread_over_usr_as_debian_has_it_is_found_whole() {
    let mut machine = Machine::with_gxx();
    toolkit_of_debian(&machine.path("usr"), "12.4.131");
    machine.search.homes = vec![machine.path("usr")];
    for part in [
        "bin/nvcc",
        "bin/ptxas",
        "lib/nvidia-cuda-toolkit/bin/cicc",
        "lib/nvidia-cuda-toolkit/bin/nvcc",
        "lib/x86/libcudart_static.a",
    ] {
        assert!(is_part(&machine, &format!("usr/{part}")), "{part}");
    }
    let found = machine.find(None).unwrap();
    let usr = machine.path("usr");
    assert_eq!(found.include, usr.join("include"));
    assert_eq!(found.library_dir, Some(usr.join("lib/x86")));
    let own = usr.canonicalize().unwrap().join("lib/nvidia-cuda-toolkit");
    assert!(found.places().contains(&own), "{:?}", found.places());
}

#[test]
fn part_of_a_release_before_12_5_goes_into_a_composed_compiler() {
    let machine = Machine::with_gxx();
    let home = |name: &str| machine.path(name);
    toolkit(&home("cuda"), "13.0.88");
    toolkit_of_debian(&home("usr"), "12.4.131");
    // It looks for its parts around itself, wherever that is.
    let from_home = "here=$(dirname $0)\n\
        case $1 in\n\
        --version) echo 'Cuda compilation tools, release x, V12.8.93';;\n\
        --dryrun) echo \"#$ _HERE_=$here\"; echo \"#$ TOP=$here/..\"; echo \"#$ PATH=$here/../nvvm/bin:$here\"\n\
        echo \"#$ INCLUDES=-I$here/../include\"; echo \"#$ NVVMIR_LIBRARY_DIR=$here/../nvvm/libdevice\";;\n\
        esac";
    toolkit_before_12_5(&home("cuda-12"), "12.8.93");
    write_parts(&home("cuda-12"), &["include/cuda_runtime.h"]);
    write_script(&home("cuda-12/bin/nvcc"), from_home);
    let composed = |whole: &str, part: Component, from: &str| {
        let source = |name: &str| {
            find_source(
                &CompilerOrigin::Home(home(name)),
                &machine.cache,
                &machine.search,
            )
        };
        let parts = BTreeMap::from([(part, source(from)?)]);
        compose::compose(source(whole)?, &parts, &machine.cache, &machine.search)
    };
    for (part, from, place) in [
        (
            Component::Nvvm,
            "usr",
            "usr/lib/nvidia-cuda-toolkit/bin/cicc",
        ),
        (Component::Ptxas, "usr", "usr/bin/ptxas"),
        (Component::Headers, "usr", "usr/include"),
    ] {
        let made = composed("cuda-12", part, from).unwrap();
        let version = format!("12.8.93+{part}12.4.131");
        assert_eq!(made.facts.version, version);
        let place = home(place).canonicalize().unwrap();
        let include = made.include.canonicalize().unwrap();
        let taken = made.programs.iter().chain([&include]);
        assert!(taken.into_iter().any(|own| *own == place), "{made:?}");
    }
    // Debian's nvcc names its parts by whole paths.
    insta::assert_snapshot!(machine.says(composed("usr", Component::Ptxas, "cuda")));
}

#[test]
fn an_nvcc_older_than_11_8_is_refused_with_the_range() {
    let machine = Machine::with_gxx();
    toolkit_before_12_5(&machine.path("cuda"), "11.7.99");
    insta::assert_snapshot!(machine.says(machine.find(None)));
    assert_eq!(
        machine.says(machine.find(Some("11.7"))),
        machine.says(machine.find(None))
    );
    insta::assert_snapshot!(machine.says(machine.find(Some("11.4"))));
    for supported in ["11.8.89", "12.0.76", "12.9.41", "13.9.0"] {
        toolkit_before_12_5(&machine.path("cuda"), supported);
        assert_eq!(machine.find(None).unwrap().facts.version, supported);
    }
}

#[test]
fn a_broken_nvcc_is_not_passed_over() {
    let machine = Machine::with_gxx();
    machine.script("bin/nvcc", "echo 'cannot execute' >&2; exit 127");
    insta::assert_snapshot!(machine.says(machine.find(None)));
    machine.script("bin/nvcc", "echo hello");
    insta::assert_snapshot!(machine.says(machine.find(None)));
}

#[test]
fn an_install_is_made_once_and_stays_in_the_cache() {
    let machine = Machine::with_gxx();
    pip(&machine, "true");
    // The leftovers of a killed install are removed.
    let left_behind = machine
        .dir
        .path()
        .join("cache/toolchains/.gatekeeper-1-x/new");
    std::fs::create_dir_all(&left_behind).unwrap();
    let toolchain = machine.install().unwrap();
    assert_eq!(toolchain.facts.version, "13.0.88");
    let cache = machine.path("cache").canonicalize().unwrap();
    assert!(toolchain.nvcc.starts_with(&cache));
    assert_eq!(machine.install().unwrap(), toolchain);
    assert_eq!(pip_calls(&machine), 1);
    let said = std::fs::read_to_string(machine.path("pip-calls")).unwrap();
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
    let asked = machine.path("pip-calls.requirements");
    let asked = std::fs::read_to_string(asked).unwrap();
    assert_eq!(asked.lines().count(), 5);
    for line in asked.lines() {
        let (wheel, digests) = line.split_once(" --hash=sha256:").unwrap();
        assert!(wheel.contains("==13.0."), "{line}");
        let digests: Vec<_> = digests.split(" --hash=sha256:").collect();
        assert_eq!(
            digests
                .iter()
                .map(|digest| digest.len())
                .collect::<Vec<_>>(),
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

/// Runs the equivalent of `uvx gatekeeper run --provision`: the first python on PATH was made by uv, without pip.
#[test]
fn installs_with_another_python_or_uv_if_the_first_has_no_pip() {
    let mut machine = Machine::with_gxx();
    pip(&machine, "true");
    machine.script("tool/python3", "echo 'No module named pip' >&2; exit 1");
    machine.search.path.insert(0, machine.path("tool"));
    machine.install().unwrap();
    assert_eq!(pip_calls(&machine), 1);

    let mut machine = Machine::with_gxx();
    pip(&machine, "true");
    let bin = machine.path("bin");
    std::fs::rename(bin.join("python3"), bin.join("uv")).unwrap();
    machine.script("tool/python3", "echo 'No module named pip' >&2; exit 1");
    machine.search.path.insert(0, machine.path("tool"));
    machine.install().unwrap();
    let said = std::fs::read_to_string(machine.path("pip-calls")).unwrap();
    assert!(said.contains(" pip install --no-deps"), "{said}");
    machine.script("bin/uv", "echo 'no such host' >&2; exit 2");
    std::fs::remove_dir_all(machine.path("cache/toolchains")).unwrap();
    insta::assert_snapshot!(machine.says(machine.install()));
}

#[test]
fn a_truncated_install_is_made_again() {
    let machine = Machine::with_gxx();
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
    let machine = Machine::with_gxx();
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
    let machine = Machine::with_gxx();
    insta::assert_snapshot!(machine.says(machine.install()));
    machine.script("bin/python3", "echo 'No module named pip' >&2; exit 1");
    insta::assert_snapshot!(machine.says(machine.install()));
    machine.script(
        "bin/python3",
        "[ \"$5\" = --version ] || { echo 'WARNING: Retrying' >&2; echo 'ERROR: No matching distribution found' >&2; exit 1; }",
    );
    insta::assert_snapshot!(machine.says(machine.install()));
    pip(&machine, "rm $2/nvidia/cu13/bin/nvcc");
    insta::assert_snapshot!(machine.says(machine.install()));
    assert!(machine.find(None).is_err());
    // Now the install works.
    pip(&machine, "true");
    machine.install().unwrap();
}

#[test]
fn progress_is_pips() {
    let machine = Machine::with_gxx();
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
    insta::assert_snapshot!(lines.into_inner().unwrap().join("\n"));
}
