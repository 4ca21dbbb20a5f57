//! Tests `gatekeeper binary`. It must say of the kernels of a compiled file what PTXAS reported when it made them,
//! whatever the container is, and no file, however damaged, may end in a panic.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use build::ptxas::PtxasReport;
use common::{root, run, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Kernels with a stack, static shared memory, barriers, bounds, and a function that is not inlined, and one that needs
/// none of these.
const SOURCE: &str = r#"
__constant__ float table[32];
__device__ __noinline__ float helper(float x, int n) {
    float a[64];
    for (int i = 0; i < n; i++) a[i & 63] = x * i;
    float sum = 0;
    for (int i = 0; i < 64; i++) sum += a[(i * n) & 63];
    return sum;
}
template <typename T> __global__ void __launch_bounds__(256) tile(T *p) {
    __shared__ T s[128];
    s[threadIdx.x & 127] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = s[(threadIdx.x * 7) & 127] + table[threadIdx.x & 31];
}
template __global__ void tile<float>(float *);
template __global__ void tile<double>(double *);
extern "C" __global__ void calls(float *p, int n) { p[threadIdx.x] = helper(p[threadIdx.x], n); }
extern "C" __global__ void empty() {}
extern "C" __global__ void dynamic(float *p) {
    extern __shared__ float s[];
    s[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = s[threadIdx.x ^ 1];
}
"#;

/// Runs nvcc in `dir`, and returns what PTXAS printed.
pub fn nvcc(dir: &Path, args: &[&str]) -> String {
    let nvcc = build::toolchain::testing::toolchain().nvcc;
    let output = Command::new(nvcc).current_dir(dir).args(args).output();
    let output = output.unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{args:?}\n{said}");
    stdout(&output) + &said
}

/// Runs nvcc in `dir`, or reuses what it made before of the same source. If there is a header next to the source, or if
/// line tables are requested, which name its path, nvcc always runs.
pub fn nvcc_once(dir: &Path, args: &[&str]) {
    type Made = BTreeMap<(String, Vec<String>), Arc<OnceLock<Vec<u8>>>>;
    static MADE: Mutex<Made> = Mutex::new(BTreeMap::new());
    let after = |is_before: fn(&str) -> bool| {
        let at = args.iter().position(|arg| is_before(arg)).unwrap();
        dir.join(args[at..].iter().find(|arg| !arg.starts_with('-')).unwrap())
    };
    let source = std::fs::read_to_string(after(|arg| arg.ends_with(".cu"))).unwrap();
    let to = after(|arg| arg == "-o");
    if source.contains("#include \"") || args.contains(&"-lineinfo") {
        nvcc(dir, args);
        return;
    }
    let key = (source, args.iter().map(|arg| (*arg).to_owned()).collect());
    let made = {
        let mut all = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(key).or_default())
    };
    let bytes = made.get_or_init(|| {
        nvcc(dir, args);
        std::fs::read(&to).unwrap()
    });
    std::fs::write(to, bytes).unwrap();
}

fn archive(dir: &Path, files: &[&str]) {
    let mut ar = Command::new("ar");
    let ar = ar.current_dir(dir).arg("rcs").args(files);
    assert!(ar.status().unwrap().success());
}

fn with_source() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("k.cu"), SOURCE).unwrap();
    let only = "extern \"C\" __global__ void only_ptx(float *p) { *p = 1; }";
    std::fs::write(dir.path().join("ptx.cu"), only).unwrap();
    std::fs::write(dir.path().join("host.cpp"), "int f() { return 1; }").unwrap();
    dir
}

fn listed(dir: &Path, file: &str) -> Value {
    let output = run(dir, &["binary", file, "--format", "json"], 0);
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// Returns the kernels without what differs between containers.
fn rows(listing: &Value, arch: &str) -> Vec<Value> {
    listing["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|kernel| kernel["architecture"] == arch)
        .map(|kernel| {
            let mut row = kernel.clone();
            row.as_object_mut().unwrap().remove("member");
            row
        })
        .collect()
}

/// Builds `size.fatbin`, which is packed with zstd, and `speed.fatbin`, which is packed with LZ4.
fn build_packed(build: impl Fn(&[&str]) -> String) {
    for mode in ["size", "speed"] {
        let (mode, file) = (format!("--compress-mode={mode}"), format!("{mode}.fatbin"));
        build(&[
            "-fatbin",
            &mode,
            "-Xfatbin",
            "-compress-all",
            "-o",
            &file,
            "k.cu",
        ]);
    }
}

#[test]
fn kernels_are_listed_as_ptxas_reports_them() {
    let dir = with_source();
    let include = format!("-I{}", root().join("kernels").display());
    let ours = |path: &str| root().join(path).display().to_string();
    let sources = [
        "k.cu".to_owned(),
        ours("kernels/sdpa_f16.cu"),
        ours("kernels/softmax.cu"),
        ours("kernels/reduce.cu"),
        ours("examples/split-attention/split_attention.cu"),
    ];
    let mut compared = 0;
    for arch in ["sm_89", "sm_90", "sm_90a", "sm_120"] {
        for source in &sources {
            let target = format!("-arch={arch}");
            let said = nvcc(
                dir.path(),
                &[
                    "-std=c++17",
                    "-cubin",
                    &target,
                    &include,
                    "-Xptxas",
                    "-v",
                    "-o",
                    "k.cubin",
                    source,
                ],
            );
            let reported = PtxasReport::parse(&said);
            let listing = listed(dir.path(), "k.cubin");
            let kernels = listing["kernels"].as_array().unwrap();
            let entries = said.matches("Compiling entry function").count();
            assert!(entries > 0 && kernels.len() == entries, "{source} {arch}");
            for kernel in kernels {
                let symbol = kernel["symbol"].as_str().unwrap();
                let wanted = reported.resources(symbol, arch).unwrap();
                let said = |key: &str| {
                    kernel[key]
                        .as_u64()
                        .map(|number| u32::try_from(number).unwrap())
                };
                let about = format!("{symbol} {arch}: {kernel}\n{wanted:?}");
                assert_eq!(kernel["architecture"], arch, "{about}");
                assert_eq!(said("registers"), Some(wanted.registers), "{about}");
                assert_eq!(said("frame"), wanted.stack, "{about}");
                let cumulative = wanted.cumulative_stack.unwrap_or(0);
                assert_eq!(said("stack"), Some(cumulative), "{about}");
                assert_eq!(said("static_shared"), Some(wanted.static_shared), "{about}");
                assert_eq!(said("barriers"), Some(wanted.barriers), "{about}");
                compared += 1;
            }
            let compilers = listing["compilers"].as_array().unwrap();
            assert_eq!(compilers.len(), 1);
            assert_eq!(compilers[0]["tool"], "ptxas");
            assert!(
                compilers[0]["version"]
                    .as_str()
                    .unwrap()
                    .starts_with("13.0.")
            );
        }
    }
    assert!(compared >= 40, "{compared}");
}

#[test]
fn every_container_lists_the_kernels_of_its_cubins() {
    let dir = with_source();
    let dir = dir.path();
    nvcc(dir, &["-cubin", "-arch=sm_89", "-o", "89.cubin", "k.cu"]);
    nvcc(dir, &["-cubin", "-arch=sm_90a", "-o", "90a.cubin", "k.cu"]);
    let wanted: BTreeMap<&str, Vec<Value>> = [("sm_89", "89.cubin"), ("sm_90a", "90a.cubin")]
        .map(|(arch, file)| (arch, rows(&listed(dir, file), arch)))
        .into();
    assert!(wanted.values().all(|row| row.len() == 5));
    let both =
        "-gencode arch=compute_89,code=sm_89 -gencode arch=compute_90a,code=[sm_90a,compute_90a]";
    let both: Vec<&str> = both.split(' ').collect();
    let build = |args: &[&str]| nvcc(dir, &[&both[..], args].concat());
    build(&[
        "-fatbin",
        "--compress-mode=none",
        "-o",
        "none.fatbin",
        "k.cu",
    ]);
    build_packed(build);
    build(&["-c", "-o", "k.o", "k.cu"]);
    build(&[
        "-shared",
        "-cudart",
        "none",
        "-Xcompiler",
        "-fPIC",
        "-o",
        "k.so",
        "k.cu",
    ]);
    nvcc(
        dir,
        &[
            "-c",
            "-gencode",
            "arch=compute_90,code=compute_90",
            "-o",
            "ptx.o",
            "ptx.cu",
        ],
    );
    nvcc(dir, &["-c", "-o", "host.o", "host.cpp"]);
    archive(dir, &["k.a", "k.o", "ptx.o", "host.o"]);
    let size = |file: &str| std::fs::metadata(dir.join(file)).unwrap().len();
    assert!(
        size("size.fatbin") < size("speed.fatbin") && size("speed.fatbin") < size("none.fatbin")
    );
    for file in [
        "none.fatbin",
        "size.fatbin",
        "speed.fatbin",
        "k.o",
        "k.so",
        "k.a",
    ] {
        let listing = listed(dir, file);
        for (arch, rows_of_cubin) in &wanted {
            assert_eq!(&rows(&listing, arch), rows_of_cubin, "{file}");
        }
        assert_eq!(listing["kernels"].as_array().unwrap().len(), 10, "{file}");
        assert_eq!(listing["ptx"][0]["architecture"], "compute_90a", "{file}");
        assert_eq!(
            listing["ptx"][0]["kernels"].as_array().unwrap().len(),
            5,
            "{file}"
        );
    }
    let archive = listed(dir, "k.a");
    assert_eq!(archive["kernels"][0]["member"], "k.o");
    assert_eq!(archive["ptx"][1]["member"], "ptx.o");
    assert_eq!(archive["ptx"][1]["kernels"][0], "only_ptx");
    let shown = stdout(&run(dir, &["binary", "k.a"], 0));
    assert!(
        shown.contains("PTX only, compiled by the driver:\nonly_ptx\n  compute_90\n"),
        "{shown}"
    );
    assert!(shown.contains("\ntile<float>(float*)\n"), "{shown}");
}

#[test]
fn device_code_that_is_not_linked_leaves_stack_and_shared_memory_open() {
    let dir = with_source();
    let dir = dir.path();
    let with = |args: &[&str]| {
        nvcc(
            dir,
            &[&["-arch=sm_90", "-Xcompiler", "-fPIC"], args].concat(),
        )
    };
    let tile = |file: &str| {
        let rows = rows(&listed(dir, file), "sm_90");
        assert_eq!(rows.len(), 5, "{file}");
        let name = "tile<float>(float*)";
        rows.into_iter().find(|row| row["name"] == name).unwrap()
    };
    with(&["-dc", "-o", "k.o", "k.cu"]);
    let unlinked = tile("k.o");
    assert!(unlinked["registers"].as_u64().unwrap() > 0);
    assert!(unlinked["static_shared"].is_null() && unlinked["stack"].is_null());
    assert_eq!(unlinked["linked"], false);
    with(&["-dlink", "-o", "linked.o", "k.o"]);
    let mut cc = Command::new("g++");
    let cc = cc
        .current_dir(dir)
        .args(["-shared", "-o", "k.so", "k.o", "linked.o"]);
    assert!(cc.status().unwrap().success());
    // The library has the kernel before and after linking, and the linked one counts.
    for file in ["linked.o", "k.so"] {
        let linked = tile(file);
        assert_eq!(linked["static_shared"], 512, "{file}");
        assert_eq!(linked["stack"], 0, "{file}");
        assert_eq!(linked["linked"], true, "{file}");
    }
}

#[test]
fn the_architecture_is_read_as_compilers_before_cuda_13_wrote_it() {
    let dir = with_source();
    nvcc(
        dir.path(),
        &["-cubin", "-arch=sm_90", "-o", "k.cubin", "k.cu"],
    );
    let mut cubin = std::fs::read(dir.path().join("k.cubin")).unwrap();
    assert_eq!(cubin[8], 8, "the version that CUDA 13 writes");
    // ptxas 12.9 gave this header to cubins of a public wheel for sm_90a. The other header is the same without its `a`.
    cubin[7..9].copy_from_slice(&[0x33, 7]);
    for (flags, arch) in [(0x005a_0d5a_u32, "sm_90a"), (0x005a_055a, "sm_90")] {
        cubin[48..52].copy_from_slice(&flags.to_le_bytes());
        let listing = binary::read(&cubin).unwrap();
        assert!(
            listing
                .kernels
                .iter()
                .all(|kernel| kernel.arch.to_string() == arch)
        );
        assert_eq!(listing.kernels.len(), 5);
    }
}

#[test]
fn files_without_gpu_code_are_refused() {
    let dir = with_source();
    let dir = dir.path();
    nvcc(dir, &["-c", "-o", "host.o", "host.cpp"]);
    std::fs::write(dir.join("empty"), "").unwrap();
    std::fs::create_dir(dir.join("d")).unwrap();
    let help = "\n  help: name a shared library, an object or a program that nvcc linked, a static library (.a), a cubin, a fat \
                binary or PTX, or a wheel or a directory with such files\n";
    for (file, says) in [
        ("host.o", "it is an ELF file without GPU code"),
        ("empty", "it is empty"),
        (
            "k.cu",
            "it is text, such as a source, and not a compiled file",
        ),
        ("d", "no file in this directory has GPU code"),
        (".", "no file in this directory has GPU code"),
    ] {
        common::refused(
            dir,
            &["binary", file],
            &format!("error: {file}: {says}{help}"),
        );
    }
    let output = run(dir, &["binary", "none"], 4);
    assert_eq!(
        stderr(&output),
        "error: none: the file cannot be read: No such file or directory (os error 2)\n"
    );
}

#[test]
fn damage_is_named_with_its_byte() {
    let dir = with_source();
    let dir = dir.path();
    let packed = [
        "-arch=sm_90",
        "-fatbin",
        "--compress-mode=size",
        "-Xfatbin",
        "-compress-all",
    ];
    nvcc(dir, &[&packed[..], &["-o", "k.fatbin", "k.cu"]].concat());
    let whole = std::fs::read(dir.join("k.fatbin")).unwrap();
    let refuse = |bytes: &[u8], says: &str| {
        std::fs::write(dir.join("bad.fatbin"), bytes).unwrap();
        let output = run(dir, &["binary", "bad.fatbin"], 4);
        assert_eq!(stderr(&output), format!("error: bad.fatbin: {says}\n"));
    };
    refuse(
        &whole[..whole.len() - 1],
        "byte 0: the header of the fat binary is damaged or cut off",
    );
    // The entry claims a size when unpacked.
    let mut greedy = whole.clone();
    greedy[16 + 56..16 + 64].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let packed = u32::from_le_bytes(whole[16 + 16..16 + 20].try_into().unwrap());
    let limit = 2048 * u64::from(packed);
    refuse(
        &greedy,
        &format!(
            "byte 16: the entry claims to unpack to 1099511627776 bytes; the limit is {limit}"
        ),
    );
    let mut broken = whole;
    broken[16 + 64 + 20] ^= 0xff;
    refuse(&broken, "byte 16: the packed code is damaged or cut off");
}

#[test]
fn damaged_files_never_panic_and_cut_ones_never_list_less() {
    let dir = with_source();
    let dir = dir.path();
    let target = ["-gencode", "arch=compute_90a,code=[sm_90a,compute_90a]"];
    let build = |args: &[&str]| nvcc(dir, &[&target[..], args].concat());
    nvcc(dir, &["-cubin", "-arch=sm_89", "-o", "k.cubin", "k.cu"]);
    build_packed(build);
    build(&["-c", "-o", "k.o", "k.cu"]);
    archive(dir, &["k.a", "k.o"]);
    // The seed is constant, so that a failure comes back.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for file in ["k.cubin", "size.fatbin", "speed.fatbin", "k.o", "k.a"] {
        let whole = std::fs::read(dir.join(file)).unwrap();
        let listing = binary::read(&whole).unwrap();
        for end in (0..whole.len()).step_by(64) {
            if let Ok(cut) = binary::read(&whole[..end]) {
                assert_eq!(cut, listing, "{file}, cut at byte {end}");
            }
        }
        let mut read = 0;
        for _ in 0..2000 {
            let mut flipped = whole.clone();
            for _ in 0..=random(4) {
                flipped[random(whole.len())] ^= 1 << random(8);
            }
            read += usize::from(binary::read(&flipped).is_ok());
        }
        // Both results must occur, or the flips test nothing.
        assert!(read > 0 && read < 2000, "{file}: {read}");
    }
}

/// Packs a wheel. Each member is written as `FILE=MEMBER`.
pub fn zip(dir: &Path, wheel: &str, members: &[&str]) {
    let write = |entry: &&str| {
        let (file, member) = entry.split_once('=').unwrap();
        format!("z.write('{file}', '{member}')")
    };
    let writes: Vec<String> = members.iter().map(write).collect();
    python_zip(dir, wheel, &writes.join("; "));
}

/// Returns each member that has kernels, with their number.
fn members(listing: &Value) -> BTreeMap<String, usize> {
    let mut members = BTreeMap::new();
    for kernel in listing["kernels"].as_array().unwrap() {
        let member = kernel["member"].as_str().unwrap();
        *members.entry(member.to_owned()).or_default() += 1;
    }
    members
}

#[test]
fn wheels_and_directories_list_the_kernels_of_their_members() {
    let dir = with_source();
    let dir = dir.path();
    let pic = ["-arch=sm_90", "-Xcompiler", "-fPIC"];
    let build = |args: &[&str]| nvcc(dir, &[&pic[..], args].concat());
    let shared = ["-shared", "-cudart", "none", "-o", "_C.so", "k.cu"];
    build(&shared);
    build(&["-c", "-o", "k.o", "k.cu"]);
    build(&["-ptx", "-o", "k.ptx", "ptx.cu"]);
    build(&["-cubin", "-o", "k.cubin", "k.cu"]);
    build(&["-c", "-o", "host.o", "host.cpp"]);
    archive(dir, &["lib.a", "k.o", "host.o"]);
    let alone = rows(&listed(dir, "k.cubin"), "sm_90");
    let names = [
        "_C.so=pkg/_C.so",
        "lib.a=pkg/lib.a",
        "k.ptx=pkg/k.ptx",
        "k.cu=pkg/k.cu",
        "host.o=pkg/host.o",
    ];
    zip(dir, "k.whl", &names);
    let wheel = listed(dir, "k.whl");
    let expected = |prefix: &str| {
        [("_C.so", 5), ("lib.a(k.o)", 5)].map(|(it, count)| (format!("{prefix}{it}"), count))
    };
    assert_eq!(members(&wheel), expected("pkg/").into());
    let mut ptx = wheel["ptx"].as_array().unwrap().iter();
    let alone_in_ptx = ptx.find(|ptx| ptx["member"] == "pkg/k.ptx").unwrap();
    assert_eq!(alone_in_ptx["kernels"][0], "only_ptx");
    let of_library = |kernel: &&Value| kernel["member"] == "pkg/_C.so";
    assert_eq!(
        wheel["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .filter(of_library)
            .count(),
        alone.len()
    );
    // With 256 threads and few registers, the SM is full. Without launch bounds, the occupancy is open.
    let tile = alone
        .iter()
        .find(|kernel| kernel["name"] == "tile<float>(float*)")
        .unwrap();
    let full = r#"{"blocks_per_sm":8,"limiter":"warps","max_warps":64,"warps_per_sm":64}"#;
    assert_eq!(tile["occupancy"].to_string(), full);
    assert!(
        alone
            .iter()
            .any(|kernel| kernel["name"] == "empty" && kernel["occupancy"].is_null())
    );
    // Each kernel occurs twice, with the values that it has in the cubin.
    let both: Vec<Value> = alone
        .iter()
        .flat_map(|kernel| [kernel.clone(), kernel.clone()])
        .collect();
    assert_eq!(rows(&wheel, "sm_90"), both);
    let shown = stdout(&run(dir, &["binary", "k.whl"], 0));
    let headline = "k.whl: a zip archive with 5 kernels for sm_90, and PTX for compute_90\n";
    assert!(shown.starts_with(headline), "{shown}");

    // This is the unpacked wheel, with a link to the library of its version, a link to its directory, a link to
    // nothing, and a pipe.
    let pkg = dir.join("d/pkg");
    std::fs::create_dir_all(&pkg).unwrap();
    for name in names {
        let (from, to) = name.split_once('=').unwrap();
        std::fs::copy(dir.join(from), dir.join("d").join(to)).unwrap();
    }
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, pkg.join(name)).unwrap();
    link("_C.so", "_C.so.1");
    link("..", "up");
    link("nowhere", "dangling");
    let mkfifo = Command::new("mkfifo").arg(pkg.join("pipe")).status();
    assert!(mkfifo.unwrap().success());
    let mut unpacked = listed(dir, "d");
    unpacked["file"] = wheel["file"].clone();
    assert_eq!(unpacked, wheel);

    // A directory has the wheel in it.
    std::fs::create_dir(dir.join("dist")).unwrap();
    std::fs::copy(dir.join("k.whl"), dir.join("dist/k.whl")).unwrap();
    assert_eq!(
        members(&listed(dir, "dist")),
        [
            ("k.whl(pkg/_C.so)".to_owned(), 5),
            ("k.whl(pkg/lib.a(k.o))".to_owned(), 5)
        ]
        .into()
    );
}

/// Writes a zip archive by a Python script. `z` is open for writing in the script.
fn python_zip(dir: &Path, file: &str, script: &str) {
    let script = format!(
        "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:\n\t{script}"
    );
    let mut python = Command::new("python3");
    let python = python.current_dir(dir).args(["-c", &script, file]);
    assert!(python.status().unwrap().success());
}

#[test]
fn damage_in_a_wheel_or_directory_names_the_member_and_its_byte() {
    let dir = with_source();
    let dir = dir.path();
    nvcc(dir, &["-cubin", "-arch=sm_90", "-o", "k.cubin", "k.cu"]);
    nvcc(dir, &["-fatbin", "-arch=sm_90", "-o", "k.fatbin", "k.cu"]);
    let whole = std::fs::read(dir.join("k.fatbin")).unwrap();
    std::fs::write(dir.join("cut.fatbin"), &whole[..whole.len() - 1]).unwrap();
    let refused = |file: &str, says: &str| {
        let output = run(dir, &["binary", file], 4);
        assert_eq!(stderr(&output), format!("error: {says}\n"));
        assert_eq!(stdout(&output), "");
    };
    let cut = "byte 0: the header of the fat binary is damaged or cut off";
    zip(
        dir,
        "k.whl",
        &["k.cubin=a.cubin", "cut.fatbin=pkg/cut.fatbin"],
    );
    refused("k.whl", &format!("k.whl: pkg/cut.fatbin: {cut}"));
    std::fs::create_dir_all(dir.join("d/pkg")).unwrap();
    std::fs::copy(dir.join("k.cubin"), dir.join("d/a.cubin")).unwrap();
    std::fs::copy(dir.join("cut.fatbin"), dir.join("d/pkg/cut.fatbin")).unwrap();
    refused("d", &format!("d/pkg/cut.fatbin: {cut}"));
    // It is always the first of the two.
    std::fs::copy(dir.join("k.whl"), dir.join("d/pkg/a.whl")).unwrap();
    refused("d", &format!("d/pkg/a.whl: pkg/cut.fatbin: {cut}"));

    // Damage shows by the archive itself: a bit of the second member differs, or the end is cut off.
    zip(dir, "good.whl", &["k.cubin=a.cubin", "k.fatbin=b.fatbin"]);
    run(dir, &["binary", "good.whl"], 0);
    let good = std::fs::read(dir.join("good.whl")).unwrap();
    let start = good
        .windows(4)
        .rposition(|bytes| bytes == b"PK\x03\x04")
        .unwrap();
    let end = good
        .windows(4)
        .position(|bytes| bytes == b"PK\x01\x02")
        .unwrap();
    let mut flipped = good.clone();
    flipped[(start + end) / 2] ^= 1;
    std::fs::write(dir.join("flipped.whl"), flipped).unwrap();
    let output = run(dir, &["binary", "flipped.whl"], 4);
    let names_it =
        format!("error: flipped.whl: b.fatbin: byte {start}: the member cannot be unpacked: ");
    assert!(
        stderr(&output).starts_with(&names_it),
        "{}",
        stderr(&output)
    );
    std::fs::write(dir.join("short.whl"), &good[..end]).unwrap();
    let output = run(dir, &["binary", "short.whl"], 4);
    let names_it = format!(
        "error: short.whl: byte {end}: the table of members, at the end of the archive, is damaged or cut off: "
    );
    assert!(
        stderr(&output).starts_with(&names_it),
        "{}",
        stderr(&output)
    );
}

#[test]
fn hostile_archives_take_no_memory_and_write_no_file() {
    let dir = with_source();
    let dir = dir.path();
    nvcc(dir, &["-cubin", "-arch=sm_90", "-o", "k.cubin", "k.cu"]);
    let refused = |file: &str, says: &str| {
        let output = run(dir, &["binary", file], 4);
        assert_eq!(stderr(&output), format!("error: {file}: {says}\n"));
    };
    // These zeros begin like a library.
    python_zip(
        dir,
        "bomb.whl",
        "z.writestr('k.so', b'\\x7fELF' + bytes((1 << 27) - 4))",
    );
    let size = std::fs::metadata(dir.join("bomb.whl")).unwrap().len();
    refused(
        "bomb.whl",
        &format!(
            "its members with GPU code claim to unpack to 134217728 bytes; the limit for an archive of {size} bytes is 67108864"
        ),
    );
    // This archive has the same member, and claims that it has a few bytes.
    let bomb = std::fs::read(dir.join("bomb.whl")).unwrap();
    let mut liar = bomb.clone();
    let entry = bomb
        .windows(4)
        .position(|bomb| bomb == b"PK\x01\x02")
        .unwrap();
    for at in [22, entry + 24] {
        assert_eq!(liar[at..at + 4], (1_u32 << 27).to_le_bytes());
        liar[at..at + 4].copy_from_slice(&8_u32.to_le_bytes());
    }
    std::fs::write(dir.join("liar.whl"), liar).unwrap();
    refused(
        "liar.whl",
        "k.so: byte 0: the member cannot be unpacked: File is larger than its declared uncompressed size",
    );
    // Names that would lead elsewhere are only names.
    let before: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|dir| dir.unwrap().file_name())
        .collect();
    python_zip(
        dir,
        "names.whl",
        "z.write('k.cubin', '../../up.cubin'); z.writestr('/root.cubin', open('k.cubin', 'rb').read())",
    );
    let listing = listed(dir, "names.whl");
    let names: Vec<String> = members(&listing).into_keys().collect();
    assert_eq!(names, ["../../up.cubin", "/root.cubin"]);
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), before.len() + 1);
    assert!(!dir.join("../../up.cubin").exists() && !Path::new("/root.cubin").exists());
    python_zip(dir, "line.whl", "z.writestr('a\\nok.so', b'\\x7fELF')");
    let output = run(dir, &["binary", "line.whl"], 4);
    assert_eq!(
        stderr(&output),
        "error: line.whl: a\u{fffd}ok.so: byte 0: the ELF header is damaged or cut off\n"
    );
    // Two members have the same name.
    python_zip(
        dir,
        "twice.whl",
        "import warnings; warnings.simplefilter('ignore'); z.write('k.cubin'); z.write('k.cubin')",
    );
    refused(
        "twice.whl",
        "two members of the archive have the same name, so it is open which one counts",
    );
    // One archive has nothing for a GPU. The other has a zip in a zip, which is not opened.
    python_zip(dir, "none.whl", "z.write('k.cu'); z.write('names.whl')");
    let output = run(dir, &["binary", "none.whl"], 2);
    assert!(
        stderr(&output).starts_with("error: none.whl: no file in this zip archive has GPU code\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn caches_of_triton_and_cute_dsl_are_directories() {
    let dir = with_source();
    let dir = dir.path();
    // Triton has a directory for each compiled kernel.
    let entry = dir.join("triton/OFQ6Z5GEZ3");
    std::fs::create_dir_all(&entry).unwrap();
    nvcc(
        dir,
        &[
            "-cubin",
            "-arch=sm_90",
            "-o",
            "triton/OFQ6Z5GEZ3/only_ptx.cubin",
            "ptx.cu",
        ],
    );
    nvcc(
        dir,
        &[
            "-ptx",
            "-arch=sm_90",
            "-o",
            "triton/OFQ6Z5GEZ3/only_ptx.ptx",
            "ptx.cu",
        ],
    );
    std::fs::write(
        entry.join("only_ptx.json"),
        "{\"num_warps\": 4, \"shared\": 0}",
    )
    .unwrap();
    std::fs::write(entry.join("only_ptx.ttir"), "module {\n}\n").unwrap();
    let listing = listed(dir, "triton");
    assert_eq!(
        members(&listing),
        [("OFQ6Z5GEZ3/only_ptx.cubin".to_owned(), 1)].into()
    );
    let shown = stdout(&run(dir, &["binary", "triton"], 0));
    assert!(!shown.contains("PTX only"), "{shown}");

    // CuTe DSL 4.8 writes bytecode of MLIR, in which the fat binary is one of the constants, and what `export_to_c`
    // gives.
    nvcc(dir, &["-fatbin", "-arch=sm_90", "-o", "k.fatbin", "k.cu"]);
    let fatbin = std::fs::read(dir.join("k.fatbin")).unwrap();
    let cache = dir.join("cute");
    std::fs::create_dir(&cache).unwrap();
    let start = b"ML\xefR\x0dMLIR23.0.0git\0".to_vec();
    let module = [&start, &fatbin[..], b"the rest"].concat();
    std::fs::write(cache.join("cute_dsl_1.mlir"), &module).unwrap();
    std::fs::write(cache.join("cute_dsl_2.mlir"), &start).unwrap();
    let source = ".section .lrodata,\"al\",@progbits\n.ascii \"text\"\n.incbin \"k.fatbin\"\n.ascii \"more\"\n";
    std::fs::write(dir.join("k.s"), source).unwrap();
    nvcc(dir, &["-c", "-o", "cute/aot.o", "k.s"]);
    let listing = listed(dir, "cute");
    let kernels = [("aot.o", 5), ("cute_dsl_1.mlir", 5)].map(|(it, count)| (it.to_owned(), count));
    assert_eq!(members(&listing), kernels.into());
    let cut = start.len() + fatbin.len() - 1;
    std::fs::write(cache.join("cute_dsl_3.mlir"), &module[..cut]).unwrap();
    let output = run(dir, &["binary", "cute"], 4);
    assert_eq!(
        stderr(&output),
        format!(
            "error: cute/cute_dsl_3.mlir: byte {}: the header of the fat binary is damaged or cut off\n",
            start.len()
        )
    );
}
