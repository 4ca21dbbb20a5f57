//! The command line. No logic.

use crate::tune::Method;
use artifact::AllowedChange;
use build::toolchain::{Choice, PROVIDED};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use config::{Budget, FloatTolerance};
use model::{Arch, DEFAULT_CONFIG, Metric};
use records::shard::ShardPart;
use report::terminal::Verbosity;
use run::device::DeviceChoice;
use std::path::PathBuf;
use system::limits::parse_size;

/// The headings of the groups of options in `--help`.
const CASES: &str = "Which cases";
const COMPARISON: &str = "What to compare with";
const MACHINE: &str = "Device and compiler";
const MEASURING: &str = "How to measure";
const BASELINES: &str = "Baselines";
const SEARCH: &str = "The search";
const OUTPUT: &str = "Output";

/// The commands of every day, and the others by where they are needed.
const HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

Commands:
  init      Write a gates.yaml for the kernels of this directory
  run       Build, check, measure and judge the kernels of gates.yaml
  baseline  Show baselines, or accept what the last run measured
  report    Print the last record
  explain   Say why cases are not what they were at the base
  compare   Judge one record against another
  validate  Check gates.yaml without building anything
  list      Print the cases of gates.yaml, a line each
  doctor    Report what this machine has and what it lacks

More commands:
  CI     judge, merge, history, bisect, binary
  GPU    capture, replay, profile, tune
  setup  toolchain, cache, schema, completions, man
  help   what a command does and takes: gatekeeper help merge

Options:
{options}{after-help}";

const EXAMPLES: &str = "\
Examples:
  gatekeeper init               a commented gates.yaml to start from
  gatekeeper run --provision    build, check, measure, judge; install the compiler if there is none
  gatekeeper baseline update    accept what the last run measured";

#[derive(Debug, Parser)]
#[command(
    name = "gatekeeper",
    version,
    about = "A regression gate for CUDA kernels",
    help_template = HELP,
    long_about = "A regression gate for CUDA kernels: builds each kernel of gates.yaml with nvcc, gates what PTXAS \
reports, checks the output against a CPU FP32 reference, measures p50/p90/p99 on a GPU, compares with the \
committed baselines, and answers with an exit code.",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}

Exit codes:
  0  every required gate passed (skipped gates are counted in the headline)
  1  a gate failed, or a kernel faulted
  2  wrong usage or configuration, or a filter that matches nothing
  3  inconclusive, or nothing was judged
  4  the environment failed (no compiler, broken driver, ...)")
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a gates.yaml for the kernels of this directory
    Init(InitArgs),
    /// Build, check, measure and judge the kernels of gates.yaml
    Run(RunArgs),
    /// Show baselines, or accept what a record measured as new baselines
    #[command(
        subcommand,
        after_long_help = "Examples:
  gatekeeper baseline show      values, with the GPU, compiler and flags that they are for
  gatekeeper baseline update    accept what the last run measured, then commit baselines/"
    )]
    Baseline(BaselineCommand),
    /// Print the last record as a report, or another
    Report(ReportArgs),
    /// Say why cases of a record are not what they were at the base: causes, with source lines
    Explain(ExplainArgs),
    /// Find the first commit, or version of the compiler, with which gates fail that hold before it
    Bisect(BisectArgs),
    /// Judge one record against another: BASE is the old state, HEAD the new one
    Compare(CompareArgs),
    /// Check gates.yaml and baselines/accepted.yaml without building anything
    Validate(ValidateArgs),
    /// Print cases and programs of gates.yaml, a line each
    List(ListArgs),
    /// Report what this machine has and what it lacks
    Doctor(DoctorArgs),
    /// Run a program, and write chosen launches of its kernels down
    Capture(CaptureArgs),
    /// Run captured launches again: same output, repeatable, and how long
    Replay(ReplayArgs),
    /// Judge a stored record again, with the gates and baselines of its run
    Judge(JudgeArgs),
    /// Judge the shards of a run (`run --shard`) as one, or runs on several GPUs side by side
    Merge(MergeArgs),
    /// Show how the values of the committed baselines moved
    History(HistoryArgs),
    /// List the GPU kernels of a compiled file, wheel or directory, without any tool of NVIDIA
    Binary(BinaryArgs),
    /// Read the GPU's counters for correct cases, with Nsight Compute
    Profile(ProfileArgs),
    /// Search the macros of a variant for a faster configuration that holds every gate
    Tune(TuneArgs),
    /// Install releases of the CUDA compiler, list them, or show which one is used
    #[command(
        subcommand,
        after_long_help = "Examples:
  gatekeeper toolchain install    once; `run` then needs no --provision
  gatekeeper toolchain show       which nvcc `run` uses
  gatekeeper toolchain list       which versions there are"
    )]
    Toolchain(ToolchainCommand),
    /// Show what the cache directory holds, or remove what was not used for long
    #[command(
        subcommand,
        after_long_help = "Examples:
  gatekeeper cache show
  gatekeeper cache prune --max-size 10GiB --older-than 30d"
    )]
    Cache(CacheCommand),
    /// Print the JSON Schema of gates.yaml, for editors, or of a file that `run` writes
    #[command(after_long_help = "Example:
  gatekeeper schema > gates.schema.json
and as the first line of gates.yaml, for the YAML language server:
  # yaml-language-server: $schema=gates.schema.json")]
    Schema {
        /// The file whose JSON schema is printed
        #[arg(value_enum, default_value_t = SchemaOf::Gates)]
        of: SchemaOf,
    },
    /// Print a completion script for a shell
    #[command(after_long_help = "Example:
  gatekeeper completions bash > ~/.local/share/bash-completion/completions/gatekeeper")]
    Completions {
        /// The shell that completes the words of commands
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory, one for each command
    #[command(after_long_help = "Example:
  gatekeeper man ~/.local/share/man/man1 && man gatekeeper-run")]
    Man {
        /// The directory; made if it is not there
        dir: PathBuf,
    },
    /// The process that runs kernels; started by `run`
    #[command(name = run::worker::SUBCOMMAND, hide = true)]
    Worker { device: DeviceChoice },
}

/// Where `run` leaves its record, unless told otherwise.
pub const LAST_RECORD: &str = "gatekeeper-out/record.json";

#[derive(Debug, Args)]
pub struct ConfigArg {
    /// The file with kernels, cases and gates
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// In the terminal, print details, too, and the cases that were not judged
    #[arg(short, long, help_heading = OUTPUT)]
    verbose: bool,
    /// In the terminal, print the headline alone
    #[arg(short, long, conflicts_with = "verbose", help_heading = OUTPUT)]
    quiet: bool,
}

impl OutputArgs {
    pub fn verbosity(self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper capture -- python bench.py                     the first launch of each kernel
  gatekeeper capture --kernels '*softmax*' -- ./bench       of some kernels
  gatekeeper capture --launches 3 --out c -- python t.py    three launches of each, into the directory c
  gatekeeper capture --random-inputs -- python bench.py     without the program's own floats, to hand on
  gatekeeper replay gatekeeper-capture                      then run them again

The program runs as it would without. What is captured: the machine code, the launch, its parameters, and all memory
that they lead to, before and after. Captured memory may be private: see --random-inputs.

Exit codes: 0, 2 for wrong usage, 4 where the program failed or nothing was captured.")]
pub struct CaptureArgs {
    /// Names of kernels, mangled or readable, with `*`; all if there is none
    #[arg(long, value_name = "GLOB")]
    pub kernels: Vec<String>,
    /// Names of regions of the program, with `*`; the whole program if there is none
    #[arg(long, value_name = "GLOB")]
    pub regions: Vec<String>,
    /// How many launches of each kernel, in each region and process
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub launches: u32,
    /// Leave out a launch that can reach more memory: 512MiB, 8GiB
    #[arg(long, default_value = "4GiB", value_name = "SIZE", value_parser = parse_size)]
    pub max_memory: u64,
    /// Write random values in the place of floats that launches find in memory; all else stays
    #[arg(long)]
    pub random_inputs: bool,
    /// The directory of the capture; created, and has to be empty
    #[arg(long, default_value = "gatekeeper-capture", value_name = "DIR")]
    pub out: PathBuf,
    /// The program whose launches are captured, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper replay gatekeeper-capture                 every captured launch
  gatekeeper replay gatekeeper-capture 'softmax*'      some kernels
  gatekeeper replay new --base old                     an edit or an upgrade: the same output, at most 1 % slower

The output of each launch has to be bit for bit the captured one, and the same each time, unless --tolerance is given. With
--base it has to be the base's, and both are timed interleaved on the same memory.

Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 inconclusive, 4 environment (`gatekeeper --help`).")]
pub struct ReplayArgs {
    /// The directory of launches that `gatekeeper capture` wrote
    #[arg(value_name = "DIR")]
    pub capture: PathBuf,
    /// Cases to run, as KERNEL[/VARIANT][@SHAPE] with globs; filters are combined with OR
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Judge against this older capture of the same program
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
    /// Let floats of this type (f32, f16, bf16) in outputs differ by this share of the larger one: f32:1e-5
    #[arg(long, value_name = "TYPE:SHARE")]
    pub tolerance: Option<FloatTolerance>,
    /// Time each launch alone, with the L2 cache emptied before it
    #[arg(long)]
    pub cold: bool,
    /// Where to run: auto, cuda, cuda:N or sim
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Install the compiler first, if there is none
    #[arg(long)]
    pub provision: bool,
    /// The directory for the record and reports
    #[arg(long, default_value = "gatekeeper-out", value_name = "DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper doctor                  what a run needs of this machine, an item each, with what to do
  gatekeeper doctor --require-gpu    as for `run`: no GPU is broken, too
  gatekeeper doctor --format json    the same for programs
  gatekeeper doctor --peaks          also what the first GPU reaches, next to what the tables have

Exit codes: 0, 2 for a mistake in gates.yaml, 4 where a run would fail.")]
pub struct DoctorArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Without a usable GPU, exit with code 4
    #[arg(long)]
    pub require_gpu: bool,
    /// The directory that `run` would write to
    #[arg(long, default_value = "gatekeeper-out", value_name = "DIR")]
    pub out: PathBuf,
    /// Measure the peaks of the first GPU with built-in kernels: FP32, tensor cores, DRAM and L2
    #[arg(long)]
    pub peaks: bool,
    /// The format of the output, which is text or JSON
    #[arg(long, value_parser = only(PRINTED), default_value = "terminal")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper run                                  every case of gates.yaml
  gatekeeper run sdpa_fp8/stage2@mission          one case
  gatekeeper run 'sdpa_*@{small,ragged}'          globs: these kernels, at these shapes
  gatekeeper run --base origin/main               a pull request: timed interleaved with its base
  gatekeeper run --changed HEAD                   before a commit: only the kernels that it changes
  gatekeeper run --device sim --watch sdpa_fp8    while editing: again after each save
  gatekeeper run --provision                      install the compiler first, if there is none
  gatekeeper run --shard 2/8                      a job of eight that share the cases; see merge
  gatekeeper run --require-gpu --out results      in CI: no GPU is a failure; reports go to results/

Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 inconclusive, 4 environment (`gatekeeper --help`).")]
pub struct RunArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Cases: KERNEL, KERNEL/VARIANT, KERNEL@SHAPE or KERNEL/VARIANT@SHAPE, each part a glob, for
    /// example '*/{wmma,scalar}@small'; a case that matches any of them is run [default: all]
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Use these seeds, for example 1,2,3 [default: those of gates.yaml]
    #[arg(long, value_delimiter = ',', value_name = "SEEDS", help_heading = CASES, hide_short_help = true)]
    pub seeds: Option<Vec<u64>>,
    /// Batched samples per process, for cases that are timed without a base [default: that of gates.yaml, else 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = MEASURING, hide_short_help = true)]
    pub iters: Option<u32>,
    /// Where kernels run: auto, cuda, cuda:N, cuda:all (checks on all GPUs, times on the first), or sim (on the
    /// CPU; auto means sim on a machine without a GPU)
    #[arg(long, default_value = "auto", value_name = "DEVICE", help_heading = MACHINE)]
    pub device: DeviceChoice,
    /// Without a GPU, skip a case that takes more warp instructions, all seeds together [default: that of gates.yaml,
    /// else 50000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000_000), help_heading = MEASURING, hide_short_help = true)]
    pub sim_budget: Option<u64>,
    /// Compare with this revision (a branch, tag or commit), which is built and timed as well
    #[arg(long, value_name = "REF", group = "against", help_heading = COMPARISON)]
    pub base: Option<String>,
    /// Compare with these same files, built by this compiler: a version (13.0, 13.0.88), the directory of a toolkit, or
    /// parts of several (13.2,ptxas=13.0; the parts are nvcc, headers, nvvm and ptxas)
    #[arg(long, value_name = "TOOLCHAIN", group = "against", help_heading = COMPARISON, hide_short_help = true)]
    pub base_toolchain: Option<Choice>,
    /// Build with this compiler in the place of the one that gates.yaml pins
    #[arg(long, value_name = "TOOLCHAIN", help_heading = MACHINE, hide_short_help = true)]
    pub toolchain: Option<Choice>,
    /// Where a gate fails against --base-toolchain, find the part of the compiler that is to blame
    #[arg(long, requires = "base_toolchain", help_heading = COMPARISON, hide_short_help = true)]
    pub blame: bool,
    /// Only kernels that differ from this revision's
    #[arg(long, value_name = "REF", help_heading = CASES)]
    pub changed: Option<String>,
    /// Only the cases of shard K of N, and their exit code; `gatekeeper merge` judges the whole
    #[arg(long, value_name = "K/N", conflicts_with = "changed", help_heading = CASES, hide_short_help = true)]
    pub shard: Option<ShardPart>,
    /// Deal the shards by what cases cost in this record [default: by the bytes of their tensors and their seeds]
    #[arg(long, value_name = "RECORD", requires = "shard", help_heading = CASES, hide_short_help = true)]
    pub costs: Option<PathBuf>,
    /// Allow gates looser than the base's, and list them
    #[arg(long, requires = "against", help_heading = COMPARISON, hide_short_help = true)]
    pub allow_loosened: bool,
    /// Against a base, also time cases whose machine code, launch and arguments are those of the base
    #[arg(long, requires = "against", help_heading = MEASURING, hide_short_help = true)]
    pub time_unchanged: bool,
    /// Also time the rivals of gates.yaml that no gate names; needs a GPU
    #[arg(long, help_heading = MEASURING, hide_short_help = true)]
    pub rivals: bool,
    /// Run the programs of gates.yaml unconfined: for code that you trust
    #[arg(long, help_heading = MACHINE, hide_short_help = true)]
    pub trust_programs: bool,
    /// Let the `fallback` of a variant stand in for it where it fails
    #[arg(long, help_heading = COMPARISON, hide_short_help = true)]
    pub allow_fallback: bool,
    /// Without a usable GPU, fail with exit code 4 instead of skipping what needs one
    #[arg(long, help_heading = MACHINE)]
    pub require_gpu: bool,
    /// After all timings, profile correct cases with Nsight Compute, for gates on its metrics; needs a GPU
    #[arg(long, help_heading = MEASURING, hide_short_help = true)]
    pub profile: bool,
    /// Install the compilers that are needed into the cache directory if they are not there
    #[arg(long, help_heading = MACHINE)]
    pub provision: bool,
    /// Directory for record.json, report.json, report.md, report.html and junit.xml
    #[arg(long, default_value = "gatekeeper-out", value_name = "DIR", help_heading = OUTPUT)]
    pub out: PathBuf,
    /// Write inputs, outputs and references of every checked case as .npy files into this directory
    #[arg(long, value_name = "DIR", help_heading = OUTPUT, hide_short_help = true)]
    pub dump: Option<PathBuf>,
    /// Build every program and simulate every case, also where an earlier run did the same
    #[arg(long, help_heading = MEASURING, hide_short_help = true)]
    pub fresh: bool,
    /// Run again whenever a source or gates file is saved, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper bisect v1.0 HEAD sdpa_fp8/stage2@mission      whatever fails at HEAD and holds at v1.0
  gatekeeper bisect --device sim v1.0 HEAD sdpa_fp8        a finding or a counter, without a GPU
  gatekeeper bisect --device cuda v1.0 HEAD sdpa_fp8       a time, interleaved with that of v1.0
  gatekeeper bisect --gates main v1.0 release sdpa_fp8     by the gates of another revision
  gatekeeper bisect --toolchains 13.0 13.2 sdpa_fp8        the same files, by each compiler between

Each commit has its own sources, and the gates.yaml, baselines and references of BAD. Only committed files count: commit
first to ask about the working tree. Of a merge the first parent is followed. The same command goes on from the log.

Exit codes: 0 the first bad one is found, 2 wrong usage, 3 undecided, or no gate fails at BAD, 4 environment.")]
pub struct BisectArgs {
    /// The revision at which the gates hold; with --toolchains a compiler, named as for `run --toolchain`
    #[arg(value_name = "GOOD")]
    pub good: String,
    /// The revision or compiler with which they fail
    #[arg(value_name = "BAD")]
    pub bad: String,
    /// Only these cases, as for `run`
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    #[command(flatten)]
    pub config: ConfigArg,
    /// Take gates.yaml, baselines and references from this revision [default: BAD]
    #[arg(long, value_name = "REF", conflicts_with = "toolchains", help_heading = COMPARISON)]
    pub gates: Option<String>,
    /// GOOD and BAD are compilers: try the working tree with each known or installed version between them
    #[arg(long, help_heading = COMPARISON)]
    pub toolchains: bool,
    /// Try this compiler, too, for example the directory of a toolkit
    #[arg(long, value_name = "TOOLCHAIN", requires = "toolchains", help_heading = COMPARISON)]
    pub between: Vec<Choice>,
    /// Where kernels run: auto, cuda, cuda:N, or sim
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = DeviceChoice::parse_one, help_heading = MACHINE)]
    pub device: DeviceChoice,
    /// Install the compilers that are needed into the cache directory if they are not there
    #[arg(long, help_heading = MACHINE)]
    pub provision: bool,
    /// The directory in which the log, bisect.json, is written
    #[arg(long, default_value = "gatekeeper-out", value_name = "DIR", help_heading = OUTPUT)]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper profile                          every case of gates.yaml
  gatekeeper profile sdpa_fp8/stage2@mission  one case
  gatekeeper profile --format json > profile.json

Needs a GPU and ncu of Nsight Compute. Builds and checks first; a case that is not correct is not profiled.

Exit codes: 0, 2 wrong usage, 3 a case has no profile, 4 environment (`gatekeeper --help`).")]
pub struct ProfileArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Only these cases, as for `run`
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Which GPU: auto, cuda or cuda:N
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = DeviceChoice::parse_one)]
    pub device: DeviceChoice,
    /// Install the pinned compiler into the cache directory if there is none
    #[arg(long)]
    pub provision: bool,
    /// The format of the output, which is text or JSON
    #[arg(long, value_parser = only(PRINTED), default_value = "terminal")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper compare main/record.json pr/record.json    what the pull request makes worse
  gatekeeper compare main.json pr.json --format markdown > comment.md
  gatekeeper compare main-runs/ pr-runs/ --p50 +2%      NVBench's JSON, a file for each process

Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 inconclusive, 4 environment (`gatekeeper --help`).")]
pub struct CompareArgs {
    /// The record.json of the old state; or NVBench's JSON (--jsonbin), or a directory of it with one file per
    /// process
    pub base: PathBuf,
    /// The same of the new state
    pub head: PathBuf,
    /// How much slower than BASE the p50 of every case of HEAD may be, in addition to its gates
    #[arg(long, value_name = "+N%", value_parser = change, allow_hyphen_values = true)]
    pub p50: Option<f64>,
    /// Allow gates of HEAD that are looser than BASE's
    #[arg(long)]
    pub allow_loosened: bool,
    /// Output format; github: annotations for a workflow's step
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper run --base origin/main && gatekeeper explain
  gatekeeper explain sdpa_fp8/stage2@mission                          one case of the last run
  gatekeeper explain --record pr.json --base main.json 'rmsnorm*'     two runs of one machine
  gatekeeper explain --measure sdpa_fp8/stage2@mission                what each hunk costs

Exit codes: 0 whatever the causes are, 2 wrong usage, 4 environment.")]
pub struct ExplainArgs {
    /// Cases, as for `run` [default: all]
    #[arg(value_name = "FILTER")]
    pub cases: Vec<String>,
    /// The record of the run, as `gatekeeper run` wrote it
    #[arg(long, default_value = LAST_RECORD, value_name = "FILE")]
    pub record: PathBuf,
    /// The record of the old state, for a run without --base
    #[arg(long, value_name = "RECORD")]
    pub base: Option<PathBuf>,
    /// Take the change of one case apart, and measure each hunk, flag, macro and launch alone: added to the base, and
    /// taken from head. Needs the files of the run
    #[arg(long, conflicts_with = "base")]
    pub measure: bool,
    /// With --measure: where kernels run, as for `run` [default: as in the run]
    #[arg(
        long,
        default_value = "auto",
        value_name = "DEVICE",
        requires = "measure",
        hide_default_value = true
    )]
    pub device: DeviceChoice,
    /// With --measure: install the compiler first, if there is none
    #[arg(long, requires = "measure")]
    pub provision: bool,
    /// The format of the output, which is text, Markdown or JSON
    #[arg(long, value_parser = only(FOR_CAUSES), default_value = "terminal")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:
  gatekeeper judge gatekeeper-out/record.json    the same verdicts and exit code as the run's

Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 inconclusive, 4 environment (`gatekeeper --help`).")]
pub struct JudgeArgs {
    /// The record of the run, as `gatekeeper run` wrote it
    pub record: PathBuf,
    /// Output format; github: annotations for a workflow's step
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper merge shards/*/record.json --out merged    the shards of one run, judged as one
  gatekeeper merge h100/record.json l4/record.json      two GPU models, side by side

Exit codes: 0 passed, 1 failed, 2 wrong usage or no whole, 3 inconclusive, 4 environment (`gatekeeper --help`).")]
pub struct MergeArgs {
    /// The record.json of every shard, of one or of several GPU models
    #[arg(required = true)]
    pub records: Vec<PathBuf>,
    /// Directory for the files that `run` writes; of several GPU models one in it for each
    #[arg(long, default_value = "gatekeeper-out", value_name = "DIR")]
    pub out: PathBuf,
    /// The gates file next to the baselines whose history in git report.html shows
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper report                                   the last run again
  gatekeeper report --verbose                         and its details
  gatekeeper report --format markdown > comment.md
  gatekeeper report ci/record.json --ladder           each variant against the one before it
  gatekeeper report --diagnosis                       what bounds each case

Exit codes: 0 whatever the verdicts are, 2 wrong usage, 4 environment.")]
pub struct ReportArgs {
    /// The record.json that `run` wrote; or NVBench's JSON (--jsonbin), or a directory of it with one file
    /// per process
    #[arg(default_value = LAST_RECORD)]
    pub record: PathBuf,
    /// Output format; html: one page for a browser; github: annotations for a workflow's step
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    /// Each variant of a kernel against the one before it and the first; as terminal, markdown or json
    #[arg(long, conflicts_with = "quiet")]
    pub ladder: bool,
    /// Print what bounds each case, with its values and what to try; as terminal, markdown or json
    #[arg(long, conflicts_with_all = ["ladder", "quiet"])]
    pub diagnosis: bool,
    /// The gates file next to the baselines whose history in git --format html shows
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper tune sdpa_f16/mma                          as `tune` of that variant in gates.yaml says
  gatekeeper tune sdpa_f16/mma --budget 10min --resume  go on with the log of an earlier search
  gatekeeper tune sdpa_f16/mma --apply tuned            the winner becomes a variant in gates.yaml
  gatekeeper tune gemm --device sim                     a ranking by the simulator; exit code 3

Exit codes: 0 a configuration was shown to be faster, 1 the start does not hold its gates, 2 wrong usage,
3 none was shown to be faster, or there is no GPU, 4 environment.")]
pub struct TuneArgs {
    /// The variant to start from: KERNEL/VARIANT, or KERNEL where one of its variants has a `tune`
    #[arg(value_name = "KERNEL[/VARIANT]")]
    pub kernel: String,
    #[command(flatten)]
    pub config: ConfigArg,
    /// How the search chooses the configuration that it tries next
    #[arg(long, value_enum, default_value_t = Method::Guided, help_heading = SEARCH, hide_short_help = true)]
    pub strategy: Method,
    /// Where the search ends: '200 evaluations', or a time such as 10min [default: that of gates.yaml]
    #[arg(long, value_name = "BUDGET", help_heading = SEARCH)]
    pub budget: Option<Budget>,
    /// Seed of everything that is drawn at random
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = SEARCH, hide_short_help = true)]
    pub seed: u64,
    /// Where kernels run: auto, cuda, cuda:N, or sim (a ranking, and no times)
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = DeviceChoice::parse_one, help_heading = MACHINE)]
    pub device: DeviceChoice,
    /// Without a GPU, skip a case that takes more warp instructions, all seeds together [default: that of gates.yaml,
    /// else 50000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000_000), help_heading = SEARCH, hide_short_help = true)]
    pub sim_budget: Option<u64>,
    /// Go on with the log of an earlier search of the same
    #[arg(long, help_heading = SEARCH)]
    pub resume: bool,
    /// The log, a line of JSON for each event; reports are written next to it
    /// [default: gatekeeper-out/tune-KERNEL-VARIANT.jsonl]
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub log: Option<PathBuf>,
    /// Write the winner into the gates file as a variant of this name, where it was shown to be faster
    #[arg(long, value_name = "NAME", help_heading = OUTPUT)]
    pub apply: Option<String>,
    /// Install the pinned compiler into the cache directory if there is none
    #[arg(long, help_heading = MACHINE)]
    pub provision: bool,
    /// The format of the output, which is text or Markdown
    #[arg(long, value_parser = only(FOR_SEARCHES), default_value = "terminal", help_heading = OUTPUT, hide_short_help = true)]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper history                                  all baselines that git has
  gatekeeper history 'sdpa_*/stage2@mission'          these cases
  gatekeeper history --format markdown > history.md   with charts, as GitHub draws them
  gatekeeper history --format html > history.html     one page, to be put on a pages host

Exit codes: 0, 2 wrong usage or no history, 4 environment.")]
pub struct HistoryArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Only these cases, as for `run`; they need not be in gates.yaml any more
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Output format; html: one page for a browser
    #[arg(long, value_parser = only(FOR_HISTORIES), default_value = "terminal")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper binary libkernels.so                       every kernel, a line for each architecture
  gatekeeper binary build/gemm.cubin                    machine code that nvcc -cubin wrote
  gatekeeper binary dist/kernels-1.0-py3-none-any.whl   every library in a wheel
  gatekeeper binary ~/.triton/cache                     every file in a directory
  gatekeeper binary libkernels.a --format json | jq .   the same for programs
  gatekeeper binary new.whl --base old.whl              compare the kernels of two builds, and judge them
  gatekeeper binary new.so --base old.so --limit registers=+0% --limit stack=+0%
  gatekeeper binary k.ptx --base-toolchain 13.0 --toolchain 13.3 --arch sm_90    the same PTX by two ptxas
  gatekeeper binary new.so --base old.so --explain      and say why: spills, a loop unrolled less, narrower accesses
  gatekeeper binary                                     judge the compiled files of gates.yaml
  gatekeeper binary --update                            accept them as they are, then commit baselines/

Exit codes: 0 (with a base: every limit holds), 1 a limit is broken, 2 wrong usage, or there is no GPU code, 3 undecided, \
4 something cannot be read or is damaged.")]
pub struct BinaryArgs {
    /// A library, object, program, cubin, fat binary or PTX, or a wheel or directory of these; without one, `binaries`
    /// of gates.yaml are judged
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub config: ConfigArg,
    /// Without FILE: write the baselines of `binaries`, to be committed, and judge nothing
    #[arg(long, conflicts_with = "file", help_heading = BASELINES)]
    pub update: bool,
    /// With --update: accept values that are worse than the agreed ones, too
    #[arg(long, requires = "update", help_heading = BASELINES, hide_short_help = true)]
    pub allow_worse: bool,
    /// Compare with this older file, wheel or directory, kernel by kernel
    #[arg(long, value_name = "OLD", requires = "file", group = "old", help_heading = COMPARISON)]
    pub base: Option<PathBuf>,
    /// Compare with the same PTX, assembled by this compiler, named as for `run`
    #[arg(long, value_name = "TOOLCHAIN", requires = "file", group = "old", help_heading = COMPARISON, hide_short_help = true)]
    pub base_toolchain: Option<Choice>,
    /// Assemble the PTX of FILE with this compiler, and list or compare that [default: with --base-toolchain the one
    /// that `run` finds]
    #[arg(long, value_name = "TOOLCHAIN", requires = "file", help_heading = MACHINE, hide_short_help = true)]
    pub toolchain: Option<Choice>,
    /// Assemble for this architecture [default: the target that each PTX names]
    #[arg(long, value_name = "ARCH", requires = "file", help_heading = MACHINE, hide_short_help = true)]
    pub arch: Option<Arch>,
    /// Install the compilers that are needed into the cache directory if they are not there
    #[arg(long, requires = "file", help_heading = MACHINE, hide_short_help = true)]
    pub provision: bool,
    /// With a base: how much worse a metric of each kernel may be. Metrics: registers, stack, shared, code, local_accesses;
    /// where the source states launch bounds blocks_per_sm and occupancy [default: occupancy=-0% and stack=+0%]
    #[arg(long, value_name = "METRIC=CHANGE", value_parser = allowed_change, requires = "old", help_heading = COMPARISON)]
    pub limit: Vec<AllowedChange>,
    /// With a base: do not fail where a library has lost all machine code for an architecture
    #[arg(long, requires = "old", help_heading = COMPARISON, hide_short_help = true)]
    pub allow_loosened: bool,
    /// With --base: say why kernels changed, from their machine code. Needs nvdisasm
    #[arg(long, requires = "file", conflicts_with_all = ["base_toolchain", "toolchain"], help_heading = OUTPUT)]
    pub explain: bool,
    /// Output format; without a base terminal or json
    #[arg(long, value_enum, default_value_t = Format::Terminal, help_heading = OUTPUT)]
    pub format: Format,
    /// With a base: also leave the files that `run` writes in this directory
    #[arg(long, value_name = "DIR", requires = "old", help_heading = OUTPUT, hide_short_help = true)]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper validate                       file, line, column and key of the first mistake
  gatekeeper validate --explain add@small   what the file comes to for a case, and which line says so

Exit codes: 0, or 2 for a mistake.")]
pub struct ValidateArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Explain these cases (a filter, as for `run`)
    #[arg(long, value_name = "CASE")]
    pub explain: Option<String>,
    /// The format of what --explain prints, which is text or JSON
    #[arg(long, value_parser = only(PRINTED), default_value = "terminal", requires = "explain")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper list                        every case, as KERNEL/VARIANT@SHAPE, in the order of gates.yaml
  gatekeeper list 'sdpa_*@small'         those that a run of the same filter takes
  gatekeeper list --format json          the same for programs

Exit codes: 0, or 2 for a mistake or a filter that matches nothing.")]
pub struct ListArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Cases, as for `run` [default: all]
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// The format of the output, which is text or JSON
    #[arg(long, value_parser = only(PRINTED), default_value = "terminal")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  gatekeeper init                    gates.yaml in this directory, for the kernels of its .cu, .cuh and .ptx files
  gatekeeper init dev/cuda k.cu      for the kernels of these sources and directories alone
  gatekeeper init gpu/gates.yaml     in another directory; its paths are relative to that one
  gatekeeper init --include third_party/include --define BLOCK=128 --flags -std=c++20
  gatekeeper init --provision        install the compiler first, if there is none
  gatekeeper init --build -- python setup.py build_ext    run the build, and compile as it does
  gatekeeper init --program -- python test.py             run the program, and write its calls

nvcc lists the kernels and their parameters. Launches and the names of sizes are read in the sources, and the simulator
shows how far a kernel reaches. A kernel whose call is not known is a comment in the file.

Exit codes: 0, 2 wrong usage (no source, no kernel), 3 no call is known, 4 environment (no compiler, nothing compiles).")]
pub struct InitArgs {
    /// Sources (.cu, .cuh, .ptx) and directories of sources; a path that ends in .yaml is the file to write [default:
    /// all below the directory of the file]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Search this directory for headers, and write it as `include_dirs`; can be repeated
    #[arg(long, value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Define this macro, and write it as `define`; can be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// Compile with these flags of nvcc, and write them as `flags`; can be repeated
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    pub flags: Vec<String>,
    /// The GPU architecture that kernels are compiled for
    #[arg(long, default_value = "sm_90", value_name = "ARCH")]
    pub arch: Arch,
    /// Add the kernels that the file does not have, and leave the rest of it as it is
    #[arg(long)]
    pub append: bool,
    /// Do not run the file once it is written
    #[arg(long)]
    pub no_run: bool,
    /// Install the pinned compiler into the cache directory if there is none
    #[arg(long)]
    pub provision: bool,
    /// Run the build that follows two dashes, and compile each source as it does
    #[arg(long, requires = "command", group = "learn")]
    pub build: bool,
    /// Run the program that follows two dashes on this machine's GPU, and write the calls that it makes
    #[arg(long, requires = "command", group = "learn")]
    pub program: bool,
    /// The command of --build or --program
    #[arg(last = true, value_name = "COMMAND", requires = "learn")]
    pub command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum BaselineCommand {
    /// Accept what a record measured as the new baselines of its cases
    #[command(after_long_help = "Examples:
  gatekeeper run && gatekeeper baseline update        accept the last run, then commit baselines/
  gatekeeper baseline update 'rmsnorm*'               only these kernels
  gatekeeper baseline update --record ci/record.json  accept what CI measured
  gatekeeper baseline update --allow-worse gemm       accept an intended regression

Exit codes: 0, 1 if a value was refused, 2 wrong usage, 4 environment.")]
    Update {
        /// The record of the run, as `gatekeeper run` wrote it
        #[arg(long, default_value = LAST_RECORD, value_name = "FILE")]
        record: PathBuf,
        #[command(flatten)]
        config: ConfigArg,
        /// Only these cases, as for `run`
        #[arg(value_name = "FILTER")]
        filters: Vec<String>,
        /// Accept values that are worse than the agreed ones, too
        #[arg(long)]
        allow_worse: bool,
    },
    /// Give committed baselines the name that gates.yaml has for their kernel, variant or shape now
    #[command(after_long_help = "Examples:
  gatekeeper baseline rename copy copy_f32            a kernel, with all of its variants
  gatekeeper baseline rename sdpa/stage2 sdpa/tiled   a variant
  gatekeeper baseline rename sdpa@mission sdpa@s4k    a shape, in all variants

Exit codes: 0, 2 wrong usage, 4 environment.")]
    Rename {
        /// The old name: KERNEL, KERNEL/VARIANT, KERNEL@SHAPE or KERNEL/VARIANT@SHAPE
        #[arg(value_name = "FROM")]
        from: String,
        /// The new name, of the same form
        #[arg(value_name = "TO")]
        to: String,
        #[command(flatten)]
        config: ConfigArg,
    },
    /// List the values that the committed baselines have
    #[command(after_long_help = "Examples:
  gatekeeper baseline show
  gatekeeper baseline show 'sdpa_*'

Exit codes: 0, or 2 if one is broken or none matches.")]
    Show {
        #[command(flatten)]
        config: ConfigArg,
        /// Show only kernels whose names match one of these globs
        #[arg(value_name = "FILTER")]
        filters: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum ToolchainCommand {
    /// Install a compiler into the cache directory
    #[command(after_long_help = "Examples:
  gatekeeper toolchain install         CUDA 13.0, as `run --provision` does; needs python3 with pip
  gatekeeper toolchain install 13.2    the newest update of CUDA 13.2")]
    Install {
        /// A version of nvcc on PyPI, or the beginning of one
        #[arg(value_name = "VERSION", default_value = PROVIDED)]
        version: String,
    },
    /// List the compilers that are installed, and those that PyPI has
    #[command(after_long_help = "Example:
  gatekeeper toolchain list    each version of nvcc; without a network, those that gatekeeper knows")]
    List,
    /// Print which compiler `run` would use
    #[command(after_long_help = "Example:
  gatekeeper toolchain show    version and path of nvcc and of the host compiler")]
    Show(ConfigArg),
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Print what the cache holds: sizes, and when each kind of entry was last used
    #[command(after_long_help = "Example:
  gatekeeper cache show    compilers, builds, expected outputs, simulated results, inputs, base revisions")]
    Show,
    /// Remove the entries that were not used for longest, unless another gatekeeper is using the cache
    #[command(after_long_help = "Examples:
  gatekeeper cache prune --max-size 10GiB      until 10 GiB are left
  gatekeeper cache prune --older-than 30d      entries that were not used for a month
  gatekeeper cache prune --max-size 0 --dry-run

Exit codes: 0, 2 wrong usage, 4 environment.")]
    Prune {
        /// Remove the entries unused for longest until the cache is this small, for example 10GiB
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        max_size: Option<u64>,
        /// Remove entries that were not used for this long, for example 30d or 12h
        #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
        older_than: Option<std::time::Duration>,
        /// Print what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Terminal,
    Markdown,
    Html,
    Json,
    Junit,
    Github,
    Sarif,
}

/// Neither a profile nor a list of kernels has verdicts.
const PRINTED: &[Format] = &[Format::Terminal, Format::Json];
/// Programs read the log of a search.
const FOR_SEARCHES: &[Format] = &[Format::Terminal, Format::Markdown];
const FOR_CAUSES: &[Format] = &[Format::Terminal, Format::Markdown, Format::Json];
/// A history has no annotations, as it is no judgement.
const FOR_HISTORIES: &[Format] = &[
    Format::Terminal,
    Format::Markdown,
    Format::Html,
    Format::Json,
];

/// Returns a parser of the formats that a command has.
fn only(formats: &'static [Format]) -> impl TypedValueParser<Value = Format> {
    let names = formats.iter().filter_map(Format::to_possible_value);
    PossibleValuesParser::new(names).try_map(|name| Format::from_str(&name, false))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// The file of kernels, cases and gates: gates.yaml
    Gates,
    /// The plan of a run, and what it observed: record.json
    Record,
    /// The verdicts of a run for programs: report.json
    Report,
}

/// Parses the change of a metric that is allowed, such as `registers=+0%` or `occupancy=-5%`.
fn allowed_change(text: &str) -> Result<AllowedChange, String> {
    let (name, change) = text.split_once('=').unwrap_or((text, ""));
    let metrics = AllowedChange::METRICS;
    let Some(metric) = metrics.into_iter().find(|metric| metric.name() == name) else {
        let names = metrics.map(Metric::name).join(", ");
        return Err(format!("`{name}` is none of {names}"));
    };
    let sign = if metric.larger_is_better() { '-' } else { '+' };
    match config::parse_margin(change, metric) {
        Some(change) => Ok(AllowedChange { metric, change }),
        None => Err(format!(
            "write how much worse it may be, for example {name}={sign}5%{}",
            if metric.has_amounts() {
                format!(" or {name}={sign}2")
            } else {
                String::new()
            }
        )),
    }
}

/// Parses how much worse a value may be, and returns `+2%` as the share 0.02.
fn change(text: &str) -> Result<f64, String> {
    match config::parse_change(text, '+') {
        Some(change) => Ok(change.0),
        None => Err("write how much worse it may be, for example +2%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("10GiB"), Ok(10 << 30));
        for wrong in ["", "GiB", "10GB", "1.5GiB", "-1", "10 GiB", "99999999TiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
