//! The meaning of each verdict's code and its remedy: docs/verdicts.md is made of this. Pure.

use model::Outcome::{
    self, Environment, Expected, Fail, Inconclusive, Pass, Replaced, Skipped, Unsupported,
};

pub struct Group {
    pub title: &'static str,
    pub entries: &'static [Entry],
}

pub struct Entry {
    pub code: &'static str,
    /// That a verdict with this code can have; none of what `baseline update` alone answers.
    pub outcomes: &'static [Outcome],
    pub cause: &'static str,
    pub mend: &'static str,
}

const fn entry(
    code: &'static str,
    outcomes: &'static [Outcome],
    cause: &'static str,
    mend: &'static str,
) -> Entry {
    Entry {
        code,
        outcomes,
        cause,
        mend,
    }
}

pub const GROUPS: &[Group] = &[
    Group {
        title: "Held",
        entries: HELD,
    },
    Group {
        title: "A kernel that is wrong",
        entries: WRONG,
    },
    Group {
        title: "A limit that is broken",
        entries: BROKEN,
    },
    Group {
        title: "Could not be run",
        entries: NOT_RUN,
    },
    Group {
        title: "Does not decide",
        entries: UNDECIDED,
    },
    Group {
        title: "Nothing to compare with",
        entries: NEW,
    },
    Group {
        title: "Not fit for a baseline",
        entries: UNFIT,
    },
];

#[rustfmt::skip]
const HELD: &[Entry] = &[
    entry("held", &[Pass], "The rule holds.", "-"),
    entry("compiled", &[Pass], "It compiles; the message counts warnings.", "-"),
    entry("within-limit", &[Pass], "The value is within an absolute limit.", "-"),
    entry("condition-holds", &[Pass], "The condition is true.", "-"),
    entry("one-mode", &[Pass], "Single launches have one mode, so no share of them is slow.", "-"),
    entry("within-change", &[Pass], "The value is within its limit of the baseline, an anchor or the base.", "-"),
    entry("counters-hold", &[Pass], "No counter is worse than its baseline by more than the limit. The message lists counters that were not gated.", "-"),
    entry("unchanged-since-base", &[Pass], "Machine code, launch and arguments are those of the base, so it was not timed.", "-"),
    entry("accepted", &[Pass], "The limit is broken, and an acceptance covers that.", "Fix it before the acceptance ends."),
    entry("findings-accepted", &[Pass], "The simulator found something at lines that are accepted, and nothing else.", "Fix it before the acceptance ends."),
    entry("loosening-allowed", &[Pass], "Head is looser than the base, and `--allow-loosened` allowed it.", "-"),
    entry("fell-back", &[Replaced], "The gate did not hold, and the variant that gates.yaml names as `fallback` holds all of its own; the run had `--allow-fallback`.", "Fix the variant, or use the other one."),
    entry("expected-failure", &[Expected], "The gate fails, and gates.yaml expects that of the variant (`expect: {fail: ...}`).", "-"),
];

#[rustfmt::skip]
const WRONG: &[Entry] = &[
    entry("same-code", &[Fail], "A variant compiles to the same code, launches and arguments as another: its macros have no effect.", "Use the macro in the source, or remove the variant."),
    entry("non-finite", &[Fail], "Output elements are NaN or infinite where the reference is finite.", "Fix the kernel. `--dump DIR` writes inputs, output and reference."),
    entry("stored-undefined", &[Fail], "Output elements hold what comes from memory that was never written.", "Fix the read that `memory and races` names."),
    entry("unwritten", &[Fail], "Output elements were never written.", "Fix bounds or grid, or make the tensor `inout`."),
    entry("nondeterministic", &[Fail], "Two launches on the same inputs differ.", "Fix the race, or declare it with `nondeterministic`."),
    entry("first-launch-only", &[Fail], "A launch that finds what an earlier one left in variables of the module computes something else: a counter that is not reset, a table of results, a flag. The message names the variable and what writes it.", "Reset it in the kernel (its last block can), or have the host write it before each launch (`constants`)."),
    entry("wrote-outside", &[Fail], "The kernel writes before or after its buffers.", "Fix the index."),
    entry("input-written", &[Fail], "The kernel writes to a tensor declared as input.", "Fix the kernel, or make the tensor `inout` or `scratch`."),
    entry("findings", &[Fail], "The simulator found an invalid access, a value that nothing wrote and that is used, a race, or an output that depends on the machine or the moment.", "Fix the source line in the message."),
    entry("new-hazards", &[Fail], "Lanes of a warp write and read one place, no `__syncwarp()` orders them, and the base does not have this.", "Put `__syncwarp()` between the two accesses of the message."),
    entry("no-entry", &[Fail, Inconclusive], "The compiler reported no entry for this unit.", "Correct `entry` in gates.yaml."),
    entry("undeclared-entry", &[Fail, Inconclusive], "A launcher launches an entry that gates.yaml does not declare for it.", "Declare it under `launches` of the launcher."),
    entry("driver-disagrees", &[Fail], "The driver reports other resources than PTXAS, or another occupancy than the published limits allow.", "Check that nothing else builds or patches the cubin. If not, report it."),
    entry("launched-otherwise", &[Fail], "The launch that ran is not the one that gates.yaml plans.", "Correct `launch` of the kernel."),
    entry("shared-beyond-declared", &[Fail], "A launcher asks for more dynamic shared memory than it declares.", "Correct `dynamic_shared` under `launches` of the launcher."),
    entry("does-not-compile", &[Fail], "nvcc or the host compiler rejected the source. The message is the compiler's.", "Fix the source, its flags or `include_dirs`."),
    entry("entry-not-found", &[Fail], "The entry is not in the cubin, or its name matches several.", "Correct `entry`; the message lists candidates."),
    entry("arguments-do-not-fit", &[Fail], "An argument in gates.yaml is of another type or size than the kernel's parameter, or there are more or fewer of them.", "Change `args` at the line that the message names, in the order of the kernel's parameters."),
    entry("launch-refused", &[Fail], "The driver rejected the launch.", "Reduce threads, shared memory or cluster size; a cooperative grid has to fit the GPU as a whole."),
    entry("kernel-faulted", &[Fail], "The kernel faulted: illegal or misaligned address, trap or assert.", "Fix the kernel. The simulator (`--device sim`) names the line."),
    entry("hung", &[Fail], "The kernel did not finish before its deadline, and its process was ended.", "Look for a barrier that not all threads reach, or an endless loop."),
    entry("worker-died", &[Fail], "The process that ran the kernel ended by a signal or an exit code.", "Look at host code: a launcher or a reference."),
    entry("no-reference", &[Fail], "The reference does not compile, or could not be computed.", "Fix the reference."),
];

#[rustfmt::skip]
const BROKEN: &[Entry] = &[
    entry("beyond-limit", &[Fail], "The value is beyond an absolute limit.", "Fix the kernel, or change the limit in gates.yaml."),
    entry("not-a-number", &[Fail], "The value is NaN, which no limit allows.", "Fix the elements that are not finite."),
    entry("condition-broken", &[Fail], "The condition is false. The message gives the value of each name in it.", "Fix the kernel, or change the condition."),
    entry("beyond-change", &[Fail], "The value is worse than the baseline, an anchor or the base by more than the limit.", "Fix the regression. If it is intended, run `gatekeeper baseline update` or accept it."),
    entry("counters-rose", &[Fail], "Counters are worse than their baseline by more than the limit. The message names the source lines that count most.", "Fix the regression. If it is intended, run `gatekeeper baseline update` or accept it."),
    entry("loosened", &[Fail], "Head is looser than the base: a gate, a seed, a tolerance, a baseline or a case was removed or relaxed, a reference computes something else, or the change accepts what it breaks.", "Restore it, or pass `--allow-loosened`, which a workflow takes from a label."),
    entry("acceptance-expired", &[Fail], "An acceptance has passed its date.", "Fix the regression, update the baseline, or extend the acceptance."),
    entry("acceptance-undated", &[Fail], "The record has no readable start date, so an acceptance may have expired.", "Record the run again."),
    entry("acceptance-of-nothing", &[Fail], "An acceptance names a case that gates.yaml does not have.", "Correct the name, or remove the acceptance."),
    entry("acceptance-without-gate", &[Fail], "No gate of the named case has a limit of the accepted kind.", "Correct the acceptance, or remove it."),
    entry("acceptance-unused", &[Fail], "Every gate holds without the acceptance.", "Remove it."),
    entry("expected-failure-passed", &[Fail], "A variant that is expected to fail holds every gate that was judged.", "Find out why nothing catches it any more. If it is right now, remove its `expect`."),
    entry("failed-otherwise", &[Fail], "A variant that is expected to fail fails a gate that `expect` does not name: it does not build, for example.", "Fix that, or name the gate too."),
    entry("accepted-finding-gone", &[Fail], "The simulator ran all cases that the acceptance names, and none has the finding at that line.", "Remove the acceptance. If the line was edited, write its new text."),
    entry("accepted-until", &[Fail], "The limit is broken, and its acceptance has ended.", "Fix the regression, update the baseline, or extend the acceptance."),
    entry("beyond-accepted", &[Fail], "The value is worse than even the acceptance allows.", "Fix the regression."),
    entry("baseline-unreadable", &[Fail], "A baseline file cannot be read.", "Restore the file, or remove it and run `gatekeeper baseline update`."),
    entry("baseline-unusable", &[Fail], "A value of the baseline is not usable: not finite, outside the range of its metric, or without a valid spread.", "Measure again and run `gatekeeper baseline update`."),
];

#[rustfmt::skip]
const NOT_RUN: &[Entry] = &[
    entry("expected-failure-open", &[Skipped, Inconclusive, Environment], "The variant is expected to fail, and no gate that `expect` names gave an answer here, or a filter left out some of its shapes.", "See the reasons of these gates; run the whole variant."),
    entry("gpu-required", &[Environment], "`--require-gpu` was given, and there is no usable GPU.", "Run on a machine with a GPU."),
    entry("disassembler-broke", &[Environment], "Machine code is not explained: nvdisasm ended with an error. The message is its own.", "Install the pinned one with `gatekeeper toolchain install`."),
    entry("no-profiler", &[Environment], "Nsight Compute was not found.", "Install it (package `nsight-compute`), or name its directory in PATH. `gatekeeper doctor` tells what is found."),
    entry("counters-locked", &[Environment], "The driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM).", "Set the driver's option `NVreg_RestrictProfilingToAdminUsers=0` and load it again, or run as root; in a container add the capability SYS_ADMIN."),
    entry("profiler-locked", &[Environment], "Another user's profiler left a lock file that keeps others out.", "Have its owner remove the file that the message names, or set TMPDIR to a directory of your own."),
    entry("profiler-broke", &[Environment], "Nsight Compute cannot profile this GPU with this driver, or its output cannot be read.", "Try `ncu` by hand; install a version that knows the GPU."),
    entry("environment-failed", &[Environment], "A known-good kernel failed as well: device, driver or machine.", "Run `gatekeeper doctor`."),
    entry("not-built", &[Skipped], "The unit was not built. Its gate `built` says why.", "Fix what that gate reports."),
    entry("not-proven", &[Skipped], "A wrong kernel is not timed.", "Fix what the message names."),
    entry("unreferenced", &[Inconclusive], "gates.yaml says `reference: none`: nothing is there to compare the output with.", "Write a reference: a built-in one, a C function of yours, or a variant that is known to be right."),
    entry("no-error-limit", &[Inconclusive], "Correctness is not established: no gate sets an absolute limit on the error.", "Add `max_err` or `rel_l2` with an absolute limit."),
    entry("not-selected", &[Skipped], "A filter left it out.", "Run without the filter."),
    entry("not-in-plan", &[Inconclusive], "A gate names a unit or case that the plan does not have.", "Correct the name."),
    entry("no-architecture", &[Unsupported], "It is built for no architecture that runs on this device.", "Add the architecture to `architectures`."),
    entry("not-simulated", &[Skipped], "Findings and counters come from the simulator, and this run used a GPU.", "Run with `--device sim`."),
    entry("not-profiled", &[Skipped], "The gate rests on a profile, and none was asked for.", "Run with `--profile` on a GPU, with Nsight Compute installed."),
    entry("no-sibling", &[Skipped], "The kernel has no other variant in this run to compare with.", "-"),
    entry("declared-nondeterministic", &[Skipped], "gates.yaml declares the case non-deterministic.", "-"),
    entry("repeats-by-construction", &[Skipped], "No launch left anything in variables of the module. The simulator then repeats its results, so determinism is judged on a GPU only.", "Run on a GPU."),
    entry("unknown-architecture", &[Unsupported], "This version does not know the limits of the architecture.", "Update gatekeeper."),
    entry("launcher-elsewhere", &[Unsupported], "A launcher's block size is read back on a GPU, and the GPU here runs another architecture.", "Run on a GPU of that architecture."),
    entry("no-codec", &[Unsupported], "The metric needs an input with a codec, and the case has none.", "Remove the gate, or declare the codec."),
    entry("counter-withheld", &[Unsupported], "The simulator is not known to count this launch as a GPU does.", "Gate another counter. The message names the line that causes it."),
    entry("counters-withheld", &[Skipped], "No counter of this launch can be gated.", "Gate times on a GPU."),
    entry("rival-skipped", &[Skipped], "The gate compares with a rival, which did not run this backend. The message is the rival's.", "Install what the message names, or gate another backend."),
    entry("no-device", &[Skipped], "The machine has no NVIDIA GPU.", "Run on a GPU."),
    entry("simulator-asked", &[Skipped], "`--device sim` was given; times are measured on a GPU.", "Run on a GPU."),
    entry("earlier-stage", &[Skipped], "Build or checks did not pass.", "Fix what they report."),
    entry("over-budget", &[Skipped], "Simulating the case takes more warp instructions than the budget.", "Raise `simulation: {budget: ...}` or `--sim-budget`, or add a smaller shape."),
    entry("over-memory", &[Skipped], "The tensors of the case do not fit the simulator's memory.", "Add a smaller shape."),
    entry("estimate-unknown", &[Skipped], "The cost of the case could not be estimated, so only its first seed was simulated.", "Raise the budget, or add a smaller shape."),
    entry("no-reference-variant", &[Skipped], "The variant that serves as reference is not part of this run.", "Select it too."),
    entry("no-artifact", &[Skipped], "Nothing was built for this device.", "Add its architecture to `architectures`."),
    entry("driver-not-asked", &[Skipped], "The worker ended before it asked the driver.", "See the fault of the same case."),
    entry("device-not-asked", &[Skipped], "This run used no device.", "-"),
    entry("code-not-kept", &[Skipped], "Machine code is not explained: the build cache of this machine does not have it, or has it no longer.", "Explain on the machine that made both records, or run with `--base`."),
    entry("no-disassembler", &[Skipped], "Machine code is not explained: nvdisasm is neither next to nvcc nor on PATH.", "Run `gatekeeper toolchain install`, or install the cuda-nvdisasm package of your CUDA toolkit."),
    entry("other-program", &[Skipped], "Another program ran the kernels and did not record it.", "-"),
    entry("passed-over", &[Skipped], "Another program skipped it. The message is that program's.", "-"),
    entry("launcher-not-simulated", &[Unsupported], "A launcher is host code, and the simulator runs device code only.", "Run on a GPU."),
    entry("clusters-not-simulated", &[Unsupported], "The simulator does not run clusters of blocks.", "Run on a GPU."),
    entry("cubin-not-simulated", &[Unsupported], "The source is a cubin, and the simulator runs PTX.", "Run on a GPU, or give the .ptx that it was made from."),
    entry("ptx-too-new", &[Unsupported], "The source is PTX of a newer version than the installed PTXAS takes. The simulator runs it, but there is no machine code: no resources are known, and no GPU can run it.", "Use a newer compiler, or make the PTX for the version that this one takes."),
    entry("not-in-cubin", &[Unsupported], "The source is a cubin, which does not contain the spills, or the size of the stack where it calls functions.", "Give the .ptx that it was made from: PTXAS then reports them."),
    entry("launcher-code-not-read", &[Unsupported], "Machine code is not explained: a launcher's kernels are inside its library.", "Declare the kernel itself, with `entry`."),
    entry("ptx-not-simulated", &[Unsupported], "The simulator does not have an instruction that the kernel uses.", "Run on a GPU."),
    entry("out-of-memory", &[Unsupported], "The device or the simulator has too little memory.", "Add a smaller shape."),
    entry("no-clock", &[Unsupported], "The device has no clock to trust.", "Run on a GPU."),
    entry("no-driver", &[Unsupported], "The simulator has no driver to ask.", "Run on a GPU."),
    entry("driver-lacks", &[Unsupported], "The driver cannot do what is needed.", "Update the driver."),
    entry("not-capturable", &[Unsupported], "The launcher cannot be captured into a CUDA graph.", "Remove synchronisation and allocation from the launcher."),
    entry("host-too-slow", &[Unsupported], "The host is too slow to keep its own time out of the samples.", "Use a faster or quieter host."),
    entry("gpu-does-not-simulate", &[Unsupported], "A GPU was asked to simulate.", "Run with `--device sim`."),
    entry("reference-unsupported", &[Unsupported], "The reference variant cannot run on this device.", "See the rest of the message."),
    entry("not-counted", &[Unsupported], "The GPU's architecture has no counter for it.", "Gate another metric."),
    entry("several-kernels", &[Unsupported], "The case launches several kernels, and shares of each give none of all.", "Gate a count, which adds up, or profile the steps as cases of their own."),
    entry("confined-not-profiled", &[Unsupported], "A launcher runs confined, which keeps a profiler out.", "Profile its kernels as entries of their own."),
    entry("samples-not-kept", &[Unsupported], "Another program kept no samples.", "Run NVBench with `--jsonbin`."),
];

#[rustfmt::skip]
const UNDECIDED: &[Entry] = &[
    entry("evidence-missing", &[Inconclusive], "The record lacks a piece of evidence.", "Record the run again."),
    entry("evidence-repeated", &[Inconclusive], "The record has a piece of evidence twice.", "Record the run again; merge each record once."),
    entry("timing-incomplete", &[Inconclusive], "A timing process lacks samples, or ran in another mode than planned.", "Record the run again."),
    entry("too-few-processes", &[Inconclusive], "Fewer timing processes than planned.", "Record the run again."),
    entry("too-few-singles", &[Inconclusive], "p90, p99 and cv need more single launches.", "Raise `timing: {singles: ...}`."),
    entry("too-few-launches", &[Inconclusive], "Too few single launches to tell two modes from one.", "Raise `timing: {singles: ...}`."),
    entry("throttled", &[Inconclusive], "Too many timing processes ran on a throttled GPU.", "Let it cool, raise its power limit, or run again."),
    entry("not-in-profile", &[Inconclusive], "The profile lacks the metric.", "Record the run again."),
    entry("too-few-profiles", &[Inconclusive], "A relative limit needs to know how much profiles of the same code differ.", "Run with `--profile` and update the baseline: a case with such a limit is profiled three times."),
    entry("repeats-disagree", &[Inconclusive], "Profiles of the same code differ by more than the limit allows, so that it would hold or not by chance.", "Widen the limit, or gate a count that repeats exactly."),
    entry("clock-unknown", &[Inconclusive], "The SM clock was not measured, and cycles needs it.", "Run where NVML works; `gatekeeper doctor` tells."),
    entry("clock-too-coarse", &[Inconclusive], "The sample is too short for the clock's step.", "Raise `timing: {batch: ...}`, or use a larger shape."),
    entry("no-spread", &[Inconclusive], "One timing process has no spread.", "Time with two or more processes."),
    entry("undecided", &[Inconclusive], "The limit lies inside the interval of the change.", "Raise `max_processes`, use a quieter GPU, or widen the limit."),
    entry("undecidable", &[Inconclusive], "The samples fit no valid comparison. The message says which value is wrong.", "Record the run again."),
    entry("pairing-unknown", &[Inconclusive], "The plan does not say how head and base are timed side by side.", "Record the run again."),
    entry("no-seeds", &[Inconclusive], "The case has no seeds.", "Add `seeds`."),
    entry("nothing-compared", &[Inconclusive], "No output element was compared with the reference.", "Declare an output tensor."),
    entry("too-few-repeats", &[Inconclusive], "Fewer launches were compared than planned.", "Record the run again."),
    entry("driver-entries", &[Inconclusive], "The driver was asked about more or fewer entries than a launch has.", "Record the run again."),
    entry("entries-differ", &[Inconclusive], "The compiler reported more or fewer entries than declared.", "Correct `launches` of the launcher, or record the run again."),
    entry("launch-unknown", &[Inconclusive], "Occupancy needs a launch, and none is known.", "Add a shape, or run a launcher on a GPU."),
    entry("sibling-unknown", &[Inconclusive], "Another variant has no machine code to compare with.", "Fix its build."),
    entry("no-common-shape", &[Inconclusive], "Two variants have the same code and no shape in common.", "Give them a common shape, or remove one."),
    entry("no-tolerance", &[Inconclusive], "The metric is relative to the `max_err` limit, and there is none.", "Add an absolute limit on `max_err`."),
    entry("misplaced", &[Inconclusive], "The gate does not apply to this kind of subject.", "Move or remove the gate."),
    entry("bad-change", &[Inconclusive], "A relative limit is negative or not finite.", "Correct the limit."),
    entry("no-relative", &[Inconclusive], "The metric is mostly 0, so a relative limit says nothing.", "Use an absolute limit."),
    entry("unparsed", &[Inconclusive], "An expression cannot be read.", "Correct it at the given column."),
    entry("unevaluated", &[Inconclusive, Fail], "An expression has no value, as for a division by zero.", "Correct the expression."),
    entry("unknown-name", &[Inconclusive], "An expression uses a name that is neither a metric nor a constant.", "Correct the name."),
    entry("time-in-correctness", &[Inconclusive], "A limit on correctness depends on a time.", "Use a constant."),
    entry("operand-unknown", &[Inconclusive, Skipped, Unsupported, Fail], "A metric in an expression has no value; the outcome is that of the metric.", "See the rest of the message."),
    entry("check-lost", &[Fail, Inconclusive], "The base, or the run that the baseline is from, was checked here, and head gives no answer.", "Revert what the message names, raise the budget, or allow it with `--allow-loosened`. Without a base: remove the shape from the baselines of correctness and counters."),
    entry("counters-lost", &[Fail, Inconclusive], "Counters of the base, or of the baseline, can no longer be gated in this launch.", "Revert the line in the message, or allow it with `--allow-loosened`. Without a base: run `gatekeeper baseline update`."),
    entry("partly-accepted", &[Inconclusive], "An acceptance covers the broken limit, and what it allows instead is undecided.", "See the rest of the message."),
    entry("base-broke", &[Inconclusive], "The base's kernel failed while head was timed against it.", "Fix the base, or name another one."),
    entry("rival-broke", &[Inconclusive], "The rival that the gate compares with failed, or its output does not follow the protocol.", "Fix the rival's command; see [rivals](gates.md#rivals)."),
    entry("head-passed-over", &[Inconclusive], "The base was measured, and head was skipped.", "Measure head too."),
];

#[rustfmt::skip]
const NEW: &[Entry] = &[
    entry("new", &[Skipped], "There is no baseline yet.", "Run `gatekeeper baseline update`."),
    entry("new-since-base", &[Skipped], "The base has no such case.", "-"),
    entry("new-since-anchor", &[Skipped], "The anchor has no baseline for it.", "-"),
    entry("no-base", &[Skipped], "A gate compares with the base, and no base was named.", "Run with `--base REF`."),
    entry("other-key", &[Inconclusive], "Baselines exist, for another GPU, driver branch, compiler or setting.", "Measure here and run `gatekeeper baseline update`."),
    entry("anchor-other-key", &[Inconclusive], "The anchor's baseline is for another GPU, driver branch, compiler or setting.", "Choose an anchor with a baseline for this machine."),
    entry("anchor-missing", &[Inconclusive], "The record has no baselines of the anchor.", "Record the run again from a clone that has that revision."),
    entry("anchor-unreadable", &[Inconclusive], "A baseline file of the anchor cannot be read.", "Choose another anchor."),
    entry("two-baselines", &[Inconclusive], "Two baseline files have the same key.", "Remove one."),
    entry("base-lacks", &[Inconclusive], "The base has no value for this metric.", "See the rest of the message."),
    entry("hazards-not-compared", &[Inconclusive], "Lanes of a warp write and read one place with no `__syncwarp()` between, and whether the base does so too is not known: it was not simulated.", "Put `__syncwarp()` between the two accesses, or see the rest of the message."),
    entry("base-not-built", &[Inconclusive], "The base was not built.", "See the rest of the message."),
    entry("base-reference-broken", &[Inconclusive], "The base's reference gives no answer in the base's own tree, so head's could not be compared with it.", "Make the base's reference build there: commit the files that it needs. A change that mends it passes with `--allow-loosened`."),
    entry("base-reference-late", &[Inconclusive], "The base's reference did not answer before its deadline.", "Run again on a machine that is less busy, or let it pass with `--allow-loosened`."),
    entry("base-without-digests", &[Inconclusive], "The record of the base was checked against a reference of the user's, and does not say what that computed.", "Make the record again with this gatekeeper, or let it pass with `--allow-loosened`."),
    entry("base-unanswered", &[Inconclusive], "The base was asked what head is asked, and gave no answer that could be compared.", "See the rest of the message. A change that mends the base passes with `--allow-loosened`."),
    entry("base-on-other-device", &[Inconclusive], "The record of the base is from another kind of device, as the simulator, and has an answer where head has none.", "Make both records on one kind of device, or let it pass with `--allow-loosened`."),
    entry("base-architecture", &[Inconclusive], "The base is not built for this device.", "Use another base, or another GPU."),
    entry("two-protocols", &[Inconclusive], "One record timed the case alone, the other against a base.", "Make both records with `--base`, or both without."),
];

#[rustfmt::skip]
const UNFIT: &[Entry] = &[
    entry("not-held-to-base", &[], "The run held the case against a base, and that failed or could not be done.", "Mend what the message names, or run with `--allow-loosened` where the change is meant."),
    entry("timed-against-base", &[], "The case was timed against a base.", "Run without `--base`."),
    entry("throttled-processes", &[], "Timing processes ran on a throttled GPU.", "Let it cool, raise its power limit, or run again."),
    entry("nothing-measured", &[], "There is nothing to take as a baseline.", "Run the case first."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use model::Reason;
    use std::collections::BTreeSet;
    use std::fmt::Write;

    const HEAD: &str = "# Verdicts

Every verdict has an outcome and a stable code. Match on the code: messages may be reworded, codes are not. The JSON
report has the code as `code`, JUnit as the `type` of a failure, the terminal in brackets after the gates, markdown
under the outcome. The code of a nested reason, as in `not-proven`, is in `reason` of the JSON report.

Exit codes follow from outcomes, see the [README](../README.md#exit-codes). With `--require-gpu`, what a missing GPU would skip has the
code `gpu-required`. Gates and limits are in [gates.yaml](gates.md).
";

    fn page() -> String {
        let mut page = HEAD.to_owned();
        for Group { title, entries } in GROUPS {
            let _ = write!(page, "\n## {title}\n\n");
            page.push_str("| code | outcome | cause | what to do |\n|---|---|---|---|\n");
            for entry in *entries {
                let outcomes: Vec<_> = entry.outcomes.iter().map(|it| it.name()).collect();
                let outcomes = match outcomes.is_empty() {
                    true => "refused by `baseline update`".to_owned(),
                    false => outcomes.join(", "),
                };
                let (code, cause, mend) = (entry.code, entry.cause, entry.mend);
                let _ = writeln!(page, "| `{code}` | {outcomes} | {cause} | {mend} |");
            }
        }
        page
    }

    #[test]
    fn every_code_has_one_entry() {
        let entries = || GROUPS.iter().flat_map(|group| group.entries);
        let listed: BTreeSet<_> = entries().map(|it| it.code).collect();
        assert_eq!(listed.len(), entries().count(), "a code is listed twice");
        assert_eq!(listed, Reason::codes().collect());
    }

    #[test]
    fn the_documentation_lists_what_the_table_does() {
        let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("docs/verdicts.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).is_ok_and(|text| text == page()),
            "docs/verdicts.md differs from crates/wording/src/codes.rs; run \
             `UPDATE_DOCS=1 cargo test -p wording codes` and commit it"
        );
    }
}
