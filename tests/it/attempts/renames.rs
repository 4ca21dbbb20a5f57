use crate::common::{self, edit, git, report, stderr, stdout};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The fixture of `tests/changes` under git, changed by `before` and committed.
fn repository(before: impl Fn(&Path)) -> TempDir {
    let repository = common::copy_of("tests/fixtures/changes");
    let dir = repository.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    before(dir);
    commit(dir);
    repository
}

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(
        dir,
        &["commit", "--quiet", "--allow-empty", "-m", "a change"],
    );
}

fn agree(dir: &Path) {
    common::run(dir, &["run", "--provision", "--device", "sim"], 0);
    common::run(dir, &["baseline", "update"], 0);
}

/// A run against HEAD. Its exit code is `code`, and the terminal says each of `says`, line breaks aside.
fn hold(dir: &Path, flags: &[&str], code: i32, says: &[&str]) {
    let args = ["run", "--provision", "--device", "sim", "--base", "HEAD"];
    let output = common::run(dir, &[&args[..], flags].concat(), code);
    let said = format!("{} {}", stdout(&output), stderr(&output));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in says {
        assert!(said.contains(says), "{says:?} is not in\n{said}");
    }
}

fn gates(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("gates.yaml"), old, new);
}

/// gates.yaml with these kernels, and nothing else.
fn kernels(dir: &Path, kernels: &[&str]) {
    let text = format!(
        "version: 1\narchitectures: [sm_90]\nkernels:\n{}",
        kernels.concat()
    );
    fs::write(dir.join("gates.yaml"), text).unwrap();
}

/// The section of one kernel in gates.yaml.
fn section(dir: &Path, name: &str) -> String {
    let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let (_, rest) = text.split_once(&format!("  {name}:\n")).unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    let lines: Vec<_> = lines.map(|line| format!("{line}\n")).collect();
    format!("  {name}:\n{}", lines.concat())
}

/// `slow` does the work of `copy` from a source of its own, with more traffic.
fn slow_twin(dir: &Path) {
    let source = fs::read_to_string(dir.join("copy.cu")).unwrap();
    let source = source.replace(
        "    if (i < n) y[i] = x[i];\n",
        "    const int t = threadIdx.x;\n    const int j = i - t + t % 32 * 8 + t / 32;\n    if (j < n) y[j] = x[j];\n",
    );
    fs::write(dir.join("slow.cu"), source).unwrap();
    let copy = section(dir, "copy");
    let slow = copy
        .replace("  copy:\n", "  slow:\n")
        .replace("copy.cu", "slow.cu");
    kernels(dir, &[&copy, &slow]);
}

/// y = a - b over M x N, with a part of the output compared.
fn subtract(dir: &Path, [m, n]: [u32; 2]) {
    fs::write(
        dir.join("sub.cu"),
        "extern \"C\" __global__ void sub(const float* a, const float* b, float* y, int n)\n{\n    \
         const int i = blockIdx.x * 256 + threadIdx.x;\n    if (i < n) y[i] = a[i] - b[i];\n}\n",
    )
    .unwrap();
    let sub = format!(
        "  sub:\n    source: sub.cu\n    entry: sub\n    shapes: {{small: {{M: {m}, N: {n}}}}}\n    seeds: 1\n    \
         tensors:\n      a: {{type: f32, shape: [M, N]}}\n      b: {{type: f32, shape: [M, N]}}\n      \
         y: {{role: out, type: f32, shape: [M, N], compare: {{where: \"i < M - 1\", index: [i, j]}}}}\n    \
         args: [{{tensor: a}}, {{tensor: b}}, {{tensor: y}}, {{i32: \"M * N\"}}]\n    \
         launch: {{grid: [\"ceil_div(M * N, 256)\"], block: [256]}}\n    \
         reference: {{binary: {{a: a, b: b, out: y, op: sub}}}}\n    gates: {{max_err: 0}}\n"
    );
    kernels(dir, &[&sub]);
}

fn rename_dimensions(dir: &Path, [m, n]: [&str; 2]) {
    let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let text = text
        .replace("{M: ", &format!("{{{m}: "))
        .replace(", N: ", &format!(", {n}: "))
        .replace("[M, N]", &format!("[{m}, {n}]"))
        .replace("M * N", &format!("{m} * {n}"))
        .replace("i < M - 1", &format!("i < {m} - 1"));
    fs::write(dir.join("gates.yaml"), text).unwrap();
}

/// One of two kernels of the same work is dropped, and the other takes a new name: what is left has one partner, by
/// its source, and the dropped one has none.
#[test]
fn a_dropped_twin_of_a_renamed_kernel_is_removed() {
    let repository = repository(slow_twin);
    let dir = repository.path();
    let slow = section(dir, "slow").replace("  slow:\n", "  copied:\n");
    kernels(dir, &[&slow]);
    let removed = "removed: head has no copy/default@small";
    hold(dir, &[], 1, &["renamed: kernel slow -> copied", removed]);
}

/// Three names in a row, each taken by the next: the kernel that has the last one is compared with what is gone.
#[test]
fn a_shift_of_names_lets_no_slower_kernel_through() {
    let repository = repository(slow_twin);
    let dir = repository.path();
    let copy = section(dir, "copy").replace("  copy:\n", "  slow:\n");
    let slow = section(dir, "slow").replace("  slow:\n", "  slowest:\n");
    kernels(dir, &[&copy, &slow]);
    hold(dir, &[], 1, &["✗ slowest/default@small"]);
}

/// The sources change places under the new names: each name still has its own source, and that does more.
#[test]
fn sources_that_are_swapped_under_new_names_are_compared() {
    let repository = repository(slow_twin);
    let dir = repository.path();
    gates(dir, "  copy:\n", "  one:\n");
    gates(dir, "  slow:\n", "  two:\n");
    let [fast, slow] = ["copy.cu", "slow.cu"].map(|it| fs::read_to_string(dir.join(it)).unwrap());
    fs::write(dir.join("copy.cu"), slow).unwrap();
    fs::write(dir.join("slow.cu"), fast).unwrap();
    let renamed = ["renamed: kernel copy -> one", "renamed: kernel slow -> two"];
    hold(
        dir,
        &[],
        1,
        &["✗ one/default@small", renamed[0], renamed[1]],
    );
}

/// Inputs with new names, given the other way round to the kernel and to its reference: by their places they are
/// each other's, and the base's reference tells.
#[test]
fn renamed_inputs_that_change_places_in_the_reference_are_red() {
    let repository = repository(|dir| subtract(dir, [8, 32]));
    let dir = repository.path();
    gates(dir, "      a: {type", "      p: {type");
    gates(dir, "      b: {type", "      q: {type");
    gates(
        dir,
        "[{tensor: a}, {tensor: b},",
        "[{tensor: p}, {tensor: q},",
    );
    gates(dir, "{a: a, b: b,", "{a: p, b: q,");
    hold(
        dir,
        &[],
        0,
        &[
            "renamed: tensor a of sub -> p",
            "renamed: tensor b of sub -> q",
        ],
    );
    gates(
        dir,
        "[{tensor: p}, {tensor: q},",
        "[{tensor: q}, {tensor: p},",
    );
    edit(&dir.join("sub.cu"), "a[i] - b[i]", "b[i] - a[i]");
    let says = "sub/default@small: reference: on the same inputs it computes something else";
    hold(dir, &[], 1, &[says]);
}

/// Dimensions in the condition of `compare` follow their new names; a condition that leaves out more does not.
#[test]
fn a_renamed_dimension_in_a_condition_hides_no_element() {
    let repository = repository(|dir| subtract(dir, [8, 32]));
    let dir = repository.path();
    rename_dimensions(dir, ["rows", "columns"]);
    hold(dir, &[], 0, &["renamed: dimension M of sub -> rows"]);
    gates(dir, "i < rows - 1", "i < rows - 2");
    hold(dir, &[], 1, &["sub/default@small: output y"]);
}

/// Two dimensions of one size could each be either. Capital letters alone tell them apart.
#[test]
fn dimensions_of_one_size_are_told_apart_by_their_letters_alone() {
    let repository = repository(|dir| subtract(dir, [16, 16]));
    let dir = repository.path();
    rename_dimensions(dir, ["m", "n"]);
    hold(
        dir,
        &[],
        0,
        &[
            "renamed: dimension M of sub -> m",
            "renamed: dimension N of sub -> n",
        ],
    );
    git(dir, &["checkout", "--quiet", "."]);
    rename_dimensions(dir, ["rows", "columns"]);
    hold(dir, &[], 1, &["LOOSENED"]);
}

/// Names that two dimensions give each other are no new names: under each there is another size.
#[test]
fn dimensions_that_swap_names_are_red() {
    let repository = repository(|dir| subtract(dir, [8, 32]));
    let dir = repository.path();
    gates(dir, "{M: 8, N: 32}", "{M: 32, N: 8}");
    hold(dir, &[], 1, &["under the same name head has M = 32, N = 8"]);
}

/// A variant with a new name that the change expects to fail, so that none of its gates blocks.
#[test]
fn a_renamed_variant_that_is_expected_to_fail_is_looser() {
    let variants = "    variants:\n      plain: {}\n      plus: {define: {PLUS: 1}}\n";
    let repository = repository(|dir| {
        gates(
            dir,
            "    entry: copy\n",
            &format!("    entry: copy\n{variants}"),
        );
        edit(&dir.join("copy.cu"), "y[i] = x[i]", "y[i] = x[i] PLUS_ZERO");
        edit(
            &dir.join("copy.cu"),
            "// y = x\n",
            "#ifdef PLUS\n#define PLUS_ZERO + 0.0f\n#else\n#define PLUS_ZERO\n#endif\n",
        );
    });
    let dir = repository.path();
    gates(
        dir,
        "      plus: {define: {PLUS: 1}}",
        "      more: {define: {PLUS: 1}, expect: {fail: [max_err]}}",
    );
    edit(&dir.join("copy.cu"), "+ 0.0f", "+ 1.0f");
    hold(
        dir,
        &[],
        1,
        &["copy/more@*: every gate holds: head expects it to fail max_err"],
    );
}

/// A variant that a fallback names, with both renamed: the same variant stands in for the same one.
#[test]
fn a_fallback_follows_its_renamed_variants() {
    let repository = repository(|dir| {
        let variants =
            "    variants:\n      plain: {}\n      plus: {define: {PLUS: 1}, fallback: plain}\n";
        gates(
            dir,
            "    entry: copy\n",
            &format!("    entry: copy\n{variants}"),
        );
        edit(
            &dir.join("copy.cu"),
            "    if (i < n) y[i] = x[i];\n",
            "#ifdef PLUS\n    if (i < n) y[i] = x[i] + 0.0f;\n#else\n    if (i < n) y[i] = x[i];\n#endif\n",
        );
    });
    let dir = repository.path();
    gates(dir, "      plain: {}", "      simple: {}");
    gates(
        dir,
        "      plus: {define: {PLUS: 1}, fallback: plain}",
        "      more: {define: {PLUS: 1}, fallback: simple}",
    );
    hold(
        dir,
        &[],
        0,
        &[
            "renamed: variant plain of copy -> simple",
            "renamed: variant plus of copy -> more",
        ],
    );
}

/// A filter, a shard and `--changed` see the new name, and a stored record is judged to the same bytes.
#[test]
fn a_rename_is_the_same_in_every_kind_of_run() {
    let repository = repository(|_| {});
    let dir = repository.path();
    gates(dir, "  copy:\n", "  mirror:\n");
    let renamed = ["renamed: kernel copy -> mirror"];
    hold(dir, &["mirror"], 0, &renamed);
    hold(dir, &["--shard", "1/2"], 0, &renamed);
    hold(dir, &["--shard", "2/2"], 0, &renamed);
    let changed = ["run", "--device", "sim", "--changed", "HEAD"];
    hold(dir, &[], 0, &renamed);
    let again = common::run(dir, &["judge", common::RECORD, "--format", "json"], 0);
    assert_eq!(stdout(&again), report(dir));
    assert!(stderr(&common::run(dir, &changed, 0)).contains("nothing to run"));
    edit(&dir.join("copy.cu"), "y[i] = x[i]", "y[i] = -x[i]");
    common::run(dir, &changed, 1);
}

/// Baselines under the new name with figures that are worse than they were, and files that git moved, which still
/// name the old kernel.
#[test]
fn baselines_moved_by_hand_are_compared_with_the_old_ones() {
    let repository = repository(agree);
    let dir = repository.path();
    gates(dir, "  copy:\n", "  mirror:\n");
    git(dir, &["mv", "baselines/copy", "baselines/mirror"]);
    let says = "by its content, it should be at baselines/copy/default/";
    hold(dir, &[], 1, &[says, "gatekeeper baseline rename"]);
    git(dir, &["mv", "baselines/mirror", "baselines/copy"]);
    common::run(dir, &["baseline", "rename", "copy", "mirror"], 0);
    hold(dir, &[], 0, &[]);
    for entry in fs::read_dir(dir.join("baselines/mirror/default")).unwrap() {
        let file = entry.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("\"value\": 125.0", "\"value\": 500.0")).unwrap();
    }
    hold(
        dir,
        &[],
        1,
        &["mirror/default@small: baseline of counters: head's baseline is worse"],
    );
}

/// A rename over figures that are there would forget them.
#[test]
fn a_name_that_has_baselines_is_not_given_to_others() {
    let repository = repository(agree);
    let dir = repository.path();
    for (from, to, says) in [
        ("copy", "twice", "is there already"),
        ("none", "some", "no baseline of none has this name"),
        ("copy", "copy/fast", "both names must have the same parts"),
        ("copy/", "copy/fast", "`copy/` names no baselines"),
        (
            "copy@large",
            "copy@small",
            "no baseline of copy has this name",
        ),
    ] {
        let output = common::run(dir, &["baseline", "rename", from, to], 2);
        assert!(
            stderr(&output).contains(says),
            "{from} {to}: {}",
            stderr(&output)
        );
    }
    let mut status = std::process::Command::new("git");
    let status = status
        .current_dir(dir)
        .args(["status", "--porcelain"])
        .output()
        .unwrap();
    assert_eq!(stdout(&status), "", "nothing was written");
}

/// Half of the file in a folder of its own, with its sources: green for both, and a link in its place is no file.
#[test]
fn a_part_of_the_gates_moves_to_a_folder_with_its_sources() {
    let repository = repository(agree);
    let dir = repository.path();
    let (copy, twice) = (section(dir, "copy"), section(dir, "twice"));
    fs::create_dir_all(dir.join("two/baselines")).unwrap();
    for name in ["twice.cu", "ref.cpp", "ref.h", "baselines/twice"] {
        git(dir, &["mv", name, &format!("two/{name}")]);
    }
    kernels(&dir.join("two"), &[&twice]);
    kernels(dir, &[&copy]);
    let moved =
        "not judged by this run, as they moved to two/gates.yaml: 1 case (twice/default@small)";
    hold(dir, &[], 0, &[moved]);
    let there = ["--config", "two/gates.yaml"];
    hold(
        dir,
        &there,
        0,
        &["one check covers both: 1 case (twice/default@small)"],
    );
    edit(&dir.join("two/ref.h"), "2", "3");
    edit(&dir.join("two/twice.cu"), "y[i] = 2 *", "y[i] = 3 *");
    hold(
        dir,
        &there,
        1,
        &["reference: on the same inputs it computes something else"],
    );
    fs::rename(dir.join("two/gates.yaml"), dir.join("two/real.txt")).unwrap();
    std::os::unix::fs::symlink("real.txt", dir.join("two/gates.yaml")).unwrap();
    fs::write(dir.join(".gitignore"), "gatekeeper-out\nreal.txt\n").unwrap();
    hold(dir, &[], 1, &["removed: head has no twice/default@small"]);
}

/// The run of a file that was there before is held against that file alone, and would never see what came to it.
#[test]
fn a_kernel_that_moves_to_a_file_that_was_there_is_removed() {
    let repository = repository(|dir| {
        let (copy, twice) = (section(dir, "copy"), section(dir, "twice"));
        kernels(dir, &[&twice.replace("  twice:\n", "  other:\n")]);
        fs::rename(dir.join("gates.yaml"), dir.join("other.yaml")).unwrap();
        kernels(dir, &[&copy, &twice]);
    });
    let dir = repository.path();
    let (copy, twice) = (section(dir, "copy"), section(dir, "twice"));
    kernels(dir, &[&copy]);
    let text = fs::read_to_string(dir.join("other.yaml")).unwrap();
    fs::write(dir.join("other.yaml"), text + &twice).unwrap();
    hold(dir, &[], 1, &["removed: head has no twice/default@small"]);
}

/// A new file that takes more from another file is held against that one: what it takes from this one would be new
/// there, and compared with nothing.
#[test]
fn a_new_file_of_two_origins_stands_for_one_of_them_alone() {
    let repository = repository(|dir| {
        let (copy, twice) = (section(dir, "copy"), section(dir, "twice"));
        let more = [
            copy.replace("  copy:", "  first:"),
            copy.replace("  copy:", "  second:"),
            copy.replace("  copy:", "  third:"),
        ];
        kernels(dir, &[&more[0], &more[1], &more[2]]);
        fs::rename(dir.join("gates.yaml"), dir.join("other.yaml")).unwrap();
        kernels(dir, &[&copy, &twice]);
    });
    let dir = repository.path();
    let (copy, twice) = (section(dir, "copy"), section(dir, "twice"));
    let more = [
        copy.replace("  copy:", "  first:"),
        copy.replace("  copy:", "  second:"),
        copy.replace("  copy:", "  third:"),
    ];
    kernels(dir, &[&twice, &more[0], &more[1]]);
    fs::rename(dir.join("gates.yaml"), dir.join("new.yaml")).unwrap();
    kernels(dir, &[&more[2]]);
    fs::rename(dir.join("gates.yaml"), dir.join("other.yaml")).unwrap();
    kernels(dir, &[&copy]);
    hold(dir, &[], 1, &["removed: head has no twice/default@small"]);
    hold(
        dir,
        &["--config", "other.yaml"],
        0,
        &["not judged by this run, as they moved to new.yaml"],
    );
}

/// A kernel that leaves its file under a new name is neither here nor there.
#[test]
fn a_kernel_that_moves_and_is_renamed_is_removed() {
    let repository = repository(|_| {});
    let dir = repository.path();
    let (copy, twice) = (section(dir, "copy"), section(dir, "twice"));
    kernels(dir, &[&twice.replace("  twice:\n", "  double:\n")]);
    fs::rename(dir.join("gates.yaml"), dir.join("new.yaml")).unwrap();
    kernels(dir, &[&copy]);
    hold(dir, &[], 1, &["removed: head has no twice/default@small"]);
}

/// The same on a GPU, by time: green under a new name alone, and red where the code is slower too.
#[test]
#[ignore = "needs a GPU"]
fn a_slower_kernel_is_slower_under_a_new_name() {
    let project = common::project();
    let dir = project.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    commit(dir);
    gates(dir, "  dial:\n", "  knob:\n");
    let against_base = |code| {
        let args = [
            "run",
            "--provision",
            "--require-gpu",
            "--base",
            "HEAD",
            "knob",
        ];
        let said = stdout(&common::run(dir, &args, code));
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(against_base(0).contains("renamed: kernel dial -> knob"));
    edit(
        &dir.join("dial.cu"),
        "#define DIAL 1000",
        "#define DIAL 1100",
    );
    assert!(against_base(1).contains("✗ knob/default@filled "));
}
