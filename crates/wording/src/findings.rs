//! Writes a finding of the simulator as a sentence.

use super::{problems, words};
use model::*;

/// Returns the sentence of a finding, with its places, blocks and threads, and with which access follows the other.
pub fn message(finding: &Finding) -> String {
    let sentence = sentence(finding);
    match follows(finding) {
        Some(follows) => format!("{sentence}; {follows}"),
        None => sentence,
    }
}

/// Returns the sentence of a finding's first event.
pub fn sentence(finding: &Finding) -> String {
    let launch = finding
        .launch
        .map_or(String::new(), |launch| format!("in launch {launch}: "));
    let (here, there) = (place(finding, 0), place(finding, 1));
    let (block, thread) = (finding.block, finding.thread);
    let at = format!(" at {here}, block {block:?}, thread {thread:?}");
    let address = finding.address.unwrap_or(0);
    let other_thread = finding.accesses.get(1).and_then(|access| access.thread);
    let by = other_thread.map_or("another thread".to_owned(), |id| format!("thread {id:?}"));
    let what = match &finding.event {
        FindingEvent::Recorded(sentence) => return format!("{launch}{sentence}"),
        FindingEvent::Unwritten { dependent, memory } => {
            return format!(
                "{launch}{}{at}, depends on {} that was never written, read at {there}",
                name_dependent(dependent),
                name_memory(memory),
            );
        }
        FindingEvent::MachineDependence {
            circumstance,
            outcome,
        } => {
            let (depends, with) = name_circumstance(*circumstance);
            return format!(
                "{launch}the output depends on {depends}, taken at {here}: a launch on the same data with {with} {}",
                describe_outcome(outcome)
            );
        }
        FindingEvent::Race {
            memory,
            this,
            other,
            block,
            apart,
            unfenced,
        } => {
            let memory = name_memory(memory);
            let accesses = format!("this {this} and the {other} at {there} by");
            let in_warp = |title: &str| {
                let nothing = name_missing_order(*apart);
                format!("{title} on {memory}: {nothing} orders {accesses} {by} of the same warp")
            };
            match finding.kind {
                FindingKind::WarpRace => in_warp("race within a warp"),
                FindingKind::WarpHazard => in_warp("hazard within a warp"),
                _ => {
                    let block = block.map_or(String::new(), |id| format!("block {id:?}, "));
                    let fence = unfenced.as_ref().map_or(String::new(), |flag| {
                        let flag = &flag.at;
                        format!("; the read of the flag at {flag} is neither an acquire nor followed by a fence")
                    });
                    format!("race on {memory}: {accesses} {block}{by} are not ordered{fence}")
                }
            }
        }
        FindingEvent::NoProxyFence { reader } => format!(
            "no fence.proxy.async orders this {reader}, which reads shared memory, and the write at {there} by {by}"
        ),
        FindingEvent::NoTensorMapFence { reader } => format!(
            "no fence.proxy.tensormap::generic.acquire orders this {reader} and the change of its tensor map at {there}"
        ),
        FindingEvent::MbarrierRace { owner } => format!(
            "race on the mbarrier at shared memory {address:#x} of block {owner:?}: its mbarrier.init at {there} by {by} is \
             not ordered before this by a fence.mbarrier_init and a barrier.cluster, nor by one that releases"
        ),
        FindingEvent::AfterBlockEnd { instruction, owner } => format!(
            "this {instruction} goes to the shared memory of block {owner:?} of the cluster, and nothing orders it before \
             that block's exit"
        ),
        FindingEvent::CopyInFlight {
            memory,
            copy,
            clash,
        } => describe_copy(
            &name_memory(memory),
            &format!("{copy} from {there}"),
            *clash,
            there,
        ),
        FindingEvent::ThreadEnds { operation, reads } => {
            let does = reads.map_or("is under way".to_owned(), |from| {
                format!("may still read shared memory {from:#x}")
            });
            format!("the thread ends while {operation} from {there} {does}")
        }
        FindingEvent::BlockEnds { copy } => {
            format!("the block ends while {copy} from {here} may still read its shared memory")
        }
        FindingEvent::Unawaited { copy, to } => {
            format!(
                "the block ends before anybody has waited for the {copy} to shared memory {to:#x}"
            )
        }
        FindingEvent::Product { clash } => describe_product(*clash, there),
        FindingEvent::ProductInFlight { is_sum, this } => {
            let matrix = if *is_sum { "sums" } else { "A" };
            let way = if *this == AccessKind::Write {
                "written"
            } else {
                "read"
            };
            format!(
                "a register of the {matrix} of wgmma.mma_async from {there} is {way} before a wgmma.wait_group has waited \
                 for it"
            )
        }
        FindingEvent::DescriptorLeaves {
            matrix,
            variable,
            from,
            to,
        } => format!(
            "the descriptor of {matrix} begins in `{variable}` and leads out of it, to {from:#x} to {to:#x} of shared memory"
        ),
        FindingEvent::DescriptorSwizzle {
            matrix,
            descriptor,
            tile,
            copy,
        } => format!(
            "the descriptor of {matrix} has {}, and {copy} from {there} brought the tile with {}",
            name_swizzle(*descriptor),
            name_swizzle(*tile)
        ),
        FindingEvent::DescriptorOverlap {
            matrix,
            offset,
            distance,
            needed,
        } => format!(
            "the {offset} offset in the descriptor of {matrix} is {distance} bytes, and what lies next to each other takes \
             {needed}: parts of the matrix are the same bytes"
        ),
        FindingEvent::ReadsAbsentLane { lane, members } => format!(
            "shfl reads lane {lane}, which is not in the member mask {members:#010x} or has exited"
        ),
        FindingEvent::NotAMember { lane, members } => {
            format!("lane {lane} is not in its own member mask {members:#010x}")
        }
        FindingEvent::SplitWarpgroup {} => {
            "setmaxnreg was executed by some warps of a warpgroup and not by all".to_owned()
        }
        FindingEvent::PartialBarrier {
            barrier,
            passed,
            threads,
        } => format!(
            "barrier {barrier} was passed by {passed} of {threads} threads; the others have exited"
        ),
        FindingEvent::InvalidFree { freed } => {
            let wrong = freed
                .as_ref()
                .map_or("malloc did not give that".to_owned(), |freed| {
                    format!("it was freed at {}", freed.at)
                });
            format!("free of {address:#x}: {wrong};")
        }
        FindingEvent::Leak { bytes } => {
            format!("{bytes} bytes are lost: nobody freed what malloc gave")
        }
    };
    format!("{launch}{what}{at}")
}

/// Returns a place of a finding: `file.cu:12 inlined at file.cu:40`.
fn place(finding: &Finding, number: usize) -> &str {
    finding
        .places
        .get(number)
        .map_or("an unknown line", |place| &place.at)
}

fn describe_copy(memory: &str, copy: &str, clash: CopyClash, there: &str) -> String {
    let way = match clash {
        CopyClash::WritesSource => {
            return format!("{memory} is written while {copy} may still read it");
        }
        CopyClash::Copies => {
            return format!(
                "{memory} is overwritten by this cp.async while the one from {there} is still in flight"
            );
        }
        CopyClash::CopiesInBulk => "overwritten by this cp.async.bulk",
        CopyClash::Reads => "read",
        CopyClash::Writes => "written",
    };
    format!("{memory} is {way} while {copy} is still in flight")
}

fn describe_product(clash: ProductClash, there: &str) -> String {
    match clash {
        ProductClash::NoFence => "no wgmma.fence comes before this wgmma.mma_async".to_owned(),
        ProductClash::OtherRole => format!(
            "this wgmma.mma_async uses a register of the one at {there} for something else, and no wgmma.wait_group has \
             waited for that"
        ),
        ProductClash::OtherShape => format!(
            "no wgmma.fence orders this wgmma.mma_async and the one of another shape at {there}, which add to the same \
             register"
        ),
        ProductClash::Access => format!(
            "no wgmma.fence orders this wgmma.mma_async and the access at {there} to one of its registers"
        ),
    }
}

fn name_memory(memory: &MemoryPlace) -> String {
    match memory {
        MemoryPlace::Shared {
            address,
            block: None,
        } => format!("shared memory {address:#x}"),
        MemoryPlace::Shared {
            address,
            block: Some(block),
        } => format!("shared memory {address:#x} of block {block:?}"),
        MemoryPlace::Local { address } => format!("local memory {address:#x}"),
        MemoryPlace::Buffer { name, byte } => format!("`{name}` at byte {byte}"),
    }
}

/// Names what does not order two lanes of a warp, as the subject of "orders this access".
fn name_missing_order(apart: Option<Apart>) -> &'static str {
    match apart {
        None => "no __syncwarp()",
        Some(Apart::Branches) => "its lanes can be in different branches, and no __syncwarp()",
        Some(Apart::Iterations) => "its lanes can be in different iterations, and no __syncwarp()",
        Some(Apart::Decides) => "what is read decides a branch, and no __syncwarp()",
    }
}

fn name_swizzle(swizzle: Swizzle) -> &'static str {
    match swizzle {
        Swizzle::None => "no swizzle",
        Swizzle::Bytes32 => "a swizzle of 32 bytes",
        Swizzle::Bytes64 => "a swizzle of 64 bytes",
        Swizzle::Bytes128 => "a swizzle of 128 bytes",
    }
}

fn name_dependent(dependent: &Dependent) -> String {
    match dependent {
        Dependent::Branch => "this branch",
        Dependent::Execution => "whether this is done",
        Dependent::Effect => "what this does",
        Dependent::Address => "the address of this access",
        Dependent::Operand => "the operand of this",
        Dependent::Result => "the result of this",
        Dependent::TensorMap => "the tensor map that is published",
        Dependent::Stored { name, byte } => {
            return format!("what is stored to `{name}` at byte {byte}");
        }
    }
    .to_owned()
}

/// Returns the words for what a result depends on, and for what was varied to find that out.
fn name_circumstance(circumstance: Circumstance) -> (&'static str, &'static str) {
    match circumstance {
        Circumstance::Multiprocessor => (
            "which multiprocessor ran it (%smid, %nsmid)",
            "blocks on other multiprocessors",
        ),
        Circumstance::WarpSlot => (
            "which warp slot ran it (%warpid, %nwarpid)",
            "warps in other slots",
        ),
        Circumstance::GridNumber => ("the number of the grid (%gridid)", "another number"),
        Circumstance::Time => ("when it ran (%clock, %globaltimer, %pm)", "another clock"),
        Circumstance::SharedSize => (
            "how much shared memory the system adds (%total_smem_size)",
            "another allocation unit",
        ),
        Circumstance::DriverRegister => (
            "a register that the driver sets as it likes (%envreg)",
            "another value",
        ),
        Circumstance::Addresses => (
            "bits of an address that no allocation promises",
            "the same buffers at other addresses",
        ),
    }
}

fn describe_outcome(outcome: &ElsewhereOutcome) -> String {
    match outcome {
        ElsewhereOutcome::Stopped { message } => format!("stopped: {message}"),
        ElsewhereOutcome::Differs { at, elements } => {
            let first = words::place(at);
            match elements {
                1 => format!("gave a different value in {first}"),
                _ => format!(
                    "gave different values in {elements} output elements, the first of them {first}"
                ),
            }
        }
    }
}

/// Says which access follows the other one: `the write is from the next call`.
pub fn follows(finding: &Finding) -> Option<String> {
    let (access, follows) = finding
        .accesses
        .iter()
        .find_map(|access| Some((access, access.follows?)))?;
    let by = access
        .thread
        .map_or(String::new(), |id| format!(" of {}", problems::thread(id)));
    let from = match follows {
        Follows::NextCall => "the next call",
        Follows::NextTurn => "the next turn of the loop",
    };
    let what = match access.kind {
        AccessKind::Other => "access",
        kind => kind.name(),
    };
    Some(format!("the {what}{by} is from {from}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns a race as a record had it before places had calls and accesses had blocks.
    fn old_race() -> Finding {
        let place =
            |at: &str| json!({"at": at, "line": {"file": "k.cu", "number": 3, "text": null}});
        serde_json::from_value(json!({
            "kind": "shared_race",
            "message": "race on shared memory 0x0: this write and the read are not ordered",
            "places": [place("k.cu:3 inlined at k.cu:6"), place("k.cu:5 inlined at k.cu:5")],
            "accesses": [{"kind": "write", "thread": [224, 0, 0]}, {"kind": "read"}],
            "block": [0, 0, 0],
            "thread": [224, 0, 0],
            "address": 0,
            "times": 56,
        }))
        .unwrap()
    }

    #[test]
    fn reads_finding_of_an_older_record() {
        let old = old_race();
        let sentence = "race on shared memory 0x0: this write and the read are not ordered";
        assert_eq!(message(&old), sentence);
        assert_eq!(problems::lacking(&old), Some("no barrier between the two"));
        let [write, read] = [0, 1].map(|at| problems::access(&old, &old.accesses[at]));
        assert_eq!((&*write, &*read), ("thread 224 writes", "reads"));
    }

    #[test]
    fn says_which_access_is_from_the_next_call() {
        let mut race = old_race();
        race.accesses[0].follows = Some(Follows::NextCall);
        assert_eq!(
            message(&race),
            format!(
                "{}; the write of thread 224 is from the next call",
                sentence(&race)
            )
        );
    }
}
