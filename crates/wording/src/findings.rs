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
    format!("{launch}{}", describe_event(finding))
}

fn describe_event(finding: &Finding) -> String {
    let place = |number: usize| {
        let place = finding.places.get(number);
        place.map_or("an unknown line", |place| &place.at)
    };
    let (here, there) = (place(0), place(1));
    let (block, thread) = (finding.block, finding.thread);
    let at = format!(" at {here}, block {block:?}, thread {thread:?}");
    let address = finding.address.unwrap_or(0);
    let other = finding.accesses.get(1);
    let by = other
        .and_then(|other| other.thread)
        .map_or("another thread".to_owned(), |id| format!("thread {id:?}"));
    match &finding.event {
        FindingEvent::Recorded(sentence) => sentence.clone(),
        FindingEvent::Race {
            memory,
            writes,
            block,
            apart,
            unfenced,
        } => {
            let memory = name_memory(memory);
            let [this, was] = writes.map(|writes| if writes { "write" } else { "read" });
            let accesses = format!("this {this} and the {was} at {there} by");
            let nothing = name_missing_order(*apart);
            let in_warp = format!(
                "within a warp on {memory}: {nothing} orders {accesses} {by} of the same warp{at}"
            );
            match finding.kind {
                FindingKind::WarpRace => format!("race {in_warp}"),
                FindingKind::WarpHazard => format!("hazard {in_warp}"),
                _ => {
                    let block = block.map_or(String::new(), |id| format!("block {id:?}, "));
                    let fence = unfenced.as_ref().map_or(String::new(), |Place { at: flag, .. }| {
                        format!("; the read of the flag at {flag} is neither an acquire nor followed by a fence")
                    });
                    format!("race on {memory}: {accesses} {block}{by} are not ordered{fence}{at}")
                }
            }
        }
        FindingEvent::NoProxyFence(reader) if finding.kind == FindingKind::GlobalRace => format!(
            "no fence.proxy.tensormap::generic.acquire orders this {reader} and the change of its tensor map at {there}{at}"
        ),
        FindingEvent::NoProxyFence(reader) => format!(
            "no fence.proxy.async orders this {reader}, which reads shared memory, and the write at {there} by {by}{at}"
        ),
        FindingEvent::MbarrierRace => {
            let owner = other.and_then(|other| other.block).unwrap_or(block);
            format!(
                "race on the mbarrier at shared memory {address:#x} of block {owner:?}: its mbarrier.init at {there} by {by} \
                 is not ordered before this by a fence.mbarrier_init and a barrier.cluster, nor by one that releases{at}"
            )
        }
        FindingEvent::AfterBlockEnd { name, owner } => format!(
            "this {name} goes to the shared memory of block {owner:?} of the cluster, and nothing orders it before that \
             block's exit{at}"
        ),
        FindingEvent::InFlight { name, clash, owner } => {
            let shared = MemoryPlace::Shared(address);
            let memory = name_memory(
                &owner.map_or(shared, |owner| MemoryPlace::Distributed { address, owner }),
            );
            let copy = format!("{name} from {there}");
            let orders = "no wgmma.fence orders this wgmma.mma_async and the";
            let what = match clash {
                Clash::WritesSource => {
                    format!("{memory} is written while {copy} may still read it")
                }
                Clash::Copies => format!(
                    "{memory} is overwritten by this cp.async while the one from {there} is still in flight"
                ),
                Clash::CopiesInBulk => format!(
                    "{memory} is overwritten by this cp.async.bulk while {copy} is still in flight"
                ),
                Clash::Reads => format!("{memory} is read while {copy} is still in flight"),
                Clash::Writes => format!("{memory} is written while {copy} is still in flight"),
                Clash::ThreadEnds => format!("the thread ends while {copy} is under way"),
                Clash::ThreadEndsReading => {
                    format!("the thread ends while {copy} may still read {memory}")
                }
                Clash::BlockEnds => format!(
                    "the block ends while {name} from {here} may still read its shared memory"
                ),
                Clash::NotAwaited => {
                    format!("the block ends before anybody has waited for the {name} to {memory}")
                }
                Clash::NoFence => "no wgmma.fence comes before this wgmma.mma_async".to_owned(),
                Clash::OtherRole => format!(
                    "this wgmma.mma_async uses a register of the one at {there} for something else, and no \
                     wgmma.wait_group has waited for that"
                ),
                Clash::OtherShape => format!(
                    "{orders} one of another shape at {there}, which add to the same register"
                ),
                Clash::NotFenced => format!("{orders} access at {there} to one of its registers"),
                Clash::Register { matrix, writes } => {
                    let way = if *writes { "written" } else { "read" };
                    format!(
                        "a register of the {matrix} of {copy} is {way} before a wgmma.wait_group has waited for it"
                    )
                }
            };
            format!("{what}{at}")
        }
        FindingEvent::DescriptorLeaves(matrix, variable, [from, to]) => format!(
            "the descriptor of {matrix} begins in `{variable}` and leads out of it, to {from:#x} to {to:#x} of shared \
             memory{at}"
        ),
        FindingEvent::DescriptorSwizzle(matrix, swizzles) => {
            let [own, tile] = swizzles.map(name_swizzle);
            format!(
                "the descriptor of {matrix} has {own}, and cp.async.bulk.tensor from {there} brought the tile with {tile}{at}"
            )
        }
        FindingEvent::DescriptorOverlap(matrix, offset, [distance, needed]) => format!(
            "the {offset} offset in the descriptor of {matrix} is {distance} bytes, and what lies next to each other takes \
             {needed}: parts of the matrix are the same bytes{at}"
        ),
        FindingEvent::ReadsAbsentLane { lane, members } => {
            format!(
                "shfl reads lane {lane}, which is not in the member mask {members:#010x} or has exited{at}"
            )
        }
        FindingEvent::NotAMember { lane, members } => {
            format!("lane {lane} is not in its own member mask {members:#010x}{at}")
        }
        FindingEvent::SplitWarpgroup => {
            format!("setmaxnreg was executed by some warps of a warpgroup and not by all{at}")
        }
        FindingEvent::PartialBarrier { id, passed, all } => {
            format!(
                "barrier {id} was passed by {passed} of {all} threads; the others have exited{at}"
            )
        }
        FindingEvent::InvalidFree(None) => {
            format!("free of {address:#x}: malloc did not give that;{at}")
        }
        FindingEvent::InvalidFree(Some(freed)) => {
            format!("free of {address:#x}: it was freed at {};{at}", freed.at)
        }
        FindingEvent::Leak(bytes) => {
            format!("{bytes} bytes are lost: nobody freed what malloc gave{at}")
        }
        FindingEvent::Unwritten { dependent, memory } => {
            let (what, memory) = (name_dependent(dependent), name_memory(memory));
            format!("{what}{at}, depends on {memory} that was never written, read at {there}")
        }
        FindingEvent::MachineDependence(circumstance, outcome) => {
            let (depends, with) = name_circumstance(*circumstance);
            let outcome = describe_outcome(outcome);
            format!(
                "the output depends on {depends}, taken at {here}: a launch on the same data with {with} {outcome}"
            )
        }
    }
}

fn name_memory(memory: &MemoryPlace) -> String {
    match memory {
        MemoryPlace::Shared(address) => format!("shared memory {address:#x}"),
        MemoryPlace::Distributed { address, owner } => {
            format!("shared memory {address:#x} of block {owner:?}")
        }
        MemoryPlace::Local(address) => format!("local memory {address:#x}"),
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
    let name = match dependent {
        Dependent::Branch => "this branch",
        Dependent::Execution => "whether this is done",
        Dependent::Effect => "what this does",
        Dependent::Address => "the address of this access",
        Dependent::Operand => "the operand of this",
        Dependent::Result => "the result of this",
        Dependent::TensorMap => "the tensor map that is published",
        Dependent::Stored(memory) => return format!("what is stored to {}", name_memory(memory)),
    };
    name.to_owned()
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
        ElsewhereOutcome::Stopped(message) => format!("stopped: {message}"),
        ElsewhereOutcome::Differs(Difference {
            at, elements: 1, ..
        }) => format!("gave a different value in {}", words::place(at)),
        ElsewhereOutcome::Differs(Difference { at, elements, .. }) => format!(
            "gave different values in {elements} output elements, the first of them {}",
            words::place(at)
        ),
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
        assert_eq!(serde_json::to_value(&old).unwrap()["event"], sentence);
        assert_eq!(problems::lacking(&old), Some("no barrier between the two"));
        let [write, read] = [0, 1].map(|at| problems::access(&old, &old.accesses[at]));
        assert_eq!((&*write, &*read), ("thread 224 writes", "reads"));
    }

    #[test]
    fn reads_what_it_writes_of_an_event() {
        for event in [FindingEvent::MbarrierRace, FindingEvent::Leak(u64::MAX)] {
            let found = Finding {
                event,
                ..old_race()
            };
            let written = serde_json::to_value(&found).unwrap();
            assert_eq!(serde_json::from_value::<Finding>(written).unwrap(), found);
        }
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
